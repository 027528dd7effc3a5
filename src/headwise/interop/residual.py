"""The order of the residual stream's dimensions, which a Transformer may permute without a change of its function.

The sinusoids of section 3.5 alternate: sine and cosine of a frequency are neighbours. Tensor2tensor, Marian and Hugging
Face put all sines before all cosines. A model of one kind becomes one of the other kind by permuting the dimensions of
width d_model wherever the residual stream is read or written: embeddings, normalization, and the inputs and outputs of
the sub-layers. The permutation moves numbers and changes none, so it is lossless.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headwise.interop.base import Array
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


def _along(change: Callable[[Array, int], Array], dimension: int, tensor: Array) -> Array:
    return change(tensor, dimension) if dimension < tensor.ndim else tensor


def sines_first(tensor: Array, dimension: int) -> Array:
    """Reorder alternating sines and cosines along a dimension: all sines, then all cosines."""
    size = tensor.shape[dimension]
    return tensor.take([*range(0, size, 2), *range(1, size, 2)], dimension)


def alternating(tensor: Array, dimension: int) -> Array:
    """Reorder sines followed by cosines along a dimension so that they alternate; inverts `sines_first`."""
    size = tensor.shape[dimension]
    half = (size + 1) // 2
    return tensor.take([number // 2 + number % 2 * half for number in range(size)], dimension)
