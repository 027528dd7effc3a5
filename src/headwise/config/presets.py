"""Presets of the model size: the paper's base and big, every row of its Table 3, and a tiny one."""

from __future__ import annotations

import json
from typing import Any

from headwise.config import ModelConfig
from headwise.errors import ConfigError, suggestion

# Differences from `base` (Table 3, first row), in the paper's notation.
_DIFFERENCES: dict[str, dict[str, Any]] = {
    "base": {},
    "tiny": {"encoder_layers": 4, "decoder_layers": 4, "d_model": 128, "d_ff": 256, "heads": 4},
    # (A) number of heads at constant computation
    "table3-a-h1": {"heads": 1, "d_k": 512, "d_v": 512},
    "table3-a-h4": {"heads": 4, "d_k": 128, "d_v": 128},
    "table3-a-h16": {"heads": 16, "d_k": 32, "d_v": 32},
    "table3-a-h32": {"heads": 32, "d_k": 16, "d_v": 16},
    # (B) size of the keys
    "table3-b-dk16": {"d_k": 16, "d_v": 64},
    "table3-b-dk32": {"d_k": 32, "d_v": 64},
    # (C) size of the model
    "table3-c-n2": {"encoder_layers": 2, "decoder_layers": 2},
    "table3-c-n4": {"encoder_layers": 4, "decoder_layers": 4},
    "table3-c-n8": {"encoder_layers": 8, "decoder_layers": 8},
    "table3-c-d256": {"d_model": 256, "d_k": 32, "d_v": 32},
    "table3-c-d1024": {"d_model": 1024, "d_k": 128, "d_v": 128},
    "table3-c-ff1024": {"d_ff": 1024},
    "table3-c-ff4096": {"d_ff": 4096},
    # (D) regularization; label smoothing 0.0 and 0.2 are training options, see TRAINING_DIFFERENCES
    "table3-d-drop0": {"dropout": 0.0},
    "table3-d-drop2": {"dropout": 0.2},
    "table3-d-ls0": {},
    "table3-d-ls2": {},
    # (E) learned positions
    "table3-e-learned": {"positions": "learned"},
    "big": {"d_model": 1024, "d_ff": 4096, "heads": 16, "dropout": 0.3},
}

# Differences from `base` outside the model: keys of the configuration's `training` section.
TRAINING_DIFFERENCES: dict[str, dict[str, Any]] = {
    "table3-d-ls0": {"label_smoothing": 0.0},
    "table3-d-ls2": {"label_smoothing": 0.2},
    "big": {"max_steps": 300_000, "average_last": 20},
}

PRESETS = tuple(_DIFFERENCES)
STUDENT = "student"  # changes the size of a model and nothing else: `student_changes`
STUDENT_LAYERS = ("model.encoder_layers=6", "model.decoder_layers=2")


def preset(name: str) -> ModelConfig:
    """Return the preset `name`; raises `ConfigError` with the nearest name for an unknown one."""
    if name not in _DIFFERENCES:
        known = suggestion(name, (*PRESETS, STUDENT), cutoff=0.3)
        raise ConfigError(f"preset: expected a known model size, found {name!r} {known}")
    return ModelConfig(**_DIFFERENCES[name])


def preset_changes(name: str) -> list[str]:
    """Return the `key.sub=value` overrides that replace any configuration's model by the preset `name`.

    They include the training options (label smoothing, steps) of a row of Table 3. Raises the same errors as `preset`.
    """
    model = preset(name).model_dump(mode="json")
    tree = {"model": model, "training": TRAINING_DIFFERENCES.get(name, {})}
    return [
        f"{section}.{key}={json.dumps(value, ensure_ascii=False)}"
        for section, values in tree.items()
        for key, value in values.items()
    ]


def student_changes(model: ModelConfig) -> list[str]:
    """Return the overrides that give a model a student's size: 6+2 layers, and at most the width 256.

    Most of the time of decoding is spent in the decoder, which runs once for every output token, while the encoder
    runs once for a sentence. Students with a deep encoder and a shallow decoder translate about as well as ones with as
    many layers in both, and faster (Kasai et al. 2021, "Deep encoder, shallow decoder"; Kim et al. 2019, "From research
    to production and back").
    """
    narrow = ("model.d_model=256", "model.d_ff=1024", "model.heads=4")
    return [*STUDENT_LAYERS, *(narrow if model.d_model > 256 else ())]
