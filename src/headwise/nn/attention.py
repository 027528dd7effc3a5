"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), and the registry of attention kinds.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V

An attention kind is a function of (q, k, v, mask, bias, dropout), registered under its name; `attend` calls it. To add
one, write the function and decorate it with `@register("name")` (docs/models.md). `reference` and `fused` are defined
here, the others in `headwise.nn.kinds`. A layer that mixes a sequence without queries, keys and values is a
`SequenceMixer` decorated with `@register_layer("name")`.

Shapes: q (batch, heads, query, d_k), k (batch, heads, key, d_k), v (batch, heads, key, d_v), mask bool and
bias float broadcastable to (batch, heads, query, key); the result is (batch, heads, query, d_v). Keys and values
may have fewer heads, each shared by a group of consecutive query heads (Ainslie et al. 2023, section 2.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from headwise.config import AttentionOptions
from headwise.errors import ConfigError
from headwise.nn.cache import KeyValueCache
from headwise.nn.device import sum_dtype
from headwise.nn.dropout import dropout as drop
from headwise.nn.masks import causal_mask, combine, masked_softmax
from headwise.nn.mixing import Role, SequenceMixer
from headwise.nn.positions import AttentionPositions
from headwise.nn.relative import RelativeBias, dense_bias

# (q, k, v, mask, bias, dropout) -> result, shapes as at the top of this file; dropout is 0 outside training.
# A structured kind also takes causal= and options=, and accepts a `RelativeBias`.
AttentionKind = Callable[..., Tensor]
# None: every pair is allowed, and no bias is added.
Mask: TypeAlias = Tensor | None
Bias: TypeAlias = Tensor | RelativeBias | None
Options: TypeAlias = AttentionOptions

# Features that a kind may lack, with their names in error messages.
FEATURES = {
    "cross": "cross-attention",
    "pairs": "masks over pairs of query and key",
    "bias": "biases on the scores",
    "rotation": "rotated queries and keys",
    "dropout": "model.attention_dropout",
    "weights": "vectors added to the values",
    "probe": "recorded weights",
}


@dataclass(frozen=True)
class Registered:
    """A registered value of `model.attention`, which `module` defines.

    `lacks` maps each of `FEATURES` that it lacks to the reason.
    """

    name: str
    lacks: Mapping[str, str]
    module: str

    def require(self, feature: str, what: str, hint: str = "") -> None:
        """Raise `ConfigError` if it lacks `feature`, naming this kind, `what` needs the feature, and the reason."""
        if feature in self.lacks:
            reason = self.lacks[feature]
            raise ConfigError(f"model.attention={self.name} can't be combined with {what}: {reason}{hint}")

    def require_all(self, *, role: Role, dropout: float, positions: AttentionPositions | None) -> None:
        """Raise `ConfigError` if it lacks a feature that a layer with this role, dropout and positions needs."""
        if role == "cross":
            self.require("cross", "cross-attention", "; model.cross_attention can name another kind for that")
        if dropout:
            self.require("dropout", f"model.attention_dropout={dropout}")
        if positions is not None:
            for need in sorted(positions.needs):
                self.require(need, f"model.positions={positions.name}")


@dataclass(frozen=True)
class Layer(Registered):
    """A registered layer; see `register_layer`."""

    make: Callable[..., SequenceMixer]


@dataclass(frozen=True)
class Kind(Registered):
    """A registered attention kind; see `register`."""

    function: AttentionKind
    structured: bool
    causal: AttentionKind | None
    pattern: Callable[..., Mask]
    weights: Callable[..., Tensor] | None
    cache: Callable[[], Any]
    advance: Callable[..., Tensor] | None


_KINDS: dict[str, Kind | Layer] = {}
_DEFAULT_OPTIONS = AttentionOptions()

LayerClass = TypeVar("LayerClass", bound=type[SequenceMixer])


def all_pairs(queries: int, keys: int, *, causal: bool, options: Options, device: torch.device | None = None) -> Mask:
    """Return the default pattern: every pair of query and key is allowed (None), or every causal pair."""
    return causal_mask(queries, keys, device=device) if causal else None


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """Return softmax(Q Kᵀ / √d_k + bias), (batch, heads, query, key), with masked keys at exactly 0."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    return scores.softmax(dim=-1) if mask is None else masked_softmax(scores, mask)


def register(
    name: str,
    *,
    structured: bool = False,
    causal: AttentionKind | None = None,
    pattern: Callable[..., Mask] = all_pairs,
    weights: Callable[..., Tensor] | None = None,
    cache: Callable[[], Any] = KeyValueCache,
    advance: Callable[..., Tensor] | None = None,
    lacks: Mapping[str, str] | None = None,
) -> Callable[[AttentionKind], AttentionKind]:
    """Register an attention kind under `name`.

    Args:
        name: the value of `model.attention`.
        structured: whether the function avoids dense (query, key) tensors. It then takes `causal` instead of a causal
            mask (with fewer queries than keys, the queries are the last positions), the model's `options`, masks in
            four dimensions, and position biases as `RelativeBias`.
        causal: for a kind that isn't structured, a function (q, k, v, dropout) for causal self-attention without
            another mask and without a bias.
        pattern: the pairs of query and key that the kind allows.
        weights: the dense attention weights from q, k, mask (with `pattern`) and bias, as they are recorded: the kind's
            definition. By default, what the function makes of the identity matrix in the place of v, which are the
            weights of every kind that is linear in v.
        cache: the decoding cache; a recurrent kind has its own.
        advance: for a recurrent kind, the step from its cache.
        lacks: for each of `FEATURES` that the kind doesn't support, the reason; a model that needs one fails when it
            is built.
    """
    reasons = {"weights": "its weights are never written out"} if lacks is None else dict(lacks)

    def decorator(function: AttentionKind) -> AttentionKind:
        module = function.__module__
        _add(Kind(name, reasons, module, function, structured, causal, pattern, weights, cache, advance))
        return function

    return decorator


def register_layer(name: str, *, lacks: Mapping[str, str]) -> Callable[[LayerClass], LayerClass]:
    """Register a `SequenceMixer` that replaces self-attention; `lacks` is as for `register`.

    The class is called with (config, causal=).
    """

    def decorator(layer: LayerClass) -> LayerClass:
        _add(Layer(name, dict(lacks), layer.__module__, layer))
        return layer

    return decorator


def _add(kind: Kind | Layer) -> None:
    for feature in kind.lacks:
        if feature not in FEATURES:
            raise ConfigError(
                f"attention kind {kind.name}: expected lacks to name some of {', '.join(FEATURES)}, found {feature!r}"
            )
    before = _KINDS.get(kind.name)
    if before is not None and before.module != kind.module:  # a notebook's cell may run again
        raise ConfigError(f"attention kind {kind.name}: expected a new name, found one that {before.module} registers")
    _KINDS[kind.name] = kind


def registered(name: str, key: str = "model.attention") -> Kind | Layer:
    """Return the kind or layer of a name; raises `ConfigError` with the known names, when a model is built."""
    if name not in _KINDS:
        raise ConfigError(f"{key}: expected one of {', '.join(sorted(_KINDS))}, found {name!r}")
    return _KINDS[name]


def attention_kind(name: str, key: str = "model.attention") -> Kind:
    """Return the attention kind of a name; raises `ConfigError` if it is unknown or a layer."""
    kind = registered(name, key)
    if isinstance(kind, Layer):
        raise ConfigError(f"{key}: expected a kind with queries, keys and values, found {name}, which has none")
    return kind


def attention_kinds() -> tuple[Kind, ...]:
    """Return all attention kinds (without layers), sorted by name."""
    return tuple(kind for kind in all_registered() if isinstance(kind, Kind))


def all_registered() -> tuple[Kind | Layer, ...]:
    """Return all registered values of `model.attention`, sorted by name."""
    return tuple(_KINDS[name] for name in sorted(_KINDS))


def pairs_refused(name: str) -> ValueError:
    """Return the error for a mask over (query, key) pairs passed to a kind that takes masks over keys only."""
    return ValueError(
        f"expected a mask over keys (batch, heads, 1, key) for {name} attention, found one over pairs: "
        f"{registered(name).lacks['pairs']}"
    )


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask = None,
    bias: Bias = None,
    kind: str = "reference",
    dropout: float = 0.0,
    causal: bool = False,
    options: Options | None = None,
) -> Tensor:
    """Attend with the named kind; a query without any allowed key gets zeros.

    With `causal`, a query attends to no key after its own position; the queries are the last positions. Raises
    `ConfigError` for an unknown kind.
    """
    entry = attention_kind(kind)
    if entry.structured:
        k, v = share_heads(q, k, v)
        mask = None if mask is None else _four_dimensional(mask)
        bias = _four_dimensional(bias) if isinstance(bias, Tensor) else bias
        options = options or _DEFAULT_OPTIONS
        return entry.function(q, k, v, mask, bias, dropout, causal=causal, options=options)
    queries, keys = q.size(-2), k.size(-2)
    if causal and entry.causal is not None and mask is None and bias is None and queries == keys > 1:
        return entry.causal(q, *share_heads(q, k, v), dropout)
    bias = dense_bias(bias, queries, keys)
    if causal and queries > 1:
        mask = combine(mask, causal_mask(queries, keys, device=q.device))
    if q.size(1) != k.size(1) and queries == 1 and mask is None:
        # A single new token: the query heads of a group become queries of their shared head, so no key is copied.
        folded = q.reshape(q.size(0), k.size(1), -1, q.size(-1))
        if bias is not None:
            bias = bias.expand(*q.shape[:3], keys).reshape(q.size(0), k.size(1), -1, keys)
        return entry.function(folded, k, v, None, bias, dropout).reshape(*q.shape[:3], v.size(-1))
    k, v = share_heads(q, k, v)
    return entry.function(q, k, v, mask, bias, dropout)


def share_heads(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat each key/value head for the group of query heads that shares it."""
    if q.size(1) == k.size(1):
        return k, v
    group = q.size(1) // k.size(1)
    return k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)


def _four_dimensional(x: Tensor) -> Tensor:
    return x[(None,) * (4 - x.dim())]


@register("reference", weights=attention_weights, lacks={})
def reference(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, dropout: float) -> Tensor:
    """Compute the paper's formula as written, with dense attention weights."""
    weights = attention_weights(q, k, mask, bias)
    return drop(weights, dropout, training=dropout > 0) @ v


# Up to this many keys, plain matrix products are faster than torch's fused CPU kernel, whose backward pass is
# several times slower for short sentences (benchmarks/README.md).
_FUSED_FROM_KEYS_ON_CPU = 128


def _fused_causal(q: Tensor, k: Tensor, v: Tensor, dropout: float) -> Tensor:
    """Causal self-attention; long sequences use torch's kernel without a dense mask, in linear memory."""
    if _short(k):
        return fused(q, k, v, causal_mask(q.size(-2), device=q.device), None, dropout)
    return _torchs_own(q, k, v, None, dropout, causal=True)


def _short(k: Tensor) -> bool:
    return k.device.type == "cpu" and k.size(-2) <= _FUSED_FROM_KEYS_ON_CPU


@register("fused", causal=_fused_causal, weights=attention_weights)
def fused(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None, dropout: float) -> Tensor:
    """Compute the same function as `reference` by the fastest implementation.

    Long sequences, and all sequences on a GPU, use torch's scaled_dot_product_attention; short ones on a CPU use plain
    matrix products with an additive mask, which are faster there.
    """
    added = _additive(mask, bias, q.dtype)
    if _short(k):
        scores = (q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)
        if added is not None:
            scores = scores + added
        # In float32: over rows this short, torch's bfloat16 softmax takes 3 to 9 times as long, forward and backward.
        weights = scores.softmax(dim=-1, dtype=sum_dtype(scores)).to(v.dtype)
        out = drop(weights, dropout, training=dropout > 0) @ v
    else:
        out = _torchs_own(q, k, v, added, dropout)
    if mask is None or not _may_have_empty_rows(mask):
        return out
    return out * mask.any(dim=-1, keepdim=True)


# All but cuDNN's, which torch (2.11 to 2.14) prefers on Hopper and Blackwell: it plans each new batch size and length
# for 20 to 500 ms on the processor, and nearly every batch of text has others.
_KERNELS_FOR_FEW_KEYS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_KERNELS = [SDPBackend.FLASH_ATTENTION, *_KERNELS_FOR_FEW_KEYS]
# FlashAttention computes blocks of 128 queries, which sentences leave mostly empty: for 25,000 subwords in captions of
# about 15 it took 1.8 times the time of the other kernel forward, and 3.1 times backward (d_k 64, an H200).
_FLASH_FROM_KEYS = 65


def _torchs_own(
    q: Tensor, k: Tensor, v: Tensor, added: Tensor | None, dropout: float, *, causal: bool = False
) -> Tensor:
    """Compute attention by torch's own kernels; `added` is added to the scores."""
    kernels = _KERNELS_FOR_FEW_KEYS if k.size(-2) < _FLASH_FROM_KEYS else _KERNELS
    with sdpa_kernel(kernels) if q.device.type == "cuda" else nullcontext():
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=added, dropout_p=dropout, is_causal=causal)


def _additive(mask: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if mask is None:
        return None if bias is None else bias.to(dtype)
    # Large but finite, so that a query without any allowed key gets no NaN before its output is set to zero.
    lowest = torch.finfo(dtype).min / 2
    if bias is not None:
        return bias.to(dtype).masked_fill(~mask, lowest)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, lowest)


def _may_have_empty_rows(mask: Tensor) -> bool:
    """Return whether some query has no allowed key; True on a GPU, where checking would need a synchronization."""
    return mask.device.type != "cpu" or not bool(mask.any(dim=-1).all())
