"""Runs of tasks on single texts and images: building their models, and opening trained ones for an export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

from headwise.config import Config, ModelConfig
from headwise.images.prepared import ImageFormat
from headwise.interop.base import TrainedSingle
from headwise.models.build import build_decoder_only, build_encoder_only, fitting
from headwise.models.output_heads import (
    ClassificationHead,
    HeadedEncoder,
    MaskedTokenHead,
    SpanHead,
    TaggingHead,
)
from headwise.models.vision import build_classifier
from headwise.text.datasets.examples import load_labels
from headwise.text.tokens.vocabulary import load_vocabulary

ENCODER_TASKS = ("masked_language_model", "classification", "tagging", "question_answering")
LABELLED = ENCODER_TASKS[1:]  # tasks whose runs have a file of labels


def encoder_builder(config: Config, size: int, labels: int) -> Callable[[], nn.Module]:
    """Return what builds an untrained encoder-only model with the head of the task."""
    model, task = config.model, config.task

    def head() -> nn.Module:
        if task == "classification":
            return ClassificationHead(model, labels, config.classification.pooling)
        if task == "tagging":
            return TaggingHead(model, labels)
        return SpanHead(model) if task == "question_answering" else MaskedTokenHead(model, size)

    return lambda: HeadedEncoder(build_encoder_only(model, size), head())


def open_single(run: Path, config: Config) -> TrainedSingle:
    """Open a run; raises `CheckpointError` and `ConfigError` if it is damaged."""
    file = run / "model.safetensors"
    if config.task == "image_classification":
        form, options = ImageFormat.load(run), config.image_classification
        class_token = options.pooling == "class"
        weights = fitting(
            lambda: build_classifier(
                config.model, form.shape, options.patch, len(form.classes), class_token=class_token
            ),
            file,
        )
        return TrainedSingle(run, config, weights, None, list(form.classes), form)
    vocabulary = load_vocabulary(run)
    labels = load_labels(run) if config.task in LABELLED else []
    weights = fitting(_text_builder(config, config.model, vocabulary.size, len(labels)), file)
    return TrainedSingle(run, config, weights, vocabulary, labels, None)


def _text_builder(config: Config, model: ModelConfig, size: int, labels: int) -> Callable[[], nn.Module]:
    if config.task == "language_model":
        return lambda: build_decoder_only(model, size)
    return encoder_builder(config, size, labels)
