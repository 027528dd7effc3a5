"""Analysis of images with a run's model: held-out images of the run, or others of the same size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from headwise.analysis.interventions import (
    Copies,
    Intervention,
    intervening,
    require_no_translation,
    switched_off,
)
from headwise.analysis.patches import ImageAttention, Maps, classify, record_attention, word_maps
from headwise.analysis.recording import ForwardPass
from headwise.analysis.trace import Side
from headwise.config import Config
from headwise.errors import CheckpointError, ConfigError
from headwise.images.captions import CaptionWords
from headwise.images.prepared import ImageFormat, PreparedImages
from headwise.images.sets import Labeled
from headwise.models.contrastive import ImageText
from headwise.models.vision import ImageClassifier, VisionTransformer
from headwise.nn.recording import recording
from headwise.tasks.image_classification import load_classifier
from headwise.tasks.image_text import TEST_SEED, load_image_text, make_gallery

Model = TypeVar("Model", ImageClassifier, ImageText)
TASKS = ("image_classification", "image_text")


@dataclass(frozen=True)
class HeldOutImage:
    """A held-out image (channels, height, width), from 0 to 1, and its gold label: a class, or a caption."""

    pixels: Maps
    truth: str


@dataclass(frozen=True)
class SeenImage:
    """A model's output for an image.

    seen: the attention over patches. probabilities: a classifier's class probabilities, (classes,). words: the words
    of the caption, and shares: their contributions to its similarity to the image, (words, rows, columns), for an
    image-text model (`word_maps`).
    """

    seen: ImageAttention
    probabilities: Maps | None = None
    words: tuple[str, ...] = ()
    shares: Maps | None = None


class Viewer(ABC, Generic[Model]):
    """The model of one run, and the run's held-out images."""

    shape: tuple[int, int, int]  # of an image: channels, height, width
    classes: tuple[str, ...]

    def __init__(self, run: Path, model: Model) -> None:
        self.run, self.copies = run, Copies(model)

    @property
    def model(self) -> Model:
        """The run's model."""
        return self.copies.trained

    @property
    def vision(self) -> VisionTransformer:
        """The encoder of images."""
        return self.model.vision

    def __len__(self) -> int:
        """Number of held-out images; 0 if the run's prepared images no longer exist."""
        try:
            return self._count()
        except CheckpointError:
            return 0

    @abstractmethod
    def _count(self) -> int: ...

    @abstractmethod
    def held_out(self, row: int) -> HeldOutImage:
        """Return a held-out image, counted from 0; raises `CheckpointError` if the prepared images no longer exist."""

    @abstractmethod
    def view(self, pixels: Maps, caption: str, interventions: Sequence[Intervention] = ()) -> SeenImage:
        """Run the model on an image (channels, height, width), from 0 to 1; `caption` is for an image-text model.

        Interventions are on the encoder of the image. Raises `ConfigError` for one that it doesn't allow, for a caption
        with unknown words, and for a caption given to a classifier.
        """

    @contextmanager
    def changed(self, interventions: Sequence[Intervention]) -> Iterator[Model]:
        """Context manager that gives a private copy of the model with interventions on its encoder of images."""
        require_no_translation(interventions)
        with self.copies.lent() as copy, intervening(copy.vision, interventions):
            yield copy

    @cached_property
    def _test(self) -> Labeled:
        return PreparedImages.open(self.run / "prepared").test


class ClassifierViewer(Viewer[ImageClassifier]):
    """Viewer of a run of task image_classification."""

    def __init__(self, run: Path, config: Config, device: str = "auto") -> None:
        super().__init__(run, load_classifier(run, config, device=device))
        self._form = ImageFormat.load(run)
        self.shape, self.classes = self._form.shape, self._form.classes

    def _count(self) -> int:
        return len(self._test)

    def held_out(self, row: int) -> HeldOutImage:  # noqa: D102
        pixels = self._test.images[row].astype(np.float32) / self._form.full
        return HeldOutImage(pixels, self.classes[int(self._test.labels[row])])

    def view(  # noqa: D102
        self, pixels: Maps, caption: str = "", interventions: Sequence[Intervention] = ()
    ) -> SeenImage:
        if caption:
            raise ConfigError(f"caption: expected none, as a classifier reads none, found {caption!r}")
        with self.changed(interventions) as model:
            classified = classify(model, self.normalized(pixels))
        return SeenImage(classified, classified.probabilities)

    def normalized(self, pixels: Maps) -> Tensor:
        """Return an image (channels, height, width), from 0 to 1, as the model reads it."""
        image = torch.from_numpy(self._form.standardized(pixels))
        return image.to(next(self.model.parameters()).device)

    def record(self, pixels: Maps, interventions: Sequence[Intervention] = ()) -> ForwardPass:
        """Record the classification of an image (channels, height, width), from 0 to 1; raises `ConfigError`."""
        with self.changed(interventions) as model, torch.inference_mode():
            off = switched_off(self.model, model)
            with recording(model, calls=True) as recorded:
                logits = model(self.normalized(pixels)[None]).float()
        rows, columns = self.vision.grid
        pieces = [f"{row + 1}, {column + 1}" for row in range(rows) for column in range(columns)]
        best = int(logits[0].argmax())
        return ForwardPass(
            trained=self.model,
            interventions=tuple(interventions),
            off=off,
            sides={
                "encoder": _named(pieces if self.vision.class_token is None else ["class", *pieces]),
                "pooled": _named(["image"]),
            },
            recording=recorded,
            logits=logits,
            chosen=_named([self.classes[best]], [best]),
            what="the predicted class",
            names=lambda ids: [self.classes[i] for i in ids],
        )


def _named(pieces: Sequence[str], ids: Sequence[int] | None = None) -> Side:
    """Return what isn't text as a side: each piece is a word."""
    numbers = tuple(range(len(pieces)))
    return Side(" ".join(pieces), numbers if ids is None else tuple(ids), tuple(pieces), tuple(pieces), numbers)


class CaptionViewer(Viewer[ImageText]):
    """Viewer of a run of task image_text; its held-out images are digits drawn into pictures, each with a caption."""

    classes = ()

    def __init__(self, run: Path, config: Config, device: str = "auto") -> None:
        super().__init__(run, load_image_text(run, config, device=device))
        self._config, self._words = config, CaptionWords()
        self.shape = (1, config.image_text.canvas, config.image_text.canvas)

    @cached_property
    def _gallery(self) -> Sequence[HeldOutImage]:
        form = ImageFormat.load(self.run)
        gallery = make_gallery(self._test, form, self._config, TEST_SEED, held_out=None)
        return [HeldOutImage(entry.picture[None], entry.facts.caption(0)) for entry in gallery]

    def _count(self) -> int:
        return len(self._gallery)

    def held_out(self, row: int) -> HeldOutImage:  # noqa: D102
        return self._gallery[row]

    def view(  # noqa: D102
        self, pixels: Maps, caption: str, interventions: Sequence[Intervention] = ()
    ) -> SeenImage:
        if unknown := self._words.unknown(caption):
            raise ConfigError(f"caption: expected words that captions have, found {unknown[0]!r}")
        image = torch.from_numpy(pixels) * 2 - 1
        ids = self._words.encode(caption)
        words = tuple(map(self._words.name, ids))
        with self.changed(interventions) as model:
            attention = record_attention(model.vision, image.to(next(model.parameters()).device))
            return SeenImage(attention, words=words, shares=word_maps(model, image, ids))


def open_viewer(run: Path, config: Config, device: str = "auto") -> Viewer:
    """Load the model of a run of one of `TASKS`; raises `CheckpointError` or `DeviceError`."""
    kind = ClassifierViewer if config.task == "image_classification" else CaptionViewer
    return kind(run, config, device)
