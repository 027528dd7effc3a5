"""Directories of `transformers`: which module reads or writes a kind of model."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from headwise.config import Config
from headwise.errors import CheckpointError
from headwise.extras import optional_module
from headwise.interop import base
from headwise.interop.base import Imported
from headwise.interop.huggingface.keys import MOST_BYTES
from headwise.parsing import read_json

# By the key model_type of config.json: a module with a function `read` from a directory to `Imported`.
_MODEL_TYPES = {
    "marian": "marian",
    "pegasus": "marian",
    "bert": "bert",
    "gpt2": "gpt2",
    "llama": "llama",
    "mistral": "llama",
    "qwen2": "llama",
    "t5": "t5",
    "vit": "vit",
}
# By the task: modules with functions `refuses` and `write`; the first that doesn't refuse a run writes it.
_TASKS = {
    "translation": ("marian", "t5"),
    "masked_language_model": ("bert",),
    "classification": ("bert",),
    "tagging": ("bert",),
    "question_answering": ("bert",),
    "language_model": ("gpt2",),
    "image_classification": ("vit",),
}


def recognizes(source: Path) -> bool:
    """Whether a source is a directory whose config.json names a kind of model."""
    return _model_type(source) is not None


def read(source: Path) -> Imported:
    """Read a directory; raises `CheckpointError` for another kind of model, and as the kind's own `read`."""
    found = _model_type(source)
    if found not in _MODEL_TYPES:
        raise CheckpointError(
            f"{source / 'config.json'}: model_type: expected one of {', '.join(_MODEL_TYPES)}, "
            f"found {str(found)[:60]!r}"
        )
    imported: Imported = optional_module(f"{__package__}.{_MODEL_TYPES[found]}", source).read(source)
    return imported


class Exporter(base.Exporter):
    """Writer of directories of `transformers`."""

    library = "transformers"
    tasks = tuple(_TASKS)
    names_languages = True

    def refuses(self, config: Config) -> str | None:  # noqa: D102
        reasons = [kind.refuses(config) for kind in _kinds(config)]
        return None if None in reasons else min(reasons, key=len)

    def write(self, trained: Any, folder: Path, precision: str) -> list[str]:  # noqa: D102
        kind = next(kind for kind in _kinds(trained.config) if kind.refuses(trained.config) is None)
        return kind.write(trained, folder)


def _kinds(config: Config) -> list[Any]:
    return [importlib.import_module(f"{__package__}.{module}") for module in _TASKS[config.task]]


def _model_type(source: Path) -> str | None:
    file = source / "config.json"
    if not file.is_file():
        return None
    content = read_json(file, error=CheckpointError, finite=False, most=MOST_BYTES)
    found = content.get("model_type") if isinstance(content, dict) else None
    return found if isinstance(found, str) else None
