"""Random inputs for attention, and reference implementations of the attention kinds with loops and full matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from headwise.config import AttentionOptions
from headwise.nn.attention import attend
from headwise.nn.relative import RelativeBias


@dataclass
class Problem:
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    bias: Tensor | RelativeBias | None
    causal: bool
    options: AttentionOptions

    def to(self, dtype: torch.dtype) -> Problem:
        bias = self.bias
        if isinstance(bias, RelativeBias):
            bias = RelativeBias(bias.table.to(dtype))
        elif bias is not None:
            bias = bias.to(dtype)
        q, k, v = (x.to(dtype) for x in (self.q, self.k, self.v))
        return Problem(q, k, v, self.mask, bias, self.causal, self.options)

    def attend(self, kind: str) -> Tensor:
        return attend(
            self.q,
            self.k,
            self.v,
            mask=self.mask,
            bias=self.bias,
            kind=kind,
            causal=self.causal,
            options=self.options,
        )

    def allowed(self, kind: str) -> Tensor:
        """Mask (batch, heads, query, key) of an attention kind, pair by pair as the papers define it."""
        queries, keys = self.q.size(2), self.k.size(2)
        window, sparse = self.options.window, self.options.block_sparse
        table = torch.zeros(queries, keys, dtype=torch.bool)
        for i in range(queries):
            for j in range(keys):
                p = i + keys - queries  # the queries are the last positions
                seen = {
                    "window": abs(p - j) < window.size or j < window.globals or p < window.globals,
                    "block_sparse": abs(p - j) < sparse.local or (p - j) % sparse.stride == 0,
                }.get(kind, True)
                table[i, j] = seen and (j <= p or not self.causal)
        table = table.expand(self.q.size(0), self.q.size(1), queries, keys)
        return table if self.mask is None else table & self.mask

    def dense_bias(self) -> Tensor:
        """The bias as a full matrix (batch, heads, query, key), built entry by entry."""
        batch, heads, queries, _ = self.q.shape
        keys = self.k.size(2)
        if self.bias is None:
            return self.q.new_zeros(batch, heads, queries, keys)
        if isinstance(self.bias, Tensor):
            return self.bias.expand(batch, heads, queries, keys)
        table = self.bias.table.expand(batch, heads, queries, -1)
        reach = (table.size(-1) - 1) // 2
        columns = []
        for j in range(keys):
            clipped = [min(max(j - (i + keys - queries), -reach), reach) + reach for i in range(queries)]
            columns.append(torch.stack([table[:, :, i, c] for i, c in enumerate(clipped)], -1))
        return torch.stack(columns, -1)

    def expected(self, kind: str) -> Tensor:
        """Attention by its definition with full matrices: softmax, or for `linear` the kernel formula."""
        allowed = self.allowed(kind).to(self.q.dtype)
        groups = self.q.size(1) // self.k.size(1)
        k = torch.stack([self.k[:, h // groups] for h in range(self.q.size(1))], 1)
        v = torch.stack([self.v[:, h // groups] for h in range(self.q.size(1))], 1)
        if kind == "linear":
            q_features, k_features = (torch.where(x > 0, x + 1, x.exp()) for x in (self.q, k))
            scores = torch.einsum("bhid,bhjd->bhij", q_features, k_features) * allowed
        else:
            scale = 1.0 if kind == "unscaled" else math.sqrt(k.size(-1))
            scores = torch.einsum("bhid,bhjd->bhij", self.q, k) / scale + self.dense_bias()
            scores = (scores - scores.amax(-1, keepdim=True)).exp() * allowed
        total = scores.sum(-1, keepdim=True)
        return torch.einsum("bhij,bhjd->bhid", scores / torch.where(total == 0, 1.0, total), v)


@st.composite
def problems(draw: st.DrawFn, kind: str, longest: int = 40) -> Problem:
    """Random problems: lengths around block boundaries, masks and biases of every shape that the kind supports."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    shared = draw(st.integers(1, 2))
    batch, groups = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    heads, d_k, d_v = shared * groups, draw(st.integers(1, 4)), draw(st.integers(1, 4))
    causal = draw(st.booleans())
    keys = draw(st.integers(1, longest))
    queries = draw(st.integers(1, keys if causal or kind in ("window", "block_sparse") else longest))
    options = AttentionOptions.model_validate(
        {
            "window": {"size": draw(st.integers(1, 12)), "globals": draw(st.integers(0, 4))},
            "block_sparse": {"local": draw(st.integers(1, 12)), "stride": draw(st.integers(1, 9))},
            "linear": {"chunk": draw(st.integers(1, 16))},
            "memory_efficient": {"chunk": draw(st.integers(1, 16))},
        }
    )
    mask = bias = None
    if draw(st.booleans()):
        mask_queries = 1 if kind == "linear" else draw(st.sampled_from([1, queries]))
        share = draw(st.sampled_from([0.0, 0.5, 0.9]))
        shape = (draw(st.sampled_from([1, batch])), draw(st.sampled_from([1, heads])), mask_queries, keys)
        mask = torch.rand(shape, generator=generator) < share
    choice = "none" if kind == "linear" else draw(st.sampled_from(["none", "dense", "distance", "per query"]))
    if choice == "dense":
        bias = normal(draw(st.sampled_from([1, batch])), heads, draw(st.sampled_from([1, queries])), keys)
    elif choice != "none":
        reach = draw(st.integers(1, 10))
        bias = RelativeBias(normal(1, heads, queries if choice == "per query" else 1, 2 * reach + 1))
    q = 2 * normal(batch, heads, queries, d_k)
    return Problem(q, normal(batch, shared, keys, d_k), normal(batch, shared, keys, d_v), mask, bias, causal, options)
