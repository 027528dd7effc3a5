"""Multi-head attention (Vaswani et al. 2017, section 3.2.2).

    MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O,  head_i = Attention(Q W^Q_i, K W^K_i, V W^V_i)

The paper's W^Q_1 … W^Q_h are concatenated in one `query` weight; keys and values likewise. Keys and values may have
fewer heads: then h / key_value_heads query heads share a key/value head (grouped-query attention, Ainslie et al. 2023),
or all share one (multi-query attention, Shazeer 2019).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor, nn

from headwise.config import AttentionOptions
from headwise.errors import ConfigError
from headwise.nn.attention import attend, attention_kind, registered, share_heads
from headwise.nn.cache import Cache, KeyValueCache
from headwise.nn.dropout import dropout as drop
from headwise.nn.linear import Linear, linear
from headwise.nn.masks import combine
from headwise.nn.mixing import Role, SequenceMixer
from headwise.nn.positions import AttentionPositions
from headwise.nn.relative import RelativeBias, dense_bias

# Called with the attention weights (batch, heads, query, key) and the mask, if there is one, broadcastable to them; the
# weights that it returns replace them.
Probe = Callable[[Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class Attended:
    """The intermediate tensors of one call of attention.

    q, k, v (batch, heads, time, features), after the rotation if positions are rotary; mask and bias broadcastable to
    (batch, heads, query, key); weights (batch, heads, query, key), after the probe; heads (batch, heads, query,
    features), the weighted sums of v. Attention that isn't multi-head has one head.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    bias: Tensor | None
    weights: Tensor
    heads: Tensor


class Probed(nn.Module):
    """Base class of attention modules, whose weights a `probe` replaces, and whose tensors `watch` receives.

    `headwise.nn.recording` records with `watch`. `continues` states that the queries of the next call follow those of
    the previous one, so that a decoder that attends step by step is recorded as one call.
    """

    def __init__(self) -> None:
        super().__init__()
        self.probe: Probe | None = None
        self.watch: Callable[[Attended], None] | None = None
        self.continues = False

    @property
    def inspected(self) -> bool:
        """Whether dense weights are needed, for a probe or a watch."""
        return self.probe is not None or self.watch is not None


class MultiHeadAttention(Probed, SequenceMixer):
    """Multi-head self-attention (`forward`), or attention over an encoded source (`cross_attend`).

    In the role `causal`, no position attends to a later one; this needs no mask. `positions` act in self-attention
    only. With a `probe` or a `watch`, the dense weights are computed by the definition of the kind, at quadratic cost.

    Raises `ConfigError` for sizes that don't divide, for an unknown role or kind, and for a kind that lacks a feature
    that the other arguments need.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        key_value_heads: int | None = None,
        bias: bool = False,
        kind: str = "fused",
        role: Role = "self",
        dropout: float = 0.0,
        options: AttentionOptions | None = None,
        positions: AttentionPositions | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or ((key_size is None or value_size is None) and d_model % heads):
            raise ConfigError(
                "d_model: expected a multiple of heads, unless key_size and value_size are given, found "
                f"d_model={d_model} and heads={heads}"
            )
        if key_value_heads is not None and (key_value_heads < 1 or heads % key_value_heads):
            raise ConfigError(f"key_value_heads: expected a divisor of heads={heads}, found {key_value_heads}")
        if role not in get_args(Role):
            raise ConfigError(f"role: expected one of {', '.join(get_args(Role))}, found {role!r}")
        self.heads = heads
        self.key_size = key_size or d_model // heads
        self.value_size = value_size or d_model // heads
        self.key_value_heads = key_value_heads or heads
        self.causal = role == "causal"
        self.kind = kind
        self.dropout = dropout
        self.options = options or AttentionOptions()
        key = "model.cross_attention" if role == "cross" else "model.attention"
        registered(kind, key).require_all(role=role, dropout=dropout, positions=positions)
        attention_kind(kind, key)
        self.query = Linear(d_model, heads * self.key_size, bias=bias)
        self.key = Linear(d_model, self.key_value_heads * self.key_size, bias=bias)
        self.value = Linear(d_model, self.key_value_heads * self.value_size, bias=bias)
        self.output = Linear(heads * self.value_size, d_model, bias=bias)
        self.positions = positions

    def forward(self, x: Tensor, mask: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """Attend from x to x and to the cached positions; x and the result are (batch, time, d_model)."""
        q, k, v = self._project(x, self.query, self.key, self.value)
        if self.positions is not None:
            start = 0 if cache is None else cache.length
            q, k = self.positions.rotate(q, start), self.positions.rotate(k, start)
        if isinstance(cache, KeyValueCache):
            k, v = cache.append(k, v)
        elif cache is not None:
            return self._advance(q, k, v, mask, cache)
        bias = None if self.positions is None else self.positions.bias(q, k.size(2))
        return self._attend(q, k, v, mask, bias)

    def cross_attend(self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None = None) -> Tensor:
        """Attend from x (batch, query, d_model) to the keys and values from `project_memory`."""
        (q,) = self._project(x, self.query)
        return self._attend(q, *memory, mask, None)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Project memory (batch, key, d_model) to keys and values (batch, key_value_heads, key, d_k and d_v)."""
        k, v = self._project(memory, self.key, self.value)
        return k, v

    def new_cache(self) -> Cache:
        """Return an empty cache for self-attention; where weights are inspected, one with all keys."""
        return KeyValueCache() if self.inspected else attention_kind(self.kind).cache()

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: RelativeBias | None) -> Tensor:
        if self.inspected or self._adds_to_values:
            return self._join(self._attend_written_out(q, k, v, mask, bias))
        rate = self.dropout if self.training else 0.0
        causal, options = self.causal, self.options
        heads = attend(q, k, v, mask=mask, bias=bias, kind=self.kind, dropout=rate, causal=causal, options=options)
        return self._join(heads)

    @property
    def _adds_to_values(self) -> bool:
        """Whether the positions add vectors to the values, which needs dense weights."""
        return self.positions is not None and "weights" in self.positions.needs

    def _attend_written_out(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: RelativeBias | None
    ) -> Tensor:
        """Attend with dense weights by the kind's definition; arguments and result as for `attend`."""
        k, v = share_heads(q, k, v)
        kind, (queries, keys) = attention_kind(self.kind), (q.size(2), k.size(2))
        given, dense = mask, dense_bias(bias, queries, keys)
        mask = combine(given, kind.pattern(queries, keys, causal=self.causal, options=self.options, device=q.device))
        if kind.weights is not None:
            weights = kind.weights(q, k, mask, dense)  # (batch, heads, query, key)
        else:
            unit = torch.eye(keys, dtype=v.dtype, device=v.device).expand(*k.shape[:2], keys, keys)
            causal, options = self.causal, self.options
            weights = attend(q, k, unit, mask=given, bias=bias, kind=self.kind, causal=causal, options=options)
        weights = weights if self.probe is None else self.probe(weights, mask)
        used = drop(weights, self.dropout, self.training)
        heads = used @ v
        if self.positions is not None and self._adds_to_values:
            heads = heads + self.positions.values(used)
        if self.watch is not None:
            self.watch(Attended(q, k, v, mask, dense, weights, heads))
        return heads

    def _advance(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, cache: Cache) -> Tensor:
        """Advance a recurrent kind by new positions; its past keys aren't stored."""
        advance = attention_kind(self.kind).advance
        assert advance is not None, f"{self.kind} has a cache of its own and nothing to continue it"
        if self.inspected:
            raise ValueError(f"a probe must be set before decoding with {self.kind} attention begins")
        return self._join(advance(q, *share_heads(q, k, v), cache, mask, self.options))

    def _join(self, heads: Tensor) -> Tensor:
        return self.output(heads.transpose(1, 2).flatten(2))  # from (batch, query, heads * d_v)

    def _project(self, x: Tensor, *maps: Linear) -> list[Tensor]:
        """Apply several linear maps, in training as one matrix product, and split each result into heads.

        Joining the weights costs more than it gains for the few rows of a decoding step.
        """
        if len(maps) == 1 or not torch.is_grad_enabled():
            parts = [m(x) for m in maps]
        else:
            weight = torch.cat([m.weight for m in maps]).to(x.dtype)
            bias = None if maps[0].bias is None else torch.cat([m.bias for m in maps]).to(x.dtype)
            parts = linear(x, weight, bias).split([m.out_features for m in maps], dim=-1)
        sizes = [self.value_size if m is self.value else self.key_size for m in maps]
        return [p.unflatten(-1, (-1, size)).transpose(1, 2) for p, size in zip(parts, sizes, strict=True)]
