"""Attention and the layers around it. The modules take and return tensors; none knows text or vocabularies.

`__all__` has the names that are stable: layers for one's own loop, and what registers a new kind of attention or
positions. `EncoderLayer` and `DecoderLayer`, which `headwise.models.transformer` defines, are imported when used.
"""

from __future__ import annotations

import importlib
from typing import Any

from headwise.nn import attention_positions, kinds
from headwise.nn.attention import attend, register, register_layer
from headwise.nn.layers import Embedding, FeedForward, LayerNorm, Residual, RMSNorm
from headwise.nn.masks import causal_mask, padding_mask
from headwise.nn.mixing import SequenceMixer
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.positions import (
    AttentionPositions,
    Positions,
    SinusoidalPositions,
    register_positions,
    register_table,
)

__all__ = [
    "AttentionPositions",
    "DecoderLayer",
    "Embedding",
    "EncoderLayer",
    "FeedForward",
    "LayerNorm",
    "MultiHeadAttention",
    "Positions",
    "RMSNorm",
    "Residual",
    "SequenceMixer",
    "SinusoidalPositions",
    "attend",
    "attention_positions",
    "causal_mask",
    "kinds",
    "padding_mask",
    "register",
    "register_layer",
    "register_positions",
    "register_table",
]

_ABOVE = "headwise.models.transformer"  # by name: a layer of the paper's model stands with the model
DecoderLayer: Any
EncoderLayer: Any


def __getattr__(name: str) -> Any:
    if name not in ("DecoderLayer", "EncoderLayer"):
        raise AttributeError(f"module 'headwise.nn' has no attribute {name!r}")
    return getattr(importlib.import_module(_ABOVE), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
