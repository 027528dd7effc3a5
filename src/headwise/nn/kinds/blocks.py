"""Softmax attention over a subset of the (query, key) pairs, computed in blocks at the cost of that subset only.

Queries are gathered into blocks; each block has its own list of keys. Parts with disjoint pairs (for example near and
far ones) are merged as if one softmax had run over both: numerators and denominators are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.nn.attention import Bias, Mask
from headwise.nn.dropout import dropout as drop
from headwise.nn.relative import RelativeBias


@dataclass(frozen=True)
class Layout:
    """The (query, key) pairs to compute, in blocks.

    rows (blocks, height): query indices; each query, or each of the first ones, appears exactly once, and indices past
    the last query are padding. cols (blocks, width): key indices; those outside the sequence are padding. allowed
    (blocks, height, width): True for the pairs of a block that are attended.
    """

    rows: Tensor
    cols: Tensor
    allowed: Tensor


@dataclass(frozen=True)
class Part:
    """Unnormalized softmax attention, each (…, query, d_v or 1).

    numerator: Σ exp(s - peak) v; denominator: Σ exp(s - peak); peak: the maximum score.
    """

    numerator: Tensor
    denominator: Tensor
    peak: Tensor


def attend_blocks(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias, dropout: float, layout: Layout) -> Part:
    """Attend over the pairs of a layout; shapes as in `headwise.nn.attention`, with mask and bias in four dimensions.

    Time and memory are proportional to blocks · height · width.
    """
    queries, keys = q.size(2), k.size(2)
    rows, cols = layout.rows.clamp(max=queries - 1), layout.cols.clamp(0, keys - 1)
    inside = (layout.cols >= 0) & (layout.cols < keys)
    allowed = layout.allowed & inside[:, None, :]
    if mask is not None:
        allowed = allowed & _pick(mask, rows, cols)
    keys_by_block, values_by_block = _gather(k, cols), _gather(v, cols)  # (batch, heads, blocks, width, d)
    scores = (_gather(q, rows) * q.size(-1) ** -0.5) @ keys_by_block.transpose(-2, -1)
    if isinstance(bias, RelativeBias):
        distance = cols[:, None, :] - (rows + keys - queries)[:, :, None]
        scores = scores + bias.at(rows, distance).to(scores.dtype)
    elif bias is not None:
        scores = scores + _pick(bias, rows, cols).to(scores.dtype)
    # Finite, so that queries without any allowed key get no NaN.
    scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min / 2)
    peak = scores.detach().amax(dim=-1, keepdim=True)
    weights = (scores - peak).exp().masked_fill(~allowed, 0.0)  # (batch, heads, blocks, height, width)
    numerator = drop(weights, dropout, training=dropout > 0) @ values_by_block
    order = layout.rows.flatten().argsort()[:queries]  # index of each query among the rows of the blocks
    parts = (numerator, weights.sum(-1, keepdim=True), peak)
    return Part(*(part.flatten(2, 3).index_select(2, order) for part in parts))


def merge(parts: Sequence[Part]) -> Tensor:
    """Normalize over all parts together; a query without any allowed key gets zeros."""
    peak = torch.stack([part.peak for part in parts]).amax(0)
    scales = [(part.peak - peak).exp() for part in parts]
    numerator = sum(part.numerator * scale for part, scale in zip(parts, scales, strict=True))
    denominator = sum(part.denominator * scale for part, scale in zip(parts, scales, strict=True))
    assert isinstance(numerator, Tensor)
    assert isinstance(denominator, Tensor)
    return numerator / denominator.masked_fill(denominator == 0, 1.0)


def _gather(x: Tensor, index: Tensor) -> Tensor:
    """Gather positions (blocks, size) of x (batch, heads, time, d); returns (batch, heads, blocks, size, d)."""
    return x.index_select(2, index.flatten()).unflatten(2, index.shape)


def _pick(x: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """Gather pairs of x (…, query or 1, key or 1); returns (…, blocks, height or 1, width or 1)."""
    row = rows[:, :, None] if x.size(2) > 1 else rows.new_zeros(1, 1, 1)
    col = cols[:, None, :] if x.size(3) > 1 else cols.new_zeros(1, 1, 1)
    return x[:, :, row, col]
