"""The order of the residual stream's dimensions, which a Transformer may permute without a change of its function.

The sinusoids of section 3.5 alternate: sine and cosine of a frequency are neighbours. Tensor2tensor, Marian and Hugging
Face put all sines before all cosines. A model of one kind becomes one of the other kind by permuting the dimensions of
width d_model wherever the residual stream is read or written: embeddings, normalization, and the inputs and outputs of
the sub-layers. The permutation moves numbers and changes none, so it is lossless.
"""

from __future__ import annotations

import numpy as np

from headwise.interop.base import Array
from headwise.interop.table import SAME, Change

_READS = (".query.weight", ".key.weight", ".value.weight", ".w1.weight", ".gate.weight")  # (…, d_model)
_WRITES = (".output.weight", ".output.bias", ".w2.weight", ".w2.bias")  # (d_model, …)


def reordered(name: str) -> Change:
    """Return the change of one of our parameters that has all sines before all cosines on the other side."""
    if name.endswith(("embedding.weight", "output_projection.weight", "positions.table", *_READS)):
        dimension = 1
    elif name.endswith(_WRITES) or "norm." in name:
        dimension = 0
    else:
        return SAME
    return Change(
        lambda tensor: sines_first(tensor, dimension, inverse=True),
        lambda tensor: sines_first(tensor, dimension),
    )


def sines_first(tensor: Array, dimension: int, *, inverse: bool = False) -> Array:
    """Reorder alternating sines and cosines along a dimension to all sines, then all cosines; or invert that.

    A tensor without the dimension, whose shape is refused later, stays as it is.
    """
    if dimension >= tensor.ndim:
        return tensor
    size = tensor.shape[dimension]
    order = np.r_[0:size:2, 1:size:2]
    return tensor.take(np.argsort(order) if inverse else order, dimension)
