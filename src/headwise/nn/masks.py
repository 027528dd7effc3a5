"""Masks: boolean, True = may attend, broadcastable to (batch, heads, query, key)."""

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(keep: Tensor) -> Tensor:
    """Let every query see the real tokens only.

    keep: (batch, key) bool, True where a token is real. Returns (batch, 1, 1, key).
    """
    return keep[:, None, None, :]


def causal_mask(queries: int, keys: int | None = None, *, device: torch.device | None = None) -> Tensor:
    """Let query i see keys 0..i (section 3.1: "preventing positions from attending to subsequent positions").

    With more keys than queries the queries are the last positions. Returns (1, 1, query, key).
    """
    keys = queries if keys is None else keys
    allowed = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
    return allowed[None, None]


def prefix_mask(prefix: Tensor, queries: int, keys: int) -> Tensor:
    """Let query i see keys 0..i, and all of the first prefix[b] keys (Raffel et al. 2020, section 3.2.1).

    prefix: (batch,) lengths; the queries are the last positions. Returns (batch, 1, query, key).
    """
    ahead = torch.arange(keys, device=prefix.device) < prefix[:, None]  # (batch, key)
    return causal_mask(queries, keys, device=prefix.device) | ahead[:, None, None, :]


def combine(*masks: Tensor | None) -> Tensor | None:
    """Return the conjunction of the masks that are given, or None where none is."""
    result: Tensor | None = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else result & mask
    return result
