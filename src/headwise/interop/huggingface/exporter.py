"""Runs as directories of `transformers`: the first kind of model that can express a run is written."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from headwise.config import Config
from headwise.interop import base

# Kinds of models that can express a task: a module with a class `Exporter`, in the order in which they are tried.
_KINDS = {
    "translation": ("marian_export", "exports.t5"),
    "masked_language_model": ("exports.bert",),
    "classification": ("exports.bert",),
    "tagging": ("exports.bert",),
    "question_answering": ("exports.bert",),
    "language_model": ("exports.gpt2",),
    "image_classification": ("exports.vit",),
}


class Exporter(base.Exporter):
    """Writer of directories of `transformers`."""

    library = "transformers"
    tasks = tuple(_KINDS)

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        reasons = [kind.refuses(config) for kind in _kinds(config)]
        refusals = [reason for reason in reasons if reason is not None]
        return min(refusals, key=len) if len(refusals) == len(reasons) else None

    def write(self, trained: Any, folder: Path, precision: str) -> list[str]:  # noqa: D102
        kind = next(kind for kind in _kinds(trained.config) if kind.refuses(trained.config) is None)
        return kind.write(trained, folder, precision)


def _kinds(config: Config) -> list[base.Exporter]:
    return [importlib.import_module(f"{__package__}.{module}").Exporter() for module in _KINDS[config.task]]
