"""Gated convolutions over time (Dauphin et al. 2017; Gehring et al. 2017, section 3.2).

    GLU([A; B]) = A ⊗ σ(B),  [A; B]_t = Σ_k W_k x_{t+k} + b

Weights are normalized (Salimans & Kingma 2016): W = g v / ‖v‖, with one g for each output channel.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from headwise.nn.linear import linear


class NormalizedLinear(nn.Linear):
    """x Wᵀ + b with weight normalization, initialized from N(0, gain / inputs) (Gehring et al. 2017, section 3.5)."""

    def __init__(self, inputs: int, outputs: int, gain: float = 1.0) -> None:
        super().__init__(inputs, outputs)
        nn.init.normal_(self.weight, std=math.sqrt(gain / inputs))
        nn.init.zeros_(self.bias)
        weight_norm(self)

    def forward(self, input: Tensor) -> Tensor:  # noqa: D102
        return linear(input, self.weight.to(input.dtype), self.bias.to(input.dtype))


class GatedConvolution(nn.Module):
    """Convolution with a gated linear unit, (batch, time, channels) to (batch, time - kernel + 1, channels).

    The caller pads the input: on both sides in an encoder, before the first position in a decoder.
    `keep` is the probability with which dropout keeps an input; half of the outputs are gates, hence the 4.
    """

    def __init__(self, channels: int, kernel: int, keep: float) -> None:
        super().__init__()
        self.kernel = kernel
        self.map = NormalizedLinear(kernel * channels, 2 * channels, gain=4 * keep)  # tap by tap

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        positions = x.size(1) - self.kernel + 1
        taps = [x[:, tap : tap + positions] for tap in range(self.kernel)]
        return functional.glu(self.map(torch.cat(taps, dim=-1)), dim=-1)


def half_variance(x: Tensor, y: Tensor) -> Tensor:
    """(x + y) √0.5: keeps the variance of two terms of equal variance (Gehring et al. 2017, section 3.4)."""
    return (x + y) * math.sqrt(0.5)


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """Return x bit for bit, with its gradient multiplied by `factor`."""
    constant = x.detach()
    return constant + (x - constant) * factor
