"""Image classification with a Vision Transformer (Dosovitskiy et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from headwise.config import Config
from headwise.data.stream import PlannedStream
from headwise.errors import ConfigError
from headwise.images.batches import augment, draws
from headwise.images.prepared import ImageFormat, PreparedImages, prepare_images
from headwise.images.sets import Labeled
from headwise.models.build import load_trained
from headwise.models.vision import ImageClassifier
from headwise.tasks.base import Evaluation, EvaluationRequest, PreparedTask, TaskKind
from headwise.training.loss import LossSum, choice_loss


@dataclass(frozen=True)
class ImageBatch:
    """Batch of normalized images (batch, channels, height, width) float32 and class ids (batch,), on the CPU."""

    images: Tensor
    labels: Tensor
    rows: list[int]  # indices of the images, for messages

    @property
    def target_tokens(self) -> int:
        """Number of images."""
        return len(self.rows)


class ImageClassificationTask(PreparedTask[PreparedImages, ImageClassifier]):
    """Training task of image classification."""

    def batches(self) -> PlannedStream[ImageBatch]:
        """Return the training batches; `batch.tokens` bounds the patches, class tokens included."""
        options, train, form = self.config.image_classification, self.prepared.train, self.prepared.format

        def make(rows: NDArray[np.int64], random: np.random.Generator) -> ImageBatch:
            images = augment(train.images[rows], options.shift, options.flip, random)
            pixels = torch.from_numpy(form.normalized(images))
            return ImageBatch(pixels, torch.from_numpy(train.labels[rows]), rows.tolist())

        return draws(
            len(train),
            images_per_batch(self.config, self.prepared.format),
            make,
            seed=self.config.training.seed,
            identity={"shift": options.shift, "flip": options.flip, **self.identity()},
        )

    def loss(self, batch: ImageBatch) -> LossSum:
        """Return the label-smoothed cross-entropy, summed over images."""
        logits = self.model(batch.images.to(self.device)).float()
        return choice_loss(logits, batch.labels.to(self.device), self.config.training.label_smoothing)

    def _scores(self) -> dict[str, float]:
        """Return the loss (nats per image, without smoothing) and accuracy (percent) on the development images."""
        logits = classify(self.model, self.prepared.dev, self.prepared.format, self.config)
        return score_logits(logits, torch.from_numpy(self.prepared.dev.labels.copy()))

    def locate(self, batch: ImageBatch) -> str:
        """Return the indices of the images of a batch."""
        return f"training images {', '.join(map(str, batch.rows[:10]))}" + (" …" if len(batch.rows) > 10 else "")


class ImageClassification(TaskKind):
    """Task description of image classification."""

    name = "image_classification"
    scores = ("accuracy",)
    after = "try `headwise evaluate {run}` and `headwise explain {run} --row 1 -o patches.png`"

    def prepare(  # noqa: D102
        self, config: Config, directory: Path, *, expected: str | None, say: Callable[[str], None]
    ) -> PreparedImages:
        return prepare_images(config.image_classification, directory, expected=expected, say=say)

    def build(self, config: Config, prepared: PreparedImages) -> ImageClassifier:  # noqa: D102
        return build_for_images(config, prepared.format)

    def task(  # noqa: D102
        self, config: Config, prepared: PreparedImages, model: ImageClassifier
    ) -> ImageClassificationTask:
        return ImageClassificationTask(config, prepared, model)

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Score a trained run on the held-out images: accuracy in total and per class, and loss."""
        test, form = held_out(request), ImageFormat.load(request.run)
        model = load_classifier(request.run, request.config, device=request.device, precision=request.precision)
        logits, labels = classify(model, test, form, request.config), torch.from_numpy(test.labels.copy())
        predicted = logits.argmax(dim=-1)
        scores = score_logits(logits, labels)
        class_accuracies = {
            name: 100.0 * (predicted[labels == number] == number).double().mean().item()
            for number, name in enumerate(form.classes)
            if bool((labels == number).any())
        }
        lines = [
            f"accuracy  {scores['accuracy']:6.2f} %",
            f"loss      {scores['loss']:8.4f} nats per image",
            *(f"  {name:<12} {share:6.2f} %" for name, share in class_accuracies.items()),
            f"of {len(test):,} held-out images, {int((predicted != labels).sum()):,} wrong",
        ]
        record = {**scores, "images": len(test), "classes": class_accuracies}
        return Evaluation(record, lines, outputs=[form.classes[number] for number in predicted.tolist()])


def images_per_batch(config: Config, form: ImageFormat) -> int:
    """Return the number of images in a batch of `batch.tokens` patches, class tokens included."""
    side = config.image_classification.patch
    tokens = form.shape[1] * form.shape[2] // side**2 + (config.image_classification.pooling == "class")
    return max(1, config.batch.tokens // tokens)


def held_out(request: EvaluationRequest) -> Labeled:
    """Return the held-out images of a run's prepared folder; raises `ConfigError` if the request names files."""
    if request.files:
        raise ConfigError(
            f"evaluate: expected no file, as a run of task {request.config.task} is scored on the images that were "
            f"held out, found {request.files[0]}"
        )
    return PreparedImages.open(request.run / "prepared").test


def load_classifier(run: Path, config: Config, *, device: str = "auto", precision: str = "float32") -> ImageClassifier:
    """Load the trained model of a run, in evaluation mode; raises `CheckpointError` and `DeviceError`."""
    form = ImageFormat.load(run)
    return load_trained(lambda: build_for_images(config, form), run, device, precision)


@torch.no_grad()
def classify(model: ImageClassifier, images: Labeled, form: ImageFormat, config: Config) -> Tensor:
    """Return the logits of every image, (images, classes) float32 on the CPU."""
    device, size = next(model.parameters()).device, images_per_batch(config, form)
    parts = (images.images[start : start + size] for start in range(0, len(images), size))
    pixels = (torch.from_numpy(form.normalized(part)).to(device) for part in parts)
    return torch.cat([model(batch).float().cpu() for batch in pixels])


def score_logits(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the mean negative log-likelihood in nats (`loss`) and the accuracy in percent."""
    correct = (logits.argmax(dim=-1) == labels).double().mean().item()
    return {"loss": functional.cross_entropy(logits, labels).item(), "accuracy": 100.0 * correct}


def build_for_images(config: Config, form: ImageFormat) -> ImageClassifier:
    """Build the untrained model for images of a format."""
    options = config.image_classification
    class_token = options.pooling == "class"
    return ImageClassifier(config.model, form.shape, options.patch, len(form.classes), class_token=class_token)
