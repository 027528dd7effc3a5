"""Linear maps: products that other code may replace, and low-rank updates of a frozen weight.

Parameters stay in float32. The dtype of the activations decides the arithmetic: with bfloat16 activations the weights
are cast to bfloat16 for the product, and their gradients are accumulated in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from headwise.nn.dropout import dropout


class Products:
    """The three matrix products of a linear map and its gradients, as torch computes them; subclasses replace them.

    Shapes: x (rows, inputs), gradient (rows, outputs), weight (outputs, inputs).
    """

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return x Wᵀ + b, (rows, outputs)."""
        return functional.linear(x, weight, bias)

    def input_gradient(self, gradient: Tensor, weight: Tensor) -> Tensor:
        """Return the gradient of x: G W, (rows, inputs)."""
        return gradient @ weight

    def weight_gradient(self, gradient: Tensor, x: Tensor) -> Tensor:
        """Return the gradient of W: Gᵀ x, (outputs, inputs)."""
        return gradient.t() @ x

    def add_weight_gradient(self, total: Tensor, gradient: Tensor, x: Tensor) -> None:
        """Add the gradient of W to `total` (outputs, inputs), in place."""
        total += gradient.t() @ x


_TORCH = Products()
_SELECTED: ContextVar[Products] = ContextVar("products", default=_TORCH)


@contextmanager
def use_products(products: Products) -> Iterator[None]:
    """Compute float32 products on the CPU by `products` in the forward passes of the block, and in their backward."""
    token = _SELECTED.set(products)
    try:
        yield
    finally:
        _SELECTED.reset(token)


def selected_products(*factors: Tensor) -> Products:
    """Return the products in use for these factors: torch's on a GPU, in other dtypes and for empty tensors."""
    products = _SELECTED.get()
    if products is not _TORCH:
        for factor in factors:
            if factor.dtype != torch.float32 or factor.device.type != "cpu" or not factor.numel():
                return _TORCH
    return products


class _LinearFunction(torch.autograd.Function):
    """Autograd function (x, weight, bias, products) -> x Wᵀ + b."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, products: Products
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.products = products
        result = products.forward(x.reshape(-1, x.size(-1)), weight, bias)
        return result.view(*x.shape[:-1], weight.size(0))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        rows = gradient.reshape(-1, weight.size(0))
        to_x = to_weight = to_bias = None
        if ctx.needs_input_grad[0]:
            to_x = ctx.products.input_gradient(rows, weight).view(x.shape)
        if ctx.needs_input_grad[1]:
            to_weight = ctx.products.weight_gradient(rows, x.reshape(-1, x.size(-1)))
        if ctx.needs_input_grad[2]:
            to_bias = rows.sum(dim=0)
        return to_x, to_weight, to_bias, None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x Wᵀ + b, (…, inputs) to (…, outputs), by the products in use (`use_products`)."""
    products = selected_products(x, weight)
    if products is _TORCH:
        return functional.linear(x, weight, bias)
    return _LinearFunction.apply(x, weight, bias, products)  # type: ignore[no-any-return]


class LowRank(nn.Module):
    """The low-rank update (α / r) B A of a frozen weight W, A (r, d_in) and B (d_out, r) (LoRA, Hu et al. 2021).

    h = W x + (α / r) B A x (equation 3). A is Gaussian and B zero at first, so that training begins with W. With
    `drop`, dropout is applied to the x that A is multiplied with.
    """

    def __init__(self, d_in: int, d_out: int, rank: int, alpha: float, drop: float = 0.0) -> None:
        super().__init__()
        self.A = nn.Parameter(torch.randn(rank, d_in) / math.sqrt(d_in))
        self.B = nn.Parameter(torch.zeros(d_out, rank))
        self.scale = alpha / rank
        self.dropout = drop

    def forward(self, x: Tensor) -> Tensor:
        """Return (α / r) B A x; x (…, d_in) to (…, d_out), in the dtype of x."""
        x = dropout(x, self.dropout, self.training)
        return linear(linear(x, self.A.to(x.dtype)), self.B.to(x.dtype)) * self.scale

    def update(self) -> Tensor:
        """Return (α / r) B A (d_out, d_in), computed in float64 and rounded once."""
        return (self.B.detach().double() @ self.A.detach().double() * self.scale).to(self.B.dtype)


class Linear(nn.Linear):
    """x Wᵀ + b in the dtype of the input, with Xavier-uniform weights and zero biases initially.

    With `low_rank`, its product is added.
    """

    low_rank: LowRank | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self.register_module("low_rank", None)

    def reset_parameters(self) -> None:
        """Initialize the weights as in Glorot & Bengio 2010."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:  # noqa: D102
        bias = None if self.bias is None else self.bias.to(input.dtype)
        output = linear(input, self.weight.to(input.dtype), bias)
        return output if self.low_rank is None else output + self.low_rank(input)

    def merged_weight(self) -> Tensor:
        """Return W + (α / r) B A (d_out, d_in) without gradient; W without a low-rank update."""
        weight = self.weight.detach()
        return weight if self.low_rank is None else weight + self.low_rank.update()


def low_rank_layers(model: nn.Module) -> Iterator[tuple[str, Linear]]:
    """Yield the linear maps with a low-rank update, with their dotted names."""
    for name, module in model.named_modules():
        if isinstance(module, Linear) and module.low_rank is not None:
            yield name, module


def merged_parameters(model: nn.Module) -> dict[str, Tensor]:
    """Return a model's parameters by name, without gradient; low-rank updates are added to their weights.

    These are the names and shapes of the same model without low-rank updates. Shared parameters occur once.
    """
    merged = {f"{name}.weight": layer.merged_weight() for name, layer in low_rank_layers(model)}
    unmerged = unmerged_parameters(model)
    return {
        name: merged[name] if name in merged else parameter.detach()
        for name, parameter in model.named_parameters()
        if name in merged or name not in unmerged
    }


def unmerged_parameters(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights that have low-rank updates, and these updates' A and B, by name, without gradient."""
    return {
        f"{name}.{part}": parameter.detach()
        for name, layer in low_rank_layers(model)
        for part, parameter in layer.named_parameters()
        if part != "bias"
    }
