"""The order of the residual stream's dimensions, which a Transformer may permute without a change of its function.

The sinusoids of section 3.5 alternate: sine and cosine of a frequency are neighbours. Tensor2tensor, Marian and Hugging
Face put all sines before all cosines. A model of one kind becomes one of the other kind by permuting the dimensions of
width d_model wherever the residual stream is read or written: embeddings, normalization, and the inputs and outputs of
the sub-layers. The permutation moves numbers and changes none, so it is lossless.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from headwise.interop.table import SAME, Change

_READS = (".query.weight", ".key.weight", ".value.weight", ".w1.weight", ".gate.weight")  # (…, d_model)
_WRITES = (".output.weight", ".output.bias", ".w2.weight", ".w2.bias")  # (d_model, …)


def residual_dimension(name: str) -> int | None:
    """Return which dimension of a parameter of `headwise.models.transformer` is the residual stream's, if any."""
    if name.endswith(("embedding.weight", "output_projection.weight", "positions.table", *_READS)):
        return 1
    if name.endswith(_WRITES) or "norm." in name:
        return 0
    return None


def reordered(name: str) -> Change:
    """Return the change of one of our parameters that has all sines before all cosines on the other side."""
    dimension = residual_dimension(name)
    if dimension is None:
        return SAME
    return Change(partial(_along, alternating, dimension), partial(_along, sines_first, dimension))


def _along(change: Callable[[Tensor, int], Tensor], dimension: int, tensor: Tensor) -> Tensor:
    return change(tensor, dimension) if dimension < tensor.dim() else tensor


def sines_first(tensor: Tensor, dimension: int) -> Tensor:
    """Reorder alternating sines and cosines along a dimension: all sines, then all cosines."""
    size = tensor.size(dimension)
    order = torch.cat([torch.arange(0, size, 2), torch.arange(1, size, 2)])
    return tensor.index_select(dimension, order)


def alternating(tensor: Tensor, dimension: int) -> Tensor:
    """Reorder sines followed by cosines along a dimension so that they alternate; inverts `sines_first`."""
    half = (tensor.size(dimension) + 1) // 2
    order = torch.stack([torch.arange(half), torch.arange(half) + half], dim=1).flatten()
    return tensor.index_select(dimension, order[: tensor.size(dimension)])
