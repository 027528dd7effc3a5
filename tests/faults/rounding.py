"""The readable model with the native engine's rounding, so that low precision can be compared closely.

In bfloat16 and int8 that engine rounds embeddings, keys and values of the decoder to bfloat16, and the inputs of every
product: to bfloat16, or to 127 steps (254 behind a ReLU) of each row's largest magnitude. Weights are rounded, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import torch
from torch import Tensor, nn

from headwise.models.transformer import Transformer
from headwise.nn.cache import KeyValueCache
from headwise.nn.layers import FeedForward
from headwise.nn.multihead import MultiHeadAttention

_linear = nn.functional.linear


def halved(x: Tensor) -> Tensor:
    """Round to bfloat16."""
    return x.to(torch.bfloat16).to(x.dtype)


def stepped(x: Tensor, steps: int = 127) -> Tensor:
    """Round every row to whole steps of its largest magnitude; a row with what isn't finite has no numbers left."""
    step = x.abs().amax(-1, keepdim=True) / steps
    rounded = (x / step.where(step > 0, 1)).round() * step
    return rounded.where(x.isfinite().all(-1, keepdim=True), torch.nan)


@contextmanager
def rounding(model: nn.Module, precision: str) -> Iterator[None]:
    """Let `model` compute as the native engine does in `precision`."""
    if precision == "float32" or not isinstance(model, Transformer):
        yield
        return
    relu = model.config.activation == "relu"
    second = [part.w2.weight for part in model.modules() if isinstance(part, FeedForward)] if relu else []
    behind_relu = {weight.data_ptr() for weight in second}

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if precision == "bfloat16":
            return _linear(halved(x), halved(weight), bias)
        steps = 254 if weight.data_ptr() in behind_relu else 127
        return _linear(stepped(x, steps), stepped(weight), bias)

    def wrapped(function):  # noqa: ANN001, ANN202
        return lambda *arguments: tuple(map(halved, function(*arguments)))

    look_up = model._look_up
    with ExitStack() as stack:
        stack.enter_context(patch.object(nn.functional, "linear", linear))
        stack.enter_context(patch.object(model, "_look_up", lambda table, ids: halved(look_up(table, ids))))
        append, remember = KeyValueCache.append, MultiHeadAttention.remember
        stack.enter_context(
            patch.object(
                KeyValueCache, "append", lambda cache, k, v: append(cache, halved(k), halved(v))
            )
        )
        stack.enter_context(
            patch.object(MultiHeadAttention, "remember", lambda part, x: tuple(map(halved, remember(part, x))))
        )
        yield
