"""Image classification: one class for each image, by a Vision Transformer (Dosovitskiy et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.images.batches import RowDraws, augment
from headwise.images.prepared import ImageFormat, PreparedImages, prepare_images
from headwise.images.sets import Labeled
from headwise.models.build import load_filled
from headwise.models.vision import ImageClassifier, build_classifier
from headwise.nn.device import find_device, find_precision
from headwise.tasks.base import Evaluation, EvaluationRequest, Measured, TaskKind
from headwise.training.loss import LossSum

# What only tasks on text read.
NO_TEXT = (
    "data",
    "subwords",
    "decoding",
    "training.validate_bleu",
    "training.validate_beam",
    "training.r_drop",
)


@dataclass(frozen=True)
class ImageBatch:
    """Normalized images (batch, channels, height, width) float32 and their classes (batch,), on the CPU."""

    images: Tensor
    labels: Tensor
    rows: list[int]  # which they are, for messages

    @property
    def target_tokens(self) -> int:
        """Images to be classified."""
        return len(self.rows)


class ImageClassificationTask:
    """Learn the classes of prepared images."""

    def __init__(self, config: Config, prepared: PreparedImages, model: ImageClassifier) -> None:
        self._measured = Measured(model)
        self.config, self.prepared, self.model = config, prepared, model
        self.device = next(model.parameters()).device

    @property
    def d_model(self) -> int:
        """Width in the paper's learning-rate formula."""
        return self.config.model.d_model

    def batches(self, rank: int, world: int) -> RowDraws[ImageBatch]:
        """Training batches of one rank; `batch.tokens` bounds the patches, class tokens included."""
        options, train, form = self.config.image_classification, self.prepared.train, self.prepared.format

        def make(rows: NDArray[np.int64], random: np.random.Generator) -> ImageBatch:
            images = augment(train.images[rows], options.shift, options.flip, random)
            return _batch(form, Labeled(images, train.labels[rows]), rows)

        return RowDraws(
            len(train),
            images_per_batch(self.config, self.prepared.format),
            make,
            seed=self.config.training.seed,
            identity={"shift": options.shift, "flip": options.flip, **self.identity()},
            rank=rank,
            world=world,
        )

    def loss(self, batch: ImageBatch) -> LossSum:
        """Label-smoothed cross-entropy summed over images."""
        logits = self.model(batch.images.to(self.device)).float()
        labels = batch.labels.to(self.device)
        smoothing = self.config.training.label_smoothing
        total = functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
        nll = functional.cross_entropy(logits.detach(), labels, reduction="sum")
        return LossSum(total, nll, batch.target_tokens)

    def validate(self, *, final: bool = False) -> dict[str, float]:
        """Loss (nats per image, without smoothing) and accuracy (percent) on the development images, if any."""
        if not len(self.prepared.dev):
            return {}
        return self._measured.once("dev", self._scores)

    def _scores(self) -> dict[str, float]:
        logits = classify(self.model, self.prepared.dev, self.prepared.format, self.config)
        return score_logits(logits, torch.from_numpy(self.prepared.dev.labels.copy()))

    def locate(self, batch: ImageBatch) -> str:
        """Name the images of a batch."""
        return f"training images {', '.join(map(str, batch.rows[:10]))}" + (
            " …" if len(batch.rows) > 10 else ""
        )

    def identity(self) -> dict[str, str]:
        """The checksum of the images."""
        return self.prepared.identity()


class ImageClassification(TaskKind):
    """Say what is in an image."""

    name = "image_classification"
    unused = NO_TEXT
    may_change = ("image_classification.source",)
    scores = ("accuracy",)
    after = "try `headwise evaluate {run}` and `headwise patches {run} --row 1 -o patches.png`"

    def prepare(  # noqa: D102
        self, config: Config, directory: Path, *, expected: str | None, say: Callable[[str], None]
    ) -> PreparedImages:
        return prepare_images(config.image_classification, directory, expected=expected, say=say)

    def build(self, config: Config, prepared: PreparedImages) -> ImageClassifier:  # noqa: D102
        return _build(config, prepared.format)

    def task(  # noqa: D102
        self, config: Config, prepared: PreparedImages, model: ImageClassifier
    ) -> ImageClassificationTask:
        return ImageClassificationTask(config, prepared, model)

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Accuracy on the images that were held out, of all and of each class."""
        test, form = held_out(request), ImageFormat.load(request.run)
        model = load_classifier(
            request.run, request.config, device=request.device, precision=request.precision
        )
        logits, labels = classify(model, test, form, request.config), torch.from_numpy(test.labels.copy())
        said = logits.argmax(dim=-1)
        scores = score_logits(logits, labels)
        each = {
            name: 100.0 * (said[labels == number] == number).double().mean().item()
            for number, name in enumerate(form.classes)
            if bool((labels == number).any())
        }
        lines = [
            f"accuracy  {scores['accuracy']:6.2f} %",
            f"loss      {scores['loss']:8.4f} nats per image",
            *(f"  {name:<12} {share:6.2f} %" for name, share in each.items()),
            f"of {len(test):,} held-out images, {int((said != labels).sum()):,} wrong",
        ]
        record = {**scores, "images": len(test), "classes": each}
        return Evaluation(record, lines, outputs=[form.classes[number] for number in said.tolist()])


def images_per_batch(config: Config, form: ImageFormat) -> int:
    """How many images `batch.tokens` holds, each with its patches and its class token."""
    side = config.image_classification.patch
    tokens = form.shape[1] * form.shape[2] // side**2 + (config.image_classification.pooling == "class")
    return max(1, config.batch.tokens // tokens)


def held_out(request: EvaluationRequest) -> Labeled:
    """The test images of a run's prepared folder; raises `ConfigError` for files, which it has no use for."""
    if request.files:
        raise ConfigError(
            f"evaluate: expected no file, as a run of task {request.config.task} is scored on the images that were "
            f"held out, found {request.files[0]}"
        )
    return PreparedImages.open(request.run / "prepared").test


def load_classifier(
    run: Path, config: Config, *, device: str = "auto", precision: str = "float32"
) -> ImageClassifier:
    """Load the trained model of a run, in evaluation mode; raises `CheckpointError` and `DeviceError`."""
    place = find_device(device)
    form = ImageFormat.load(run)
    model = load_filled(lambda: _build(config, form), run / "model.safetensors")
    model.compute_dtype = find_precision(precision, place)
    return model.to(place).eval()


@torch.no_grad()
def classify(model: ImageClassifier, images: Labeled, form: ImageFormat, config: Config) -> Tensor:
    """Logits of every image, (count, classes) float32 on the CPU."""
    device, size = next(model.parameters()).device, images_per_batch(config, form)
    return torch.cat([model(part.images.to(device)).float().cpu() for part in _batches(form, images, size)])


def score_logits(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Mean negative log-likelihood in nats, and the percentage whose largest logit is the right one."""
    right = (logits.argmax(dim=-1) == labels).double().mean().item()
    return {"loss": functional.cross_entropy(logits, labels).item(), "accuracy": 100.0 * right}


def _batches(form: ImageFormat, images: Labeled, size: int) -> Iterator[ImageBatch]:
    for start in range(0, len(images), size):
        rows = np.arange(start, min(start + size, len(images)))
        yield _batch(form, images[rows], rows)


def _batch(form: ImageFormat, images: Labeled, rows: NDArray[np.int64]) -> ImageBatch:
    pixels = torch.from_numpy(form.normalized(images.images))
    return ImageBatch(pixels, torch.from_numpy(images.labels.copy()), rows.tolist())


def _build(config: Config, form: ImageFormat) -> ImageClassifier:
    options = config.image_classification
    class_token = options.pooling == "class"
    return build_classifier(
        config.model, form.shape, options.patch, len(form.classes), class_token=class_token
    )
