"""Conversion of a Transformer's parameters to the packed weights of the native engine.

Parameters have their names in `headwise.models.transformer`. Linear maps of the same input are concatenated; head
sizes are padded with zeros to a multiple of 16, which doesn't change results. The library compares every size with
the shape that the engine was created with.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from headwise.config import ModelConfig
from headwise.engine.native.shapes import POSITIONS
from headwise.native import library as native
from headwise.weights import check_finite

Array = NDArray[np.float32]
ACTIVATIONS = {"relu": 0, "gelu": 1, "silu": 2}
_UNIT = 16  # head sizes are padded to a multiple of this


class Packing:
    """Packing of one model; `tensors` returns a parameter by name, or None where the model doesn't have it."""

    def __init__(
        self,
        config: ModelConfig,
        source_size: int,
        target_size: int,
        tensors: Callable[[str], Array | None],
        library: native.Library,
    ) -> None:
        self._config, self._library = config, library
        self._sizes = source_size, target_size
        self._tensors = tensors
        self._handle = ctypes.c_void_p()

    def pack(self, precision: str) -> ctypes.c_void_p:
        """Create the engine, pack all weights and return its handle, which the caller has to free.

        Raises `CheckpointError` for parameters that aren't finite, which low precision would hide.
        """
        positions = self._positions()
        shape = self._shape(0 if positions is None else len(positions))
        self._library.call(
            "new", ctypes.byref(shape), native.PRECISIONS[precision], ctypes.byref(self._handle)
        )
        try:
            self._fill(positions)
        except BaseException:
            self._library.value("free", self._handle)
            raise
        return self._handle

    def _shape(self, positions: int) -> native.Shape:
        config = self._config
        padded = [math.ceil(size / _UNIT) * _UNIT for size in (config.key_size, config.value_size)]
        return native.Shape(
            d_model=config.d_model,
            d_ff=config.d_ff,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            source_size=self._sizes[0],
            target_size=self._sizes[1],
            positions=positions,
            heads=config.heads,
            shared_heads=config.key_value_heads or config.heads,
            key_size=padded[0],
            value_size=padded[1],
            pre_norm=config.norm == "pre",
            activation=ACTIVATIONS[config.activation],
            key_scale=config.key_size**-0.5,
            epsilon=config.norm_epsilon,
        )

    def _fill(self, positions: Array | None) -> None:
        config = self._config
        share_all, share_output = config.share_embeddings == "all", config.share_embeddings != "none"
        names = {
            "source_embedding": "source_embedding.weight",
            "target_embedding": "source_embedding.weight" if share_all else "target_embedding.weight",
        }
        output = names["target_embedding"] if share_output else "output_projection.weight"
        # The engine scales embeddings by √d_model.
        scale = 1.0 if config.scale_embeddings else config.d_model**-0.5
        for name, parameter in names.items():
            self._table(name, self._tensor(parameter) * scale)
        self._linear("vocabulary", self._tensor(output), self._optional("logit_bias"))
        if positions is not None:
            self._table("positions", positions)
        for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
            for number in range(layers):
                self._layer(f"{side}.{number}", decoder=side == "decoder")
            if config.norm == "pre":
                self._norm(f"{side}_norm", f"{side}_norm")

    def _positions(self) -> Array | None:
        learned_table = self._optional("positions.table")
        if learned_table is not None:
            return learned_table
        return POSITIONS[self._config.positions](self._config.max_length, self._config.d_model)

    def _layer(self, name: str, *, decoder: bool) -> None:
        self_attention, around = f"{name}.self_attention", f"{name}.around_attention"
        self._attention(self_attention, {"in": ("query", "key", "value"), "out": ("output",)})
        self._norm(
            f"{name}.around_self_attention",
            f"{name}.around_self_attention.norm" if decoder else f"{around}.norm",
        )
        if decoder:
            parts = {"in": ("query",), "memory": ("key", "value"), "out": ("output",)}
            self._attention(f"{name}.cross_attention", parts)
            self._norm(f"{name}.around_cross_attention", f"{name}.around_cross_attention.norm")
        for part in ("w1", "w2"):
            prefix = f"{name}.feed_forward.{part}"
            self._linear(f"{name}.{part}", self._tensor(f"{prefix}.weight"), self._optional(f"{prefix}.bias"))
        self._norm(f"{name}.around_feed_forward", f"{name}.around_feed_forward.norm")

    def _attention(self, name: str, parts: Mapping[str, tuple[str, ...]]) -> None:
        """Pack an attention module: concatenate linear maps of the same input, and pad the heads' dimension."""
        config = self._config
        shared = config.key_value_heads or config.heads
        heads = {"query": config.heads, "key": shared, "value": shared, "output": config.heads}
        for packed, members in parts.items():
            weights, biases = [], []
            for member in members:
                weight = self._tensor(f"{name}.{member}.weight")
                bias = self._optional(f"{name}.{member}.bias")
                if member == "output":
                    weight = padded_heads(weight.T, heads[member]).T
                else:
                    weight = padded_heads(weight, heads[member])
                    bias = None if bias is None else padded_heads(bias, heads[member])
                weights.append(weight)
                biases += [] if bias is None else [bias]
            self._linear(
                f"{name}.{packed}", np.concatenate(weights), np.concatenate(biases) if biases else None
            )

    def _tensor(self, name: str) -> Array:
        tensor = self._optional(name)
        assert tensor is not None, name
        return tensor

    def _optional(self, name: str) -> Array | None:
        """Return a parameter, or None where the model doesn't have it; raises `CheckpointError` unless it is finite."""
        tensor = self._tensors(name)
        if tensor is not None:
            check_finite(name, tensor)
        return tensor

    def _linear(self, name: str, weight: Array, bias: Array | None) -> None:
        weight, bias = _packed(weight), None if bias is None else _packed(bias)
        bias_pointer = None if bias is None else bias.ctypes.data
        self._library.call(
            "linear", self._handle, name.encode(), weight.ctypes.data, bias_pointer, *weight.shape
        )

    def _norm(self, name: str, module: str) -> None:
        for part in ("weight", "bias"):
            values = _packed(self._tensor(f"{module}.{part}"))
            key = f"{name}.{part}".encode()
            self._library.call("vector", self._handle, key, values.ctypes.data, len(values))

    def _table(self, name: str, values: Array) -> None:
        values = _packed(values)
        self._library.call("table", self._handle, name.encode(), values.ctypes.data, *values.shape)


def _packed(values: Array) -> Array:
    return np.ascontiguousarray(values, dtype=np.float32)


def padded_heads(weight: Array, heads: int) -> Array:
    """Pad the rows of each head in a weight (heads * size, …) with zeros to a multiple of 16."""
    by_head = weight.reshape(heads, -1, *weight.shape[1:])
    missing = -by_head.shape[1] % _UNIT
    if not missing:
        return weight
    zeros = np.zeros((heads, missing, *by_head.shape[2:]), dtype=weight.dtype)
    return np.concatenate([by_head, zeros], axis=1).reshape(-1, *weight.shape[1:])
