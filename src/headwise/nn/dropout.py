"""Dropout that is fast on a CPU.

torch draws one double per element, which took 5 ms for 4,096 x 128 elements where the matrix product next to it took
0.6 ms. Here one 64-bit draw serves four elements: fifteen random bits decide each of them, so the probability is
rounded to a multiple of 2**-15, and the kept elements are selected with a bitwise AND. The random bits come from
torch's generator, so seeding and exact resuming work as everywhere else. On other devices torch's dropout is fast and
is used unchanged.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

_LEVELS = 1 << 15  # a 16-bit signed draw with its sign cleared has this many levels

_INTEGER_VIEW = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}


def _keep_bits(x: Tensor, p: float) -> tuple[Tensor, float]:
    """Draw (bits, scale): bits is all ones where an element of x is kept, and zero where it is dropped."""
    threshold = max(1, round((1.0 - p) * _LEVELS))  # at least 1, however close p is to 1
    count = x.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64)
    words.random_(-(2**63), None)
    draws = words.view(torch.int16)[:count]
    # Exactly where draw < threshold, the difference is negative, and shifting its sign over all bits gives -1.
    draws.bitwise_and_(_LEVELS - 1)
    draws.sub_(threshold) if threshold < _LEVELS else draws.fill_(-1)
    draws.bitwise_right_shift_(15)
    bits = draws.view(x.shape)
    return bits.to(_INTEGER_VIEW[x.dtype]), _LEVELS / threshold


def _select(x: Tensor, bits: Tensor) -> Tensor:
    return (x.view(bits.dtype) & bits).view(x.dtype)


class _DropoutAdd(torch.autograd.Function):
    """residual + dropout(x), or dropout(x) if residual is None."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor | None, p: float) -> Tensor:  # type: ignore[override]
        bits, ctx.scale = _keep_bits(x, p)
        ctx.save_for_backward(bits)
        ctx.with_residual = residual is not None
        kept = _select(x, bits)
        if residual is None:
            return kept.mul_(ctx.scale)
        return torch.add(residual, kept, alpha=ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:  # type: ignore[override]
        (bits,) = ctx.saved_tensors
        x_gradient = _select(gradient, bits).mul_(ctx.scale)
        return x_gradient, gradient if ctx.with_residual else None, None


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Zero each element with probability p and divide the others by 1 - p; x of any shape."""
    if not training or p == 0.0:
        return x
    if x.device.type == "cpu" and x.dtype in _INTEGER_VIEW:
        return _DropoutAdd.apply(x, None, p)  # type: ignore[no-any-return]
    return functional.dropout(x, p)


def dropout_add(x: Tensor, residual: Tensor, p: float, training: bool) -> Tensor:
    """residual + dropout(x), the residual connection around every sub-layer (section 5.4); shapes are equal."""
    if not training or p == 0.0:
        return residual + x
    if x.device.type == "cpu" and x.dtype in _INTEGER_VIEW and residual.dtype == x.dtype:
        return _DropoutAdd.apply(x, residual, p)  # type: ignore[no-any-return]
    return residual + functional.dropout(x, p)
