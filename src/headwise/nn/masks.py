"""Attention masks: boolean, True = may attend, broadcastable to (batch, heads, query, key)."""

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(keep: Tensor) -> Tensor:
    """Return the padding mask (batch, 1, 1, key): every query attends to real tokens only.

    keep: (batch, key) bool, True = real token.
    """
    return keep[:, None, None, :]


def without_end(keep: Tensor) -> Tensor:
    """Return keep (batch, key) without the last real token of each row, except where it is the only one."""
    followed = torch.cat([keep[:, 1:], torch.zeros_like(keep[:, :1])], dim=1)
    return keep & (followed | (keep.sum(1, keepdim=True) == 1))


def causal_mask(queries: int, keys: int | None = None, *, device: torch.device | None = None) -> Tensor:
    """Return the causal mask (1, 1, query, key): query i attends to keys 0..i.

    Section 3.1: "preventing positions from attending to subsequent positions". With more keys than queries, the
    queries are the last positions.
    """
    keys = queries if keys is None else keys
    allowed = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
    return allowed[None, None]


def prefix_mask(prefix: Tensor, queries: int, keys: int) -> Tensor:
    """Return the prefix-LM mask (batch, 1, query, key) (Raffel et al. 2020, section 3.2.1).

    Query i attends to keys 0..i and to all of the first prefix[b] keys. prefix: (batch,) lengths; the queries are the
    last positions.
    """
    in_prefix = torch.arange(keys, device=prefix.device) < prefix[:, None]  # (batch, key)
    return causal_mask(queries, keys, device=prefix.device) | in_prefix[:, None, None, :]


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax over the last dimension, exactly 0 where mask is False; all 0 if no key is allowed."""
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


def combine(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Return the conjunction of two masks; None allows everything."""
    if one is None or other is None:
        return other if one is None else one
    return one & other
