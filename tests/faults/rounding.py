"""The PyTorch model with the native engine's rounding, for close comparison in low precision.

In bfloat16 and int8 the native engine rounds embeddings and the decoder's keys and values to bfloat16, and the inputs
of every linear map to bfloat16 or to 127 steps (254 after a ReLU) of each row's largest magnitude. Weights are rounded
too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import torch
from torch import Tensor, nn

from headwise.models.transformer import Transformer
from headwise.nn.layers import FeedForward
from headwise.nn.linear import Linear
from headwise.nn.multihead import MultiHeadAttention

_linear = nn.functional.linear


def halved(x: Tensor) -> Tensor:
    """Round to bfloat16."""
    return x.to(torch.bfloat16).to(x.dtype)


def stepped(x: Tensor, steps: int = 127) -> Tensor:
    """Round every row to `steps` steps of its largest magnitude; a row with values that aren't finite becomes NaN."""
    step = x.abs().amax(-1, keepdim=True) / steps
    rounded = (x / step.where(step > 0, 1)).round() * step
    return rounded.where(x.isfinite().all(-1, keepdim=True), torch.nan)


@contextmanager
def rounding(model: nn.Module, precision: str) -> Iterator[None]:
    """Context manager in which `model` rounds as the native engine does in `precision`."""
    if precision == "float32" or not isinstance(model, Transformer):
        yield
        return
    steps = [127]  # a stack; the last one is for the current linear map

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if precision == "bfloat16":
            return _linear(halved(x), halved(weight), bias)
        return _linear(stepped(x, steps[-1]), stepped(weight), bias)

    look_up, project = model._look_up, MultiHeadAttention._project
    decoding = set(model.decoder.modules())

    def projected(module: MultiHeadAttention, x: Tensor, *maps: Linear) -> list[Tensor]:
        results = project(module, x, *maps)
        if module not in decoding:
            return results
        return [
            result if which is module.query else halved(result) for result, which in zip(results, maps, strict=True)
        ]

    with ExitStack() as stack:
        stack.enter_context(patch.object(nn.functional, "linear", linear))
        stack.enter_context(patch.object(model, "_look_up", lambda table, ids: halved(look_up(table, ids))))
        stack.enter_context(patch.object(MultiHeadAttention, "_project", projected))
        for module in model.modules():
            if isinstance(module, FeedForward) and model.config.activation == "relu":
                before = module.w2.register_forward_pre_hook(lambda *_: steps.append(254))
                after = module.w2.register_forward_hook(lambda *_: steps.pop() and None)
                stack.callback(before.remove)
                stack.callback(after.remove)
        yield
