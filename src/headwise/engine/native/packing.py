"""Conversion of a Transformer's parameters to the packed weights of the native engine.

Parameters have their names in `headwise.models.transformer`. Linear maps of the same input are concatenated; head
sizes are padded with zeros to a multiple of 16 (of keys that are rotated, to one of 32, the pairs' first numbers before
the second ones), which doesn't change results. The library compares every size with the shape that the engine was
created with.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.config import ModelConfig
from headwise.engine.native.positions import (
    ADDED,
    alibi_biases,
    rotated_pairs,
    rotations,
    t5_biases,
    table_sizes,
)
from headwise.engine.native.shapes import norm_parts
from headwise.native import library as native
from headwise.weights import check_finite

Array = NDArray[np.float32]
ACTIVATIONS = {"relu": 0, "gelu": 1, "silu": 2, "gelu_tanh": 3}
_UNIT = 16  # head sizes are padded to a multiple of this


class PackedModel:
    """A model whose parameters are packed in the library's memory, which it owns."""

    def __init__(
        self,
        config: ModelConfig,
        source_size: int,
        target_size: int,
        tensors: Callable[[str], Array | None],
        *,
        library: native.Library,
        precision: str = "float32",
    ) -> None:
        """Pack the parameters one by one; `tensors` returns them by their names in `Transformer`.

        It returns None where the model doesn't have one. Raises `CheckpointError` for a parameter that isn't finite,
        which low precision would hide.
        """
        self.config, self.library, self.precision = config, library, precision
        self.source_size, self.target_size = source_size, target_size
        self.handle = ctypes.c_void_p()
        self._rotated = config.positions == "rotary"
        unit = 2 * _UNIT if self._rotated else _UNIT
        self._key_size = math.ceil(config.key_size / unit) * unit
        self._value_size = math.ceil(config.value_size / _UNIT) * _UNIT
        shape = self._shape()
        library.call("new", ctypes.byref(shape), native.PRECISIONS[precision], ctypes.byref(self.handle))
        self._tensors = tensors
        self._fill()
        del self._tensors  # which may hold the parameters

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.library.value("free", self.handle)

    def _shape(self) -> native.Shape:
        config = self.config
        sizes = table_sizes(config)
        return native.Shape(
            d_model=config.d_model,
            d_ff=config.d_ff,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            source_size=self.source_size,
            target_size=self.target_size,
            longest=sizes.longest,
            heads=config.heads,
            shared_heads=config.groups,
            key_size=self._key_size,
            value_size=self._value_size,
            added=config.positions in ADDED and config.positions != "none",
            rotated=self._rotated,
            reach=sizes.reach,
            biased=config.positions in ("alibi", "t5"),
            key_tables=sizes.key_tables,
            value_tables=sizes.value_tables,
            pre_norm=config.norm == "pre",
            final_norm=config.ends_normalized,
            rms=config.normalization == "rms",
            gated=config.gated,
            source_end=config.source_end,
            activation=ACTIVATIONS[config.activation],
            key_scale=config.key_size**-0.5,
            epsilon=config.norm_epsilon,
        )

    def _fill(self) -> None:
        config = self.config
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
        self._positions()
        for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
            for number in range(layers):
                self._layer(f"{side}.{number}", decoder=side == "decoder")
            if config.ends_normalized:
                self._norm(f"{side}_norm", f"{side}_norm")

    def _positions(self) -> None:
        """Pack the tables that all layers of a stack share."""
        config, kind, reach = self.config, self.config.positions, table_sizes(self.config).reach
        if kind in ADDED:
            learned = self._optional("positions.table")
            added = ADDED[kind](config.max_length, config.d_model) if learned is None else learned
            if added is not None:
                self._table("positions", added)
        elif kind == "rotary":
            self._table("rotations", rotations(config, self._key_size))
        elif kind == "alibi":
            for side in ("encoder", "decoder"):
                self._table(f"{side}.biases", alibi_biases(config.heads, reach))
        elif kind == "t5":
            for side in ("encoder", "decoder"):
                table = self._tensor(f"{side}.0.self_attention.positions.table")
                self._table(f"{side}.biases", t5_biases(table, reach, causal=side == "decoder"))

    def _layer(self, name: str, *, decoder: bool) -> None:
        self_attention, around = f"{name}.self_attention", f"{name}.around_attention"
        self._attention(self_attention, {"in": ("query", "key", "value"), "out": ("output",)})
        for table, part in (("distance_keys", "keys"), ("distance_values", "added")):
            values = self._optional(f"{self_attention}.positions.{part}")  # (tables, distances, size)
            if values is not None:
                missing = (self._key_size if part == "keys" else self._value_size) - values.shape[-1]
                padded = np.pad(values, ((0, 0), (0, 0), (0, missing)))
                self._table(f"{name}.{table}", padded.reshape(-1, padded.shape[-1]))
        self._norm(
            f"{name}.around_self_attention",
            f"{name}.around_self_attention.norm" if decoder else f"{around}.norm",
        )
        if decoder:
            parts = {"in": ("query",), "memory": ("key", "value"), "out": ("output",)}
            self._attention(f"{name}.cross_attention", parts)
            self._norm(f"{name}.around_cross_attention", f"{name}.around_cross_attention.norm")
        for part in ("w1", "gate", "w2") if self.config.gated else ("w1", "w2"):
            prefix = f"{name}.feed_forward.{part}"
            self._linear(f"{name}.{part}", self._tensor(f"{prefix}.weight"), self._optional(f"{prefix}.bias"))
        self._norm(f"{name}.around_feed_forward", f"{name}.around_feed_forward.norm")

    def _attention(self, name: str, parts: Mapping[str, tuple[str, ...]]) -> None:
        """Pack an attention module: concatenate linear maps of the same input, and pad the heads' dimension."""
        config = self.config
        shared = config.groups
        heads = {"query": config.heads, "key": shared, "value": shared, "output": config.heads}
        for packed, members in parts.items():
            weights, biases = [], []
            for member in members:
                weight = self._tensor(f"{name}.{member}.weight")
                bias = self._optional(f"{name}.{member}.bias")
                if member == "output":
                    weight = padded_heads(weight.T, heads[member], self._value_size).T
                else:
                    size = self._value_size if member == "value" else self._key_size
                    turned = self._rotated and member != "value" and name.endswith("self_attention")
                    order = rotated_pairs(config) if turned else None
                    weight = padded_heads(weight, heads[member], size, order)
                    bias = None if bias is None else padded_heads(bias, heads[member], size, order)
                weights.append(weight)
                biases += [] if bias is None else [bias]
            self._linear(f"{name}.{packed}", np.concatenate(weights), np.concatenate(biases) if biases else None)

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
        self.library.call("linear", self.handle, name.encode(), weight.ctypes.data, bias_pointer, *weight.shape)

    def _norm(self, name: str, module: str) -> None:
        for part in norm_parts(self.config):
            values = _packed(self._tensor(f"{module}.{part}"))
            key = f"{name}.{part}".encode()
            self.library.call("vector", self.handle, key, values.ctypes.data, len(values))

    def _table(self, name: str, values: Array) -> None:
        values = _packed(values)
        self.library.call("table", self.handle, name.encode(), values.ctypes.data, *values.shape)


def _packed(values: Array) -> Array:
    return np.ascontiguousarray(values, dtype=np.float32)


def padded_heads(weight: Array, heads: int, size: int, order: Sequence[int] | None = None) -> Array:
    """Pad the rows of each head in a weight (heads * rows, …) with zeros to `size`.

    `order` is that in which a head's rows are rotated: then both halves of it are padded.
    """
    by_head = weight.reshape(heads, -1, *weight.shape[1:])
    if order is not None:
        by_head = by_head[:, order].reshape(2 * heads, -1, *weight.shape[1:])
        size //= 2
    missing = size - by_head.shape[1]
    if not missing:
        return by_head.reshape(weight.shape)
    zeros = np.zeros((len(by_head), missing, *by_head.shape[2:]), dtype=weight.dtype)
    return np.concatenate([by_head, zeros], axis=1).reshape(-1, *weight.shape[1:])
