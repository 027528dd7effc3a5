"""Multi-head attention (Vaswani et al. 2017, section 3.2.2).

    MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O,  head_i = Attention(Q W^Q_i, K W^K_i, V W^V_i)

The paper's W^Q_1 … W^Q_h stand side by side in one `query` weight, and so for keys and values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwise.nn.attention import attend, attention_kind, attention_weights
from headwise.nn.cache import KeyValueCache
from headwise.nn.dropout import dropout as drop
from headwise.nn.layers import Linear

# Called with the weights (batch, heads, query, key); what it returns is used in their place.
Probe = Callable[[Tensor], Tensor]


class Probed(nn.Module):
    """An attention whose weights can be recorded and intervened on: it passes them through `probe`, where one is set.

    `continues` says that the next call's queries follow those of the call before: a decoder that attends step by
    step is recorded as if it had attended once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.probe: Probe | None = None
        self.continues = False


class MultiHeadAttention(Probed):
    """Self-attention where only x is given; attention over `memory` (x's keys and values) otherwise.

    `probe` sees, and may replace, the attention weights: this is how they are recorded and intervened on.
    With a probe set the weights are computed by the reference formula, whatever the kind.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        bias: bool = False,
        kind: str = "fused",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.key_size = key_size or d_model // heads
        self.value_size = value_size or d_model // heads
        self.kind = kind
        attention_kind(kind)
        self.dropout = dropout
        self.query = Linear(d_model, heads * self.key_size, bias=bias)
        self.key = Linear(d_model, heads * self.key_size, bias=bias)
        self.value = Linear(d_model, heads * self.value_size, bias=bias)
        self.output = Linear(heads * self.value_size, d_model, bias=bias)

    def forward(self, x: Tensor, mask: Tensor | None = None, cache: KeyValueCache | None = None) -> Tensor:
        """Attend from x to x, and to what the cache holds; x and the result are (batch, time, d_model)."""
        q, k, v = self._project(x, self.query, self.key, self.value)
        if cache is not None:
            k, v = cache.append(k, v)
        return self._attend(q, k, v, mask)

    def over(self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None = None) -> Tensor:
        """Attend from x (batch, query, d_model) to keys and values made by `remember`."""
        (q,) = self._project(x, self.query)
        return self._attend(q, *memory, mask)

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Project memory (batch, key, d_model) to keys and values (batch, heads, key, d_k and d_v)."""
        k, v = self._project(memory, self.key, self.value)
        return k, v

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        rate = self.dropout if self.training else 0.0
        if self.probe is None:
            heads = attend(q, k, v, mask=mask, kind=self.kind, dropout=rate)
        else:
            weights = self.probe(attention_weights(q, k, mask))
            heads = drop(weights, rate, self.training) @ v
        joined = heads.transpose(1, 2).flatten(2)  # (batch, query, heads * d_v)
        return self.output(joined)

    def _project(self, x: Tensor, *maps: Linear) -> list[Tensor]:
        """Apply several linear maps as one product and split the result into heads."""
        dtype = x.dtype
        if len(maps) == 1:
            joined = maps[0](x)
        else:
            weight = torch.cat([m.weight for m in maps]).to(dtype)
            bias = None if maps[0].bias is None else torch.cat([m.bias for m in maps]).to(dtype)
            joined = functional.linear(x, weight, bias)
        parts = joined.split([m.out_features for m in maps], dim=-1)
        return [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts]


@contextmanager
def recording(module: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Record the weights of every attention inside `module`, by its dotted name, one entry per call.

    Each entry is (batch, heads, query, key). Probes set before are called first and stay in place afterwards.
    """
    records: dict[str, list[Tensor]] = {}
    before: list[tuple[Probed, Probe | None]] = []

    def keep(name: str, part: Probed) -> Probe:
        entries = records.setdefault(name, [])
        earlier = part.probe

        def probe(weights: Tensor) -> Tensor:
            weights = weights if earlier is None else earlier(weights)
            if part.continues:
                entries[-1] = torch.cat([entries[-1], weights.detach()], dim=2)
            else:
                entries.append(weights.detach())
            return weights

        return probe

    try:
        for name, part in module.named_modules():
            if isinstance(part, Probed):
                before.append((part, part.probe))
                part.probe = keep(name, part)
        yield records
    finally:
        for part, earlier in before:
            part.probe = earlier
