"""The position encodings of a Transformer as tables that the native engine reads.

They equal those of `headwise.nn.positions` and `headwise.nn.attention_positions`, which the engine doesn't import,
because these import PyTorch. A distance is j - p, of key j and query p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from headwise.config import ModelConfig
from headwise.config.model import LARGEST_TABLE

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


# The position encodings that are added to the embeddings; a learned table is a parameter.
ADDED: dict[str, Callable[[int, int], Table | None]] = {
    "sinusoidal": sinusoids,
    "tensor2tensor": tensor2tensor_sinusoids,
    "fairseq": partial(tensor2tensor_sinusoids, start=2),
    "learned": lambda length, d_model: None,
    "none": lambda length, d_model: None,
}
INSIDE = ("rotary", "alibi", "t5", "relative")  # those inside self-attention
_UNLIMITED = ("none", "t5", "relative")  # encodings of sequences of any length


@dataclass(frozen=True)
class TableSizes:
    """The sizes of an encoding's tables.

    Attributes:
        longest: tokens of a sequence, at most; 0: any number.
        reach: the maximum distance; longer ones are clipped to it. 0: no tables of distances.
        key_tables, value_tables: in each layer, for relative positions: 0, 1 or one for each head.
    """

    longest: int
    reach: int = 0
    key_tables: int = 0
    value_tables: int = 0


def table_sizes(config: ModelConfig) -> TableSizes:
    """Return the sizes of the tables of a model's encoding."""
    longest = 0 if config.positions in _UNLIMITED else config.max_length
    if config.positions == "alibi":
        return TableSizes(longest, reach=config.max_length)
    if config.positions == "t5":
        return TableSizes(longest, reach=config.position_options.t5.reach)
    if config.positions == "relative":
        options = config.position_options.relative
        tables = config.heads if options.per_head else 1
        return TableSizes(longest, options.reach, tables, tables if options.values else 0)
    return TableSizes(longest)


def too_large(config: ModelConfig) -> bool:
    """Whether the library refuses the size of a table of distances."""
    sizes = table_sizes(config)
    padded = max(config.key_size * sizes.key_tables, config.value_size * sizes.value_tables) * 2
    return (2 * sizes.reach + 1) * max(config.heads, padded) > LARGEST_TABLE


def rotations(config: ModelConfig, padded: int) -> Table:
    """Return the cosines, then the sines, of the angles of each position, (max_length, padded size of a head)."""
    size = config.key_size
    exponent = np.arange(0, size, 2, dtype=np.float64) / size
    frequency = config.position_options.rotary.base**-exponent
    angle = np.arange(config.max_length, dtype=np.float64)[:, None] * frequency
    table = np.zeros((config.max_length, 2, padded // 2), np.float32)
    table[..., : size // 2] = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return table.reshape(config.max_length, padded)


def rotated_pairs(config: ModelConfig) -> list[int]:
    """Return the order of a head's rows in which the first ones of all pairs come before the second ones."""
    size = config.key_size
    if config.position_options.rotary.pairs == "halves":
        return list(range(size))
    return [*range(0, size, 2), *range(1, size, 2)]


def alibi_biases(heads: int, reach: int) -> Table:
    """Return -slope · |distance| of each head (Press et al. 2022, section 3), (heads, 2 · reach + 1)."""
    lower = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * i / lower) for i in range(1, lower + 1)]
    slopes += [2 ** (-4 * i / lower) for i in range(1, 2 * (heads - lower), 2)]
    distances = np.abs(np.arange(-reach, reach + 1))
    return -np.array(slopes, np.float32)[:, None] * distances.astype(np.float32)


def t5_biases(table: Table, reach: int, *, causal: bool) -> Table:
    """Return the biases (heads, 2 · reach + 1) of a table (buckets, heads) (Raffel et al. 2020, section 2.1)."""
    distance, buckets = np.arange(-reach, reach + 1), len(table)
    if causal:
        later, length = np.zeros_like(distance), np.maximum(-distance, 0)
    else:
        buckets //= 2
        later, length = (distance > 0) * buckets, np.abs(distance)
    single = buckets // 2
    # In float32, as for all published weights: rounding decides where a bucket begins.
    ratio = np.maximum(length, 1).astype(np.float32) / np.float32(single)
    widening = np.log(ratio) / np.float32(math.log(reach / single)) * np.float32(buckets - single)
    wide = np.minimum(single + widening.astype(np.int64), buckets - 1)
    return table[later + np.where(length < single, length, wide)].T
