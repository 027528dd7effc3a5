"""The four layer types of Table 1, each reduced to the operation that mixes positions, with its complexity formula.

What all of them share (projections, feed-forward) is left out, as in the paper's table. A multiplication and the
addition after it count as two operations: the paper's n²·d for self-attention is 4·n²·d here, because the scores and
the weighted sums of values take one matrix product each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwise.config.model import AttentionOptions, WindowConfig
from headwise.nn.attention import attend
from headwise.nn.recurrent.layer import Recurrence

HEADS, KERNEL, RADIUS = 8, 3, 16
# The paper's neighborhood of size r, as a window of RADIUS: |i - j| < RADIUS on both sides.
NEIGHBORHOOD = 2 * RADIUS - 1


class SelfAttention(nn.Module):
    """softmax(Q Kᵀ / √d_k) V without projections; `kind` as in `headwise.nn.attention`."""

    def __init__(self, d: int, kind: str = "reference", radius: int = RADIUS) -> None:
        super().__init__()
        self.kind = kind
        self.options = AttentionOptions(window=WindowConfig(size=radius))

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output for x, both (batch, n, d)."""
        heads = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        mixed = attend(heads, heads, heads, kind=self.kind, options=self.options)
        return mixed.transpose(1, 2).flatten(2)


class Recurrent(nn.Module):
    """A GRU layer; if `unrolled`, it runs step by step in Python, so that torch records each operation."""

    def __init__(self, d: int, unrolled: bool = False) -> None:
        super().__init__()
        self.layer, self.unrolled = Recurrence("gru", d, d), unrolled

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output for x, both (batch, n, d)."""
        state = (x.new_zeros(x.size(0), x.size(2)),)
        if not self.unrolled:
            return self.layer.run(x, state)
        weights, outputs = self.layer.weights(x.dtype), []
        for x_t in x.unbind(1):
            state = Recurrence.step(x_t, state, weights)
            outputs.append(state[0])
        return torch.stack(outputs, dim=1)


class Convolutional(nn.Module):
    """A causal convolution of width 3 over all channels, zero-padded before the first position.

    It is causal so that dilations 1, k, k², … reach every distance below k^layers without leaving the sequence.
    """

    def __init__(self, d: int, dilation: int = 1) -> None:
        super().__init__()
        self.dilation = dilation
        self.weight = nn.Parameter(torch.randn(d, d, KERNEL) / math.sqrt(d * KERNEL))

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output for x, both (batch, n, d)."""
        padded = functional.pad(x.transpose(1, 2), ((KERNEL - 1) * self.dilation, 0))
        return functional.conv1d(padded, self.weight, dilation=self.dilation).transpose(1, 2)


@dataclass(frozen=True)
class LayerKind:
    """A layer type: its name in the paper, a constructor for a width, and its operations as a function of n and d."""

    paper: str  # name in `paper.TABLE_1`
    build: Callable[[int], nn.Module]
    flops: Callable[[int, int], int]
    formula: str


KINDS: Mapping[str, LayerKind] = {
    "self-attention": LayerKind("Self-Attention", SelfAttention, lambda n, d: 4 * n * n * d, "4·n²·d"),
    "recurrent": LayerKind("Recurrent", Recurrent, lambda n, d: 12 * n * d * d, "12·n·d² (GRU)"),
    "convolutional": LayerKind(
        "Convolutional", Convolutional, lambda n, d: 2 * KERNEL * n * d * d, "2·k·n·d², k = 3"
    ),
    "restricted": LayerKind(
        "Self-Attention (restricted)",
        lambda d: SelfAttention(d, "window"),
        lambda n, d: 4 * NEIGHBORHOOD * n * d,
        "4·r·n·d, r = 31",
    ),
}


def longest_chain(output: Tensor) -> int:
    """Return the number of operations on the longest path through a tensor's autograd graph."""
    depth: dict[object, int] = {}
    stack = [output.grad_fn]
    while stack:
        node = stack[-1]
        assert node is not None
        predecessors = [inner for inner, _ in node.next_functions if inner is not None]
        unvisited = [inner for inner in predecessors if inner not in depth]
        if unvisited:
            stack += unvisited
            continue
        depth[node] = 1 + max((depth[inner] for inner in predecessors), default=0)
        stack.pop()
    assert output.grad_fn is not None
    return depth[output.grad_fn]


def layers_to_connect(build: Callable[[int], nn.Module], n: int, most: int = 1000) -> int:
    """Return how many layers are needed until the last output depends on the first input: ∂output_n/∂input_1 ≠ 0.

    `build` makes layer number 0, 1, 2, …, all of width 8.
    """
    torch.manual_seed(0)
    x = torch.randn(1, n, 8, dtype=torch.float64, requires_grad=True)
    output = x
    for number in range(most):
        output = build(number).double()(output)
        (gradient,) = torch.autograd.grad(output[0, -1].sum(), x, retain_graph=True)
        if gradient[0, 0].abs().max() > 0:
            return number + 1
    raise AssertionError(f"positions 1 and {n} aren't connected by {most} layers")
