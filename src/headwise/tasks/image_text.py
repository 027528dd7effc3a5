"""Contrastive learning of images and captions (CLIP, Radford et al. 2021), on generated pictures of digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.config import Config
from headwise.data.stream import PlannedStream
from headwise.errors import ConfigError
from headwise.evaluation.labels import accuracy_at
from headwise.images.batches import draws
from headwise.images.captions import LEAST_CANVAS, PHRASINGS, CaptionWords, Facts, draw_picture
from headwise.images.prepared import ImageFormat, PreparedImages, prepare_images
from headwise.images.sets import DIGITS, Labeled
from headwise.models.build import load_trained
from headwise.models.contrastive import ImageText, contrastive_loss
from headwise.tasks.base import Evaluation, EvaluationRequest, PreparedTask, TaskKind
from headwise.tasks.image_classification import held_out
from headwise.text.tokens.subwords import PAD
from headwise.training.loss import LossSum

TEST_SEED = 12  # seed of the pictures generated from held-out digits
_DEV_SEED, _DRAWS = 11, 400  # seed of the development pictures, and the least number of pictures to generate


@dataclass(frozen=True)
class PairBatch:
    """Batch of pictures (batch, 1, canvas, canvas) float32 and their captions, on the CPU."""

    images: Tensor
    tokens: Tensor  # (batch, words) int64, padded on the right
    rows: list[int]  # indices of the digits that the pictures were generated from, for messages

    @property
    def mask(self) -> Tensor:
        """Mask of the captions, (batch, words) bool, True at words and False at padding."""
        return self.tokens != PAD

    @property
    def target_tokens(self) -> int:
        """Number of image-caption pairs."""
        return len(self.rows)


class ImageTextTask(PreparedTask[PreparedImages, ImageText]):
    """Training task of contrastive learning; every epoch generates new pairs from the training digits."""

    def __init__(self, config: Config, prepared: PreparedImages, model: ImageText) -> None:
        super().__init__(config, prepared, model)
        self.words = CaptionWords()

    def batches(self) -> PlannedStream[PairBatch]:
        """Return the training batches, without the combinations of digit and place held out for testing."""
        canvas, train, form = self.config.image_text.canvas, self.prepared.train, self.prepared.format

        def make(rows: NDArray[np.int64], random: np.random.Generator) -> PairBatch:
            drawings = [
                draw_picture(*_digit(train, form, row), canvas, random, held_out=False) for row in rows.tolist()
            ]
            captions = [facts.caption(int(random.integers(len(PHRASINGS)))) for _, facts in drawings]
            return make_pairs([picture for picture, _ in drawings], captions, self.words, rows.tolist())

        return draws(
            len(train),
            self.config.image_text.pairs,
            make,
            seed=self.config.training.seed,
            identity={"canvas": canvas, **self.identity()},
        )

    def loss(self, batch: PairBatch) -> LossSum:
        """Return CLIP's symmetric loss, summed over pairs; the negatives are the other pairs of the batch."""
        logits = self.model(*(part.to(self.device) for part in (batch.images, batch.tokens, batch.mask)))
        total = contrastive_loss(logits)
        return LossSum(total, total.detach(), batch.target_tokens)

    def _scores(self) -> dict[str, float]:
        """Return the loss and retrieval accuracy (percent) on pictures generated from the development digits."""
        gallery = make_gallery(self.prepared.dev, self.prepared.format, self.config, _DEV_SEED, held_out=None)
        logits = compare(self.model, gallery, self.words)
        pairs = self.config.image_text.pairs
        # As in training, the negatives of a pair are the other pairs of its batch.
        batches = [logits[start : start + pairs, start : start + pairs] for start in range(0, len(logits), pairs)]
        loss = sum(contrastive_loss(batch).item() for batch in batches) / len(logits)
        return {"loss": loss, **_accuracies(logits)}

    def locate(self, batch: PairBatch) -> str:
        """Return the indices of the images of a batch."""
        return f"pictures of training images {', '.join(map(str, batch.rows[:10]))}"


class ImageTextLearning(TaskKind):
    """Task description of contrastive learning of images and captions."""

    name = "image_text"
    scores = ("text_to_image_at_1", "image_to_text_at_1")
    writes = False
    shares_batches = False  # because the negatives of a pair are the others of its batch
    after = "try `headwise evaluate {run}` and `headwise explain {run} --row 1 -o patches.png`"

    def check(self, config: Config) -> None:  # noqa: D102
        super().check(config)
        options, longest = config.image_text, CaptionWords().longest
        if options.source != DIGITS:
            raise ConfigError(
                f"image_text.source: expected {DIGITS}, of which captions are known, found {options.source}"
            )
        if options.canvas < LEAST_CANVAS:
            raise ConfigError(
                f"image_text.canvas: expected at least {LEAST_CANVAS} pixels, on which every digit of 8 can be at each "
                f"of the nine places, found {options.canvas}"
            )
        if config.model.max_length < longest:
            raise ConfigError(
                f"model.max_length: expected at least the {longest} words of a caption, found {config.model.max_length}"
            )

    def prepare(  # noqa: D102
        self, config: Config, directory: Path, *, expected: str | None, say: Callable[[str], None]
    ) -> PreparedImages:
        return prepare_images(config.image_text, directory, expected=expected, say=say)

    def build(self, config: Config, prepared: PreparedImages) -> ImageText:  # noqa: D102
        return _build(config)

    def task(self, config: Config, prepared: PreparedImages, model: ImageText) -> ImageTextTask:  # noqa: D102
        return ImageTextTask(config, prepared, model)

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Score retrieval on pictures of held-out digits, for seen and held-out combinations of digit and place."""
        test, form = held_out(request), ImageFormat.load(request.run)
        model = load_image_text(request.run, request.config, device=request.device, precision=request.precision)
        words = CaptionWords()
        record: dict[str, Any] = {}
        lines = [f"{'':<42} text→image      image→text", f"{'':<42}  @1      @5      @1      @5"]
        for name, is_held_out in (("seen", False), ("held_out", True)):
            gallery = make_gallery(test, form, request.config, TEST_SEED, held_out=is_held_out)
            scores = _accuracies(compare(model, gallery, words))
            record[name] = {**scores, "pictures": len(gallery)}
            title = "digit and place seen together in training" if name == "seen" else "never seen together"
            lines.append(
                f"{title:<42} {' '.join(f'{scores[key]:6.2f} ' for key in _KEYS)} of {len(gallery):,} pictures"
            )
        return Evaluation(record, lines)


@dataclass(frozen=True)
class Shown:
    """A generated picture, its facts, and the index of the digit that it was generated from."""

    picture: NDArray[np.float32]
    facts: Facts
    row: int


_KEYS = ("text_to_image_at_1", "text_to_image_at_5", "image_to_text_at_1", "image_to_text_at_5")


def make_gallery(
    digits: Labeled, form: ImageFormat, config: Config, seed: int, *, held_out: bool | None
) -> list[Shown]:
    """Generate pictures of digits, no two with the same facts, so that each caption has one right picture."""
    random = np.random.default_rng(seed)
    gallery: dict[Facts, Shown] = {}
    for row in range(max(_DRAWS, len(digits))):
        row %= len(digits)
        digit, label = _digit(digits, form, row)
        picture, facts = draw_picture(digit, label, config.image_text.canvas, random, held_out=held_out)
        gallery.setdefault(facts, Shown(picture, facts, row))
    return list(gallery.values())


@torch.no_grad()
def compare(model: ImageText, gallery: Sequence[Shown], words: CaptionWords) -> Tensor:
    """Return the logits (pictures, captions), float32 on the CPU; the captions use the phrasings in turn."""
    captions = [shown.facts.caption(number % len(PHRASINGS)) for number, shown in enumerate(gallery)]
    pairs = make_pairs([shown.picture for shown in gallery], captions, words, [shown.row for shown in gallery])
    device = next(model.parameters()).device
    return model(*(part.to(device) for part in (pairs.images, pairs.tokens, pairs.mask))).float().cpu()


def make_pairs(
    pictures: Sequence[NDArray[np.float32]], captions: Sequence[str], words: CaptionWords, rows: list[int]
) -> PairBatch:
    """Collate pictures and captions into a batch; pixels are scaled to -1 … 1."""
    ids = [torch.tensor(words.encode(caption)) for caption in captions]
    tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=PAD)
    return PairBatch(torch.from_numpy(np.stack(pictures))[:, None] * 2 - 1, tokens, rows)


def load_image_text(run: Path, config: Config, *, device: str = "auto", precision: str = "float32") -> ImageText:
    """Load the trained model of a run, in evaluation mode; raises `CheckpointError` and `DeviceError`."""
    return load_trained(lambda: _build(config), run, device, precision)


def _accuracies(logits: Tensor) -> dict[str, float]:
    by_image = logits.numpy()
    values = [accuracy_at(side, k) for side in (by_image.T, by_image) for k in (1, 5)]
    return dict(zip(_KEYS, values, strict=True))


def _digit(digits: Labeled, form: ImageFormat, row: int) -> tuple[NDArray[np.float32], int]:
    return digits.images[row, 0].astype(np.float32) / form.full, int(digits.labels[row])


def _build(config: Config) -> ImageText:
    options = config.image_text
    shape = (1, options.canvas, options.canvas)
    return ImageText(config.model, shape, options.patch, len(CaptionWords()), options.width)
