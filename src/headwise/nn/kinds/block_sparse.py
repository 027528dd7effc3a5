"""Local and strided attention (Child et al. 2019, "Generating Long Sequences with Sparse Transformers", section 4.3).

Query i attends to key j if |i - j| < local, or if i - j is a multiple of stride; causally, only if j <= i. Both
parts share one softmax (the paper's merged head). With a stride near √n, time and memory grow with n · √n: all
queries with the same remainder modulo stride attend to the same distant keys, so each remainder is one block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.nn.attention import Bias, Mask, Options, attention_weights, register
from headwise.nn.kinds.blocks import Layout, attend_blocks, merge
from headwise.nn.kinds.window import near_layout


def far_layout(
    queries: int, keys: int, local: int, stride: int, *, causal: bool, device: torch.device | None = None
) -> Layout:
    """Return the layout of the pairs at a distance of at least local that is a multiple of stride."""
    blocks = torch.arange(min(stride, queries), device=device)[:, None]
    rows = blocks + stride * torch.arange(-(-queries // stride), device=device)
    positions = rows + keys - queries
    cols = positions[:, :1] % stride + stride * torch.arange(-(-keys // stride), device=device)
    distance = positions[:, :, None] - cols[:, None, :]
    return Layout(rows, cols, distance >= local if causal else distance.abs() >= local)


def pattern(queries: int, keys: int, *, causal: bool, options: Options, device: torch.device | None = None) -> Tensor:
    """Return the allowed pairs as a dense mask, (1, 1, query, key)."""
    i = torch.arange(queries, device=device)[:, None] + keys - queries
    j = torch.arange(keys, device=device)[None]
    sparse = options.block_sparse
    allowed = ((i - j).abs() < sparse.local) | ((i - j) % sparse.stride == 0)
    return (allowed & (j <= i) if causal else allowed)[None, None]


@register(
    "block_sparse",
    structured=True,
    pattern=pattern,
    weights=attention_weights,
    lacks={
        "cross": "local and strided distances are defined within one sequence",
        "weights": "its weights are never written out",
    },
)
def block_sparse(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias, dropout: float, *, causal: bool, options: Options
) -> Tensor:
    """Attend to the local keys and to every stride-th key; queries are the last positions."""
    queries, keys = q.size(2), k.size(2)
    sparse = options.block_sparse
    near = near_layout(queries, keys, sparse.local, causal=causal, device=q.device)
    far = far_layout(queries, keys, sparse.local, sparse.stride, causal=causal, device=q.device)
    return merge([attend_blocks(q, k, v, mask, bias, dropout, part) for part in (near, far)])
