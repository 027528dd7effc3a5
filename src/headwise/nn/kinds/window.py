"""Sliding-window attention with global tokens (Beltagy et al. 2020, "Longformer", section 3.1).

Query i sees key j where |i - j| < size. The first `globals` positions see every key and are seen by every query;
causally, all of this only where j <= i. Time and memory grow with query · (size + globals).
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.config import AttentionOptions
from headwise.nn.attention import register
from headwise.nn.kinds.blocks import Layout, attend_blocks, merge
from headwise.nn.relative import RelativeBias

_LOWEST_BLOCK = 32  # smaller blocks spend more on overhead than they save


def near_layout(
    queries: int, keys: int, size: int, *, causal: bool, first: int = 0, device: torch.device | None = None
) -> Layout:
    """Lay out the pairs with |i - j| < size, j <= i where causal, among the keys from `first` on."""
    height = min(queries, max(size, _LOWEST_BLOCK))
    blocks = -(-queries // height)
    width = height + size - 1 if causal else height + 2 * (size - 1)
    starts = torch.arange(blocks, device=device)[:, None] * height
    rows = starts + torch.arange(height, device=device)
    positions = rows + keys - queries
    cols = starts + (keys - queries - size + 1) + torch.arange(width, device=device)
    distance = positions[:, :, None] - cols[:, None, :]
    allowed = (distance.abs() < size) & (cols >= first)[:, None, :]
    return Layout(rows, cols, allowed & (distance >= 0) if causal else allowed)


def with_globals(layout: Layout, queries: int, keys: int, count: int, *, causal: bool) -> Layout:
    """Let every block see the first `count` keys too."""
    blocks, height = layout.rows.shape
    cols = torch.arange(count, device=layout.rows.device).expand(blocks, count)
    positions = layout.rows + keys - queries
    allowed = layout.allowed.new_ones(blocks, height, count)
    if causal:
        allowed = cols[:, None, :] <= positions[:, :, None]
    return Layout(layout.rows, torch.cat([cols, layout.cols], 1), torch.cat([allowed, layout.allowed], 2))


def pattern(
    queries: int, keys: int, *, causal: bool, options: AttentionOptions, device: torch.device | None = None
) -> Tensor:
    """Write out which pairs a window allows, (1, 1, query, key)."""
    i = torch.arange(queries, device=device)[:, None] + keys - queries
    j = torch.arange(keys, device=device)[None]
    window = options.window
    allowed = ((i - j).abs() < window.size) | (j < window.globals)
    allowed = allowed & (j <= i) if causal else allowed | (i < window.globals)
    return allowed[None, None]


@register(
    "window",
    structured=True,
    pattern=pattern,
    lacks={
        "cross": "a window is a neighborhood within one sequence",
        "weights": "its weights are never written out",
    },
)
def window(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | RelativeBias | None,
    dropout: float,
    *,
    causal: bool,
    options: AttentionOptions,
) -> Tensor:
    """Attend within the window; queries are the last of the positions."""
    queries, keys = q.size(2), k.size(2)
    size, count = options.window.size, min(options.window.globals, keys)
    layout = near_layout(queries, keys, size, causal=causal, first=count, device=q.device)
    layout = with_globals(layout, queries, keys, count, causal=causal)
    out = merge([attend_blocks(q, k, v, mask, bias, dropout, layout)])
    seeing_all = 0 if causal else max(0, count - (keys - queries))  # queries at global positions
    if not seeing_all:
        return out
    whole = Layout(
        torch.arange(seeing_all, device=q.device)[None],
        torch.arange(keys, device=q.device)[None],
        torch.ones(1, seeing_all, keys, dtype=torch.bool, device=q.device),
    )
    first = merge([attend_blocks(q, k, v, mask, bias, dropout, whole)])
    return torch.cat([first, out[:, :, seeing_all:]], dim=2)
