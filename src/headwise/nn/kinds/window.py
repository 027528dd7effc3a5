"""Sliding-window attention with global tokens (Beltagy et al. 2020, "Longformer", section 3.1).

Query i attends to key j if |i - j| < size. The first `globals` positions attend to every key, and every query attends
to them; causally, all of this only if j <= i. Time and memory grow with query · (size + globals).
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.nn.attention import Bias, Mask, Options, attention_weights, register
from headwise.nn.kinds.blocks import Layout, attend_blocks, merge

_SMALLEST_BLOCK = 32  # the overhead of smaller blocks exceeds their savings


def near_layout(
    queries: int, keys: int, size: int, *, causal: bool, first: int = 0, device: torch.device | None = None
) -> Layout:
    """Return the layout of the pairs with |i - j| < size (and j <= i if causal) among the keys from `first` on."""
    size = min(size, keys)  # no pair is farther apart
    height = min(queries, max(size, _SMALLEST_BLOCK))
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
    """Add the first `count` keys to every block of a layout."""
    blocks, height = layout.rows.shape
    cols = torch.arange(count, device=layout.rows.device).expand(blocks, count)
    positions = layout.rows + keys - queries
    allowed = layout.allowed.new_ones(blocks, height, count)
    if causal:
        allowed = cols[:, None, :] <= positions[:, :, None]
    return Layout(layout.rows, torch.cat([cols, layout.cols], 1), torch.cat([allowed, layout.allowed], 2))


def pattern(queries: int, keys: int, *, causal: bool, options: Options, device: torch.device | None = None) -> Tensor:
    """Return the allowed pairs as a dense mask, (1, 1, query, key)."""
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
    weights=attention_weights,
    lacks={
        "cross": "a window is a neighborhood within one sequence",
        "weights": "its weights are never written out",
    },
)
def window(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias, dropout: float, *, causal: bool, options: Options
) -> Tensor:
    """Attend within the window and to the global tokens; queries are the last positions."""
    queries, keys = q.size(2), k.size(2)
    size, count = options.window.size, min(options.window.globals, keys)
    layout = near_layout(queries, keys, size, causal=causal, first=count, device=q.device)
    layout = with_globals(layout, queries, keys, count, causal=causal)
    out = merge([attend_blocks(q, k, v, mask, bias, dropout, layout)])
    global_queries = 0 if causal else max(0, count - (keys - queries))
    if not global_queries:
        return out
    dense = Layout(
        torch.arange(global_queries, device=q.device)[None],
        torch.arange(keys, device=q.device)[None],
        torch.ones(1, global_queries, keys, dtype=torch.bool, device=q.device),
    )
    first = merge([attend_blocks(q, k, v, mask, bias, dropout, dense)])
    return torch.cat([first, out[:, :, global_queries:]], dim=2)
