"""Linear attention (Katharopoulos et al. 2020, "Transformers are RNNs", equations 5 to 12).

    out_i = φ(q_i) Σ_j φ(k_j)ᵀ v_j / φ(q_i) Σ_j φ(k_j)ᵀ,   φ(x) = elu(x) + 1

over all j, or over j <= i in the causal form, where the sums are the state of a recurrence: the decoding state has
d_k · (d_v + 1) numbers per head, for any length of sequence. A column of ones is appended to the values; its sum is
the denominator.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from headwise.nn.attention import Bias, Mask, Options, pairs_refused, register
from headwise.nn.cache import RecurrentCache
from headwise.nn.device import sum_dtype


def features(x: Tensor) -> Tensor:
    """Return φ(x) = elu(x) + 1, at least in float32, because it is summed over the sequence."""
    return functional.elu(x.to(sum_dtype(x))) + 1


def weights(q: Tensor, k: Tensor, mask: Mask, bias: Tensor | None) -> Tensor:
    """Return the dense weights φ(q_i)·φ(k_j) / Σ_j φ(q_i)·φ(k_j), (batch, heads, query, key)."""
    assert bias is None
    products = features(q) @ features(k).transpose(-2, -1)
    if mask is not None:
        products = products.masked_fill(~mask, 0.0)
    total = products.sum(-1, keepdim=True)
    return (products / total.masked_fill(total == 0, 1.0)).to(q.dtype)


def advance(q: Tensor, k: Tensor, v: Tensor, cache: RecurrentCache, mask: Mask, options: Options) -> Tensor:
    """Advance the recurrence by new positions; q, k and v are (rows, heads, new, d).

    The state is the sums Σ φ(k)ᵀ [v, 1] over all positions so far, (rows, heads, d_k, d_v + 1).
    """
    out, cache.state = _scan(features(q), *_keys_and_values(k, v, mask), options.linear.chunk, cache.state)
    cache.length += q.size(2)
    return out.to(q.dtype)


_NO_SCORES = "there are no scores before a softmax that it could be added to"


@register(
    "linear",
    structured=True,
    weights=weights,
    cache=RecurrentCache,
    advance=advance,
    lacks={
        "pairs": "its sums run over all keys, or over all earlier ones",
        "bias": _NO_SCORES,
        "rotation": "after the feature map, products of rotated vectors no longer depend on distances alone",
        "weights": "its weights are never written out",
        "dropout": "its weights are never written out, so there is nothing to drop",
    },
)
def linear(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias, dropout: float, *, causal: bool, options: Options
) -> Tensor:
    """Attend in time and memory linear in the number of keys; queries are the last positions."""
    if bias is not None:
        raise ValueError(f"linear attention takes no bias: {_NO_SCORES}")
    queries, earlier = features(q), k.size(2) - q.size(2)
    keys, values = _keys_and_values(k, v, mask)
    if not causal:
        return _divide(queries @ (keys.transpose(-2, -1) @ values)).to(q.dtype)
    assert earlier >= 0, "causal queries are the last of the keys' positions"
    state = keys[:, :, :earlier].transpose(-2, -1) @ values[:, :, :earlier]
    out, _ = _scan(queries, keys[:, :, earlier:], values[:, :, earlier:], options.linear.chunk, state)
    return out.to(q.dtype)


def _keys_and_values(k: Tensor, v: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
    """Return φ(k), set to 0 where masked, and [v, 1]."""
    keys = features(k)
    if mask is not None:
        if mask.size(2) > 1:
            raise pairs_refused("linear")
        keys = keys.masked_fill(~mask.transpose(2, 3), 0.0)
    return keys, functional.pad(v.to(keys.dtype), (0, 1), value=1.0)


def _divide(sums: Tensor) -> Tensor:
    numerator, denominator = sums[..., :-1], sums[..., -1:]
    return numerator / denominator.masked_fill(denominator == 0, 1.0)


def _scan(q: Tensor, k: Tensor, v: Tensor, chunk: int, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """Run the causal form from `state`: matrix products within each chunk, plus the sums over all earlier chunks.

    q, k are features; returns the result (batch, heads, time, d_v) and the state after the last position.
    """
    time = q.size(2)
    chunk = min(chunk, time)
    padding = (0, 0, 0, -time % chunk)
    q, k, v = (functional.pad(x, padding).unflatten(2, (-1, chunk)) for x in (q, k, v))
    inside = (q @ k.transpose(-2, -1)).tril() @ v  # (batch, heads, chunks, chunk, d_v + 1)
    sums = k.transpose(-2, -1) @ v  # (batch, heads, chunks, d_k, d_v + 1)
    if state is None:
        state = torch.zeros_like(sums[:, :, 0])
    states = torch.cat([state[:, :, None], sums], dim=2).cumsum(2)
    out = _divide(inside + q @ states[:, :, :-1]).flatten(2, 3)[:, :, :time]
    return out, states[:, :, -1]
