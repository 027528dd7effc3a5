"""The names and shapes of a Transformer's parameters that the native engine reads, and its tables of positions.

They equal those of `headwise.models.transformer` and `headwise.nn.positions`, which the engine doesn't import, because
these import PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headwise.config import ModelConfig

Shape = tuple[int, ...]
Table = NDArray[np.float32]


def sinusoids(length: int, d_model: int) -> Table:
    """Return the paper's sinusoids, (length, d_model) float32, computed in float64."""
    frequency = 10000.0 ** (-np.arange(0, d_model, 2, dtype=np.float64) / d_model)
    angle = np.arange(length, dtype=np.float64)[:, None] * frequency
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, d_model).astype(np.float32)


def tensor2tensor_sinusoids(length: int, d_model: int, start: int = 0) -> Table:
    """Return the sinusoids of tensor2tensor: all sines before all cosines, the first row for position `start`."""
    frequencies = d_model // 2
    frequency = 10000.0 ** (-np.arange(frequencies, dtype=np.float64) / (frequencies - 1))
    angle = np.arange(start, start + length, dtype=np.float64)[:, None] * frequency
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)


def fairseq_sinusoids(length: int, d_model: int) -> Table:
    """Return the sinusoids of fairseq: tensor2tensor's from position 2 on."""
    return tensor2tensor_sinusoids(length, d_model, start=2)


# The position encodings that are added to the embeddings; a learned table is a parameter.
POSITIONS: dict[str, Callable[[int, int], Table | None]] = {
    "sinusoidal": sinusoids,
    "tensor2tensor": tensor2tensor_sinusoids,
    "fairseq": fairseq_sinusoids,
    "learned": lambda length, d_model: None,
    "none": lambda length, d_model: None,
}


def parameter_shapes(config: ModelConfig, source_size: int, target_size: int) -> dict[str, Shape]:
    """Return the name and shape of every parameter of a Transformer that the engine supports, in the model's order."""
    d_model, shared = config.d_model, config.share_embeddings
    shapes: dict[str, Shape] = {"logit_bias": (target_size,)} if config.logit_bias else {}
    shapes["source_embedding.weight"] = (source_size, d_model)
    if shared != "all":
        shapes["target_embedding.weight"] = (target_size, d_model)
    if shared == "none":
        shapes["output_projection.weight"] = (target_size, d_model)
    if config.positions == "learned":
        shapes["positions.table"] = (config.max_length, d_model)
    attentions = {"encoder": ("self_attention",), "decoder": ("self_attention", "cross_attention")}
    around = {
        "encoder": ("around_attention",),
        "decoder": ("around_self_attention", "around_cross_attention"),
    }
    layers = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    for side, count in layers.items():
        for layer in (f"{side}.{number}" for number in range(count)):
            for attention in attentions[side]:
                shapes |= _attention(f"{layer}.{attention}", config)
            shapes |= _linear(f"{layer}.feed_forward.w1", config.d_ff, d_model, config.feed_forward_bias)
            shapes |= _linear(f"{layer}.feed_forward.w2", d_model, config.d_ff, config.feed_forward_bias)
            for residual in (*around[side], "around_feed_forward"):
                shapes |= _norm(f"{layer}.{residual}.norm", d_model)
    if config.norm == "pre":
        shapes |= _norm("encoder_norm", d_model) | _norm("decoder_norm", d_model)
    return shapes


def _attention(name: str, config: ModelConfig) -> dict[str, Shape]:
    d_model, heads, shared = config.d_model, config.heads, config.key_value_heads or config.heads
    rows = {
        "query": heads * config.key_size,
        "key": shared * config.key_size,
        "value": shared * config.value_size,
    }
    shapes: dict[str, Shape] = {}
    for part, size in rows.items():
        shapes |= _linear(f"{name}.{part}", size, d_model, config.attention_bias)
    return shapes | _linear(f"{name}.output", d_model, heads * config.value_size, config.attention_bias)


def _linear(name: str, outputs: int, inputs: int, bias: bool) -> dict[str, Shape]:
    return {f"{name}.weight": (outputs, inputs)} | ({f"{name}.bias": (outputs,)} if bias else {})


def _norm(name: str, d_model: int) -> dict[str, Shape]:
    return {f"{name}.weight": (d_model,), f"{name}.bias": (d_model,)}
