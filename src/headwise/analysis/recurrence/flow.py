"""What of an early position arrives at a late one: in the gradient, and in the states.

Shapes: x (time, width) are the inputs of a network, states (time, size).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Network = Callable[[Tensor], Tensor]  # x (rows, time, width) -> states (rows, time, size)
Vector = NDArray[np.float64]

_MOST_ROWS = 128  # of the Jacobian; of larger ones, so many random projections are taken


def gradient_norms(network: Network, x: Tensor) -> Vector:
    """Return ‖∂h_T/∂x_{T-k}‖, the Frobenius norm, for the last state h_T and each distance k = 0, 1, …, T - 1.

    Row i of the Jacobian is the gradient of the state's feature i, computed for a copy of the sentence of its own. A
    state of more than 128 features is projected onto 128 random orthogonal directions, for which the squared norm is
    right on average.
    """
    with torch.enable_grad():
        size = _size(network, x)
        rows = min(size, _MOST_ROWS)
        directions = torch.eye(size)
        if rows < size:
            generator = torch.Generator().manual_seed(0)
            drawn, _ = torch.linalg.qr(torch.randn(size, rows, generator=generator))
            directions = drawn.T * (size / rows) ** 0.5
        copies = x.expand(rows, -1, -1).clone().requires_grad_()
        last = network(copies)[:, -1]
        if not last.requires_grad:  # an intervention may leave nothing of the inputs
            return np.zeros(x.size(-2))
        (gradient,) = torch.autograd.grad((last * directions.to(last)).sum(), copies)
    norms = gradient.double().square().sum((0, 2)).sqrt()  # (time,)
    return norms.flip(0).cpu().numpy()


@torch.no_grad()
def shares_of_first(network: Network, x: Tensor) -> Vector:
    """Return what each state still has of the first input: ‖h_t(x) - h_t(x without x_1)‖, relative to t = 1; (time,).

    The first input is replaced by zeros.
    """
    without = x.clone()
    without[0] = 0
    states = network(torch.stack([x, without])).double()
    differences = (states[0] - states[1]).norm(dim=1)
    return (differences / differences[0].clamp_min(torch.finfo(torch.float64).tiny)).cpu().numpy()


@torch.no_grad()
def states_of(network: Network, x: Tensor) -> NDArray[np.float32]:
    """Return the states (time, size)."""
    return network(x[None])[0].float().cpu().numpy()


@torch.no_grad()
def _size(network: Network, x: Tensor) -> int:
    return network(x[None]).size(2)
