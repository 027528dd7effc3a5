"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), behind one door.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

Every kind is a function of (q, k, v, mask, bias, dropout) registered under its name; `attend` calls it. To add
one, write the function and put `@register("name")` above it.

Shapes: q (batch, heads, query, d_k), k (batch, heads, key, d_k), v (batch, heads, key, d_v), mask bool and
bias float broadcastable to (batch, heads, query, key); the result is (batch, heads, query, d_v).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from headwise.errors import ConfigError
from headwise.nn.dropout import dropout as drop


class AttentionKind(Protocol):
    """What a registered kind looks like; `dropout` is 0 outside training."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float
    ) -> Tensor:
        """Attend; shapes as at the top of this file."""
        ...


_KINDS: dict[str, AttentionKind] = {}


def register(name: str) -> Callable[[AttentionKind], AttentionKind]:
    """Register an attention kind under `name`."""

    def keep(function: AttentionKind) -> AttentionKind:
        assert name not in _KINDS, f"attention kind {name} is registered twice"
        _KINDS[name] = function
        return function

    return keep


def attention_kind(name: str) -> AttentionKind:
    """Look a kind up; raises `ConfigError` naming the known ones, so that a model fails when it is built."""
    if name not in _KINDS:
        raise ConfigError(f"model.attention: expected one of {', '.join(sorted(_KINDS))}, found {name!r}")
    return _KINDS[name]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    kind: str = "reference",
    dropout: float = 0.0,
) -> Tensor:
    """Attend with the named kind; a query that may attend to nothing gets zeros.

    Raises `ConfigError` for an unknown kind.
    """
    return attention_kind(kind)(q, k, v, mask, bias, dropout)


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """softmax(Q Kᵀ / √d_k + bias) with masked keys at exactly 0; (batch, heads, query, key)."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if mask is None:
        return scores.softmax(dim=-1)
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


@register("reference")
def reference(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float
) -> Tensor:
    """Compute the paper's formula, as written; the weights are there to be looked at."""
    weights = attention_weights(q, k, mask, bias)
    return drop(weights, dropout, training=dropout > 0) @ v


# Up to this many keys, plain matrix products beat torch's fused CPU kernel, whose backward pass is
# several times slower for short sentences (benchmarks/attention_backends.py).
_FUSED_FROM_KEYS_ON_CPU = 128


@register("fused")
def fused(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float
) -> Tensor:
    """Compute the same function the fastest way known here.

    Long sequences and GPUs go to torch's scaled_dot_product_attention; short ones on a CPU to plain products with
    the mask added to the scores, which is what that kernel's speed depends on there.
    """
    added = _additive(mask, bias, q.dtype)
    if q.device.type == "cpu" and k.size(-2) <= _FUSED_FROM_KEYS_ON_CPU:
        scores = (q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)
        if added is not None:
            scores = scores + added
        out = drop(scores.softmax(dim=-1), dropout, training=dropout > 0) @ v
    else:
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=added, dropout_p=dropout)
    if mask is None or not _may_have_empty_rows(mask):
        return out
    return out * mask.any(dim=-1, keepdim=True)


def _additive(mask: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if mask is None:
        return None if bias is None else bias.to(dtype)
    # Large and finite, so that a row without any key stays free of NaN until it is zeroed.
    lowest = torch.finfo(dtype).min / 2
    if bias is not None:
        return bias.to(dtype).masked_fill(~mask, lowest)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, lowest)


def _may_have_empty_rows(mask: Tensor) -> bool:
    """Tell without waiting for the device whether some query may attend to nothing (unknown on a GPU)."""
    return mask.device.type != "cpu" or not bool(mask.any(dim=-1).all())
