"""Directories of `transformers`, in: the key `model_type` of config.json says which module reads one."""

from __future__ import annotations

import importlib
from pathlib import Path

from headwise.errors import CheckpointError
from headwise.interop import base
from headwise.interop.base import Imported
from headwise.interop.huggingface.fields import MOST_BYTES
from headwise.parsing import read_json

# A further kind of model is a module with a function `read` from a directory to `Imported`, and a line here.
MODEL_TYPES = {
    "marian": "marian",
    "pegasus": "marian",
    "bert": "imports.bert",
    "gpt2": "imports.gpt2",
    "llama": "imports.llama",
    "mistral": "imports.llama",
    "qwen2": "imports.llama",
    "t5": "imports.t5",
    "vit": "imports.vit",
}


class Importer(base.Importer):
    """Reader of the directories of `transformers`."""

    def recognizes(self, source: Path) -> bool:  # noqa: D102
        return _model_type(source) is not None

    def read(self, source: Path) -> Imported:  # noqa: D102
        found = _model_type(source)
        if found not in MODEL_TYPES:
            raise CheckpointError(
                f"{source / 'config.json'}: model_type: expected one of {', '.join(MODEL_TYPES)}, "
                f"found {str(found)[:60]!r}"
            )
        return importlib.import_module(f"{__package__}.{MODEL_TYPES[found]}").read(source)


def _model_type(source: Path) -> str | None:
    file = source / "config.json"
    if not file.is_file():
        return None
    content = read_json(file, error=CheckpointError, finite=False, most=MOST_BYTES)
    found = content.get("model_type") if isinstance(content, dict) else None
    return found if isinstance(found, str) else None
