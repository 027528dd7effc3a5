"""Matrix products of training by the native library (gemm.h)."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.native.library import Library
from headwise.nn.linear import GemmBackend


class NativeGemm(GemmBackend):
    """Float32 products on the CPU; the factors may have any layout and aren't copied."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: D102
        return self._multiply(x, weight.t(), x.new_empty(x.size(0), weight.size(0)), bias)

    def input_gradient(self, gradient: Tensor, weight: Tensor) -> Tensor:  # noqa: D102
        return self._multiply(gradient, weight, gradient.new_empty(gradient.size(0), weight.size(1)))

    def weight_gradient(self, gradient: Tensor, x: Tensor) -> Tensor:  # noqa: D102
        return self._multiply(gradient.t(), x, x.new_empty(gradient.size(1), x.size(1)))

    def add_weight_gradient(self, total: Tensor, gradient: Tensor, x: Tensor) -> None:  # noqa: D102
        self._multiply(gradient.t(), x, total, add=True)

    def _multiply(
        self, a: Tensor, b: Tensor, result: Tensor, bias: Tensor | None = None, *, add: bool = False
    ) -> Tensor:
        """Write a @ b + bias to `result`, or add a @ b to it; raises `MemoryError` where memory runs out."""
        (rows, depth), columns = a.shape, b.size(1)
        for tensor in (a, b, result):  # selected_gemm has checked the factors
            assert tensor.dtype == torch.float32
            assert tensor.device.type == "cpu"
        assert b.size(0) == depth
        assert result.shape == (rows, columns)
        assert result.stride(1) == 1
        if bias is not None:
            bias = bias.contiguous()
            assert bias.dtype == torch.float32
            assert bias.shape == (columns,)
        self._library.call(
            "product",
            *(a.data_ptr(), *a.stride()),
            *(b.data_ptr(), *b.stride()),
            *(None if bias is None else bias.data_ptr(), result.data_ptr(), result.stride(0)),
            *(rows, columns, depth, int(add), torch.get_num_threads()),
        )
        return result
