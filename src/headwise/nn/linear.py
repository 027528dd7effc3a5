"""Linear maps, with products that other code may replace.

Parameters stay in float32. The dtype of the activations decides the arithmetic: with bfloat16 activations the weights
are cast to bfloat16 for the product, and their gradients are accumulated in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional


class GemmBackend:
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


_TORCH = GemmBackend()
_SELECTED: ContextVar[GemmBackend] = ContextVar("products", default=_TORCH)


@contextmanager
def use_gemm(products: GemmBackend) -> Iterator[None]:
    """Compute float32 products on the CPU by `products` in the forward passes of the block, and in their backward."""
    token = _SELECTED.set(products)
    try:
        yield
    finally:
        _SELECTED.reset(token)


def selected_gemm(*factors: Tensor) -> GemmBackend:
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
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, products: GemmBackend
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
    """Return x Wᵀ + b, (…, inputs) to (…, outputs), by the products in use (`use_gemm`)."""
    products = selected_gemm(x, weight)
    if products is _TORCH:
        return functional.linear(x, weight, bias)
    return _LinearFunction.apply(x, weight, bias, products)  # type: ignore[no-any-return]


class Linear(nn.Linear):
    """x Wᵀ + b in the dtype of the input, with Xavier-uniform weights and zero biases initially."""

    def reset_parameters(self) -> None:
        """Initialize the weights as in Glorot & Bengio 2010."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:  # noqa: D102
        bias = None if self.bias is None else self.bias.to(input.dtype)
        return linear(input, self.weight.to(input.dtype), bias)
