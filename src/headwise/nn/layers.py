"""The parts around attention: linear maps, feed-forward, normalization, residual sub-layers.

Parameters stay in float32. The activations' dtype decides the arithmetic: with bfloat16 activations the
weights are rounded to bfloat16 for the product, and their gradients are accumulated in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwise.nn.dropout import dropout, dropout_add

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
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


class RMSNorm(nn.RMSNorm):
    """Divide by √(mean x² + ε) over the last dimension (Zhang & Sennrich 2019), in the dtype of the input."""

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        assert self.weight is not None
        return functional.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


NORMALIZATIONS: dict[str, Callable[[int, float], nn.Module]] = {"layer": LayerNorm, "rms": RMSNorm}


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W₁ + b₁) W₂ + b₂ (section 3.3); (…, d_model) to (…, d_model).

    `gated`: FFN(x) = (f(x W₁ + b₁) · (x V + c)) W₂ + b₂ (Shazeer 2020, equations 5 and 6); V is `gate`.
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: str, drop: float, *, gated: bool = False, bias: bool = True
    ) -> None:
        super().__init__()
        self.w1 = Linear(d_model, d_ff, bias=bias)
        self.gate = Linear(d_model, d_ff, bias=bias) if gated else None
        self.w2 = Linear(d_ff, d_model, bias=bias)
        self.activation = ACTIVATIONS[activation]
        self.dropout = drop

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        hidden = self.activation(self.w1(x))  # (…, d_ff)
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        return self.w2(dropout(hidden, self.dropout, self.training))


class Residual(nn.Module):
    """The connection around a sub-layer (section 5.4, and 3.1 for the order).

    x = post_norm(add(x, sublayer(pre_norm(x)))). Post-norm, as in the paper: Norm(x + Dropout(Sublayer(x))). Pre-norm:
    x + Dropout(Sublayer(Norm(x))). `Norm` is LayerNorm(x) unless another `normalization` is given.
    """

    def __init__(self, d_model: int, norm: str, drop: float, normalization: nn.Module | None = None) -> None:
        super().__init__()
        self.norm = LayerNorm(d_model) if normalization is None else normalization
        self.pre = norm == "pre"
        self.dropout = drop

    def pre_norm(self, x: Tensor) -> Tensor:
        """What the sub-layer reads."""
        return self.norm(x) if self.pre else x

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + Dropout(y), where y is the sub-layer's result, in one pass."""
        return dropout_add(y, x, self.dropout, self.training)

    def post_norm(self, x: Tensor) -> Tensor:
        """What the next sub-layer gets."""
        return x if self.pre else self.norm(x)
