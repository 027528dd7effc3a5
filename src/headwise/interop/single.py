"""Runs of tasks on single texts and images, whose models are built to know the shapes of their parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

from headwise.config import Config
from headwise.images.prepared import ImageFormat
from headwise.interop.base import TrainedSingle
from headwise.models.build import build_decoder_only, fitting, shapes, weightless
from headwise.tasks.encoder import EncoderKind
from headwise.tasks.image_classification import build_for_images
from headwise.tasks.masked_language_model import build_masked
from headwise.tasks.registry import find_task
from headwise.text.preparation.labelled.examples import load_labels
from headwise.text.tokens.loading import load_vocabulary
from headwise.weights import model_file

LABELLED = ("classification", "tagging", "question_answering")  # tasks whose runs have a file of labels


def shapes_of(build: Callable[[], nn.Module]) -> Callable[[], dict[str, tuple[int, ...]]]:
    """Return what `Imported.shapes` needs: it builds the model without memory for its parameters."""
    return lambda: shapes(weightless(build))


def encoder_builder(config: Config, size: int, labels: int) -> Callable[[], nn.Module]:
    """Return what builds an untrained encoder-only model with the head of the task."""
    kind = find_task(config.task)
    if isinstance(kind, EncoderKind):
        return lambda: kind.untrained(config, size, labels)
    return lambda: build_masked(config, size)


def single_builder(run: Path, config: Config) -> Callable[[], nn.Module]:
    """Return what builds the untrained model of a run; raises `CheckpointError` if its files are damaged."""
    if config.task == "image_classification":
        form = ImageFormat.load(run)
        return lambda: build_for_images(config, form)
    size = load_vocabulary(run).size
    if config.task == "language_model":
        return lambda: build_decoder_only(config.model, size)
    return encoder_builder(config, size, len(_labels(run, config)))


def open_single(run: Path, config: Config) -> TrainedSingle:
    """Open a run; raises `CheckpointError` and `ConfigError` if it is damaged."""
    weights = fitting(single_builder(run, config), model_file(run))
    if config.task == "image_classification":
        form = ImageFormat.load(run)
        return TrainedSingle(run, config, weights, None, list(form.classes), form)
    return TrainedSingle(run, config, weights, load_vocabulary(run), _labels(run, config), None)


def _labels(run: Path, config: Config) -> list[str]:
    return load_labels(run) if config.task in LABELLED else []
