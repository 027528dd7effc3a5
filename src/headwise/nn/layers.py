"""The parts around attention: linear maps, feed-forward, normalization, residual sub-layers.

Parameters stay in float32. The activations' dtype decides the arithmetic: with bfloat16 activations the
weights are rounded to bfloat16 for the product, and their gradients are accumulated in float32.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwise.nn.dropout import dropout, dropout_add

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}


class Linear(nn.Linear):
    """x Wᵀ + b in the dtype of the input; Xavier-uniform weights and zero biases at the start."""

    def reset_parameters(self) -> None:
        """Initialize as Glorot & Bengio 2010 do."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:  # noqa: D102
        bias = None if self.bias is None else self.bias.to(input.dtype)
        return functional.linear(input, self.weight.to(input.dtype), bias)


class LayerNorm(nn.LayerNorm):
    """Normalize over the last dimension by √(σ² + ε) (Ba et al. 2016), in the dtype of the input."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: D102
        weight, bias = self.weight.to(input.dtype), self.bias.to(input.dtype)
        return functional.layer_norm(input, self.normalized_shape, weight, bias, self.eps)


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W₁ + b₁) W₂ + b₂ (section 3.3); (…, d_model) to (…, d_model)."""

    def __init__(self, d_model: int, d_ff: int, activation: str, drop: float) -> None:
        super().__init__()
        self.w1 = Linear(d_model, d_ff)
        self.w2 = Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = drop

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        hidden = self.activation(self.w1(x))  # (…, d_ff)
        return self.w2(dropout(hidden, self.dropout, self.training))


class Residual(nn.Module):
    """The connection around a sub-layer (section 5.4, and 3.1 for the order).

    Post-norm, as in the paper: LayerNorm(x + Dropout(Sublayer(x))). Pre-norm: x + Dropout(Sublayer(LayerNorm(x))).
    """

    def __init__(self, d_model: int, norm: str, drop: float) -> None:
        super().__init__()
        self.norm = LayerNorm(d_model)
        self.pre = norm == "pre"
        self.dropout = drop

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:  # noqa: D102
        if self.pre:
            return dropout_add(sublayer(self.norm(x)), x, self.dropout, self.training)
        return self.norm(dropout_add(sublayer(x), x, self.dropout, self.training))
