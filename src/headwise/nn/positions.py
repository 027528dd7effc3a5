"""Positions added to the embeddings (Vaswani et al. 2017, section 3.5), and the registry of all position encodings.

PE(pos, 2i)   = sin(pos / 10000^(2i / d_model))
PE(pos, 2i+1) = cos(pos / 10000^(2i / d_model))

An encoding is either a table that is added to the embeddings, or acts inside self-attention (then it is an
`AttentionPositions` in `headwise.nn.attention_positions`). To add one, decorate a function from (length, d_model) to a
table with `@register_table("name")`, or a subclass of `AttentionPositions` with `@register_positions("name")`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.errors import ConfigError, DataError
from headwise.nn.relative import RelativeBias

TableMaker = Callable[[int, int], Tensor | None]


class AttentionPositions(nn.Module):
    """Base class of position encodings inside self-attention, by rotating queries and keys or biasing the scores.

    `needs` names the `headwise.nn.attention.FEATURES` that an attention kind must support; `shared` states that the
    layers of a stack share an instance.
    """

    name = ""  # set by `register_positions`
    needs: frozenset[str] = frozenset()
    shared = True

    def __init__(self, config: ModelConfig, *, causal: bool) -> None:
        super().__init__()

    def rotate(self, x: Tensor, start: int) -> Tensor:
        """Rotate queries or keys (batch, heads, time, d_k) at positions start, start + 1, …"""
        return x

    def bias(self, q: Tensor, keys: int) -> RelativeBias | None:
        """Return the bias on the scores of q (batch, heads, query, d_k), the last of `keys` positions."""
        return None

    def values(self, weights: Tensor) -> Tensor:
        """Return the term added to the attention output for these weights; called if `weights` is in `needs`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Encoding:
    """A registered encoding, which has either a `table` or a class `inside` self-attention."""

    name: str
    table: TableMaker | None = None
    inside: type[AttentionPositions] | None = None

    @property
    def module(self) -> str:
        """The name of the module that defines it."""
        return (self.inside or self.table).__module__


_ENCODINGS: dict[str, Encoding] = {}

Inside = TypeVar("Inside", bound=type[AttentionPositions])
Maker = TypeVar("Maker", bound=TableMaker)


def _add(encoding: Encoding) -> None:
    before = _ENCODINGS.get(encoding.name)
    if before is not None and before.module != encoding.module:  # a notebook's cell may run again
        raise ConfigError(
            f"position encoding {encoding.name}: expected a new name, found one that {before.module} registers"
        )
    _ENCODINGS[encoding.name] = encoding


def register_table(name: str) -> Callable[[Maker], Maker]:
    """Register an encoding added to the embeddings: a function (length, d_model) -> table (length, d_model) or None.

    A table that is a `Parameter` is learned.
    """

    def decorator(function: Maker) -> Maker:
        _add(Encoding(name, table=function))
        return function

    return decorator


def register_positions(name: str) -> Callable[[Inside], Inside]:
    """Register an encoding that acts inside self-attention."""

    def decorator(inside: Inside) -> Inside:
        inside.name = name
        _add(Encoding(name, inside=inside))
        return inside

    return decorator


def position_encoding(name: str) -> Encoding:
    """Return the encoding of a name; raises `ConfigError` with the known names."""
    if name not in _ENCODINGS:
        raise ConfigError(f"model.positions: expected one of {', '.join(sorted(_ENCODINGS))}, found {name!r}")
    return _ENCODINGS[name]


def position_encodings() -> tuple[Encoding, ...]:
    """Return all encodings, sorted by name."""
    return tuple(_ENCODINGS[name] for name in sorted(_ENCODINGS))


def attention_positions(config: ModelConfig, layers: int, *, causal: bool) -> list[AttentionPositions | None]:
    """Return the positions inside self-attention for each layer of a stack; None if the encoding has none.

    Raises `ConfigError` for an unknown encoding, or one that doesn't fit the model's shape.
    """
    inside = position_encoding(config.positions).inside
    if inside is None:
        return [None] * layers
    if inside.shared:
        return [inside(config, causal=causal)] * layers
    return [inside(config, causal=causal) for _ in range(layers)]


@register_table("sinusoidal")
def sinusoids(length: int, d_model: int) -> Tensor:
    """Return the paper's sinusoids, (length, d_model) float32, computed in float64; d_model must be even."""
    if d_model % 2:
        raise ConfigError(f"d_model: expected an even one for sinusoids, found {d_model}")
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table.float()


@register_table("tensor2tensor")
def tensor2tensor_sinusoids(length: int, d_model: int, start: int = 0) -> Tensor:
    """Return the sinusoids of tensor2tensor and Marian, (length, d_model) float32, computed in float64.

    All sines come before all cosines, and the i-th of n = d_model / 2 frequencies is 10000^(-i / (n - 1)), not
    10000^(-i / n) as in the paper. The first row is position `start`.
    """
    position = torch.arange(start, start + length, dtype=torch.float64)[:, None]
    frequencies = d_model // 2
    angle = position * 10000.0 ** (-torch.arange(frequencies, dtype=torch.float64) / (frequencies - 1))
    return torch.cat([angle.sin(), angle.cos()], dim=1).float()


@register_table("fairseq")
def fairseq_sinusoids(length: int, d_model: int) -> Tensor:
    """Return the sinusoids of fairseq, (length, d_model) float32: tensor2tensor's from position 2 on."""
    return tensor2tensor_sinusoids(length, d_model, start=2)


def shift_matrix(offset: int, d_model: int) -> Tensor:
    """Return M with PE(pos + offset) = M PE(pos) for every pos (section 3.5), (d_model, d_model) float64.

    By the addition theorems, M rotates each pair (sin, cos) by offset · frequency: [[cos, sin], [-sin, cos]].
    """
    angle = offset * 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    even = torch.arange(0, d_model, 2)
    matrix = torch.zeros(d_model, d_model, dtype=torch.float64)
    matrix[even, even] = matrix[even + 1, even + 1] = angle.cos()
    matrix[even, even + 1] = angle.sin()
    matrix[even + 1, even] = -angle.sin()
    return matrix


@register_table("learned")
def learned(length: int, d_model: int) -> nn.Parameter:
    """Return a learned table (Table 3, row E), with the embeddings' initialization."""
    table = nn.Parameter(torch.empty(length, d_model))
    nn.init.normal_(table, std=d_model**-0.5)
    return table


@register_table("none")
def none(length: int, d_model: int) -> None:
    """Return no table: without positions, attention doesn't depend on the order of tokens."""


class Positions(nn.Module):
    """Add the encoding's table to the embeddings; an encoding without a table leaves them unchanged."""

    def __init__(self, kind: str, length: int, d_model: int) -> None:
        super().__init__()
        self.length = length
        self.table: Tensor | None
        maker = position_encoding(kind).table
        table = None if maker is None else maker(length, d_model)
        if table is None or isinstance(table, nn.Parameter):
            self.table = table
        else:
            self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add positions start, start+1, … to x (batch, time, d_model).

        Raises `DataError` if the sequence is longer than the table.
        """
        if self.table is None:
            return x
        end = start + x.size(-2)
        if end > self.length:
            raise DataError(f"expected at most {self.length} positions (model.max_length), found {end}")
        return x + self.table[start:end].to(x.dtype)


class SinusoidalPositions(Positions):
    """Add the paper's sinusoids to embeddings (batch, time, d_model) of up to `length` tokens (section 3.5)."""

    def __init__(self, d_model: int, length: int = 512) -> None:
        super().__init__("sinusoidal", length, d_model)
