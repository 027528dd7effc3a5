"""Numeric arrays in JSON: readable lists, or packed, which is exact, faster and a third of the size."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headwise.analysis.boxes.steps import as_json, listed
from headwise.analysis.head_arithmetic import HeadArithmetic
from headwise.analysis.stepwise import Stepwise
from headwise.analysis.trace import ForcedDecoding, Trace, forced_json
from headwise.page.requests import Arrays

# The fields of `HeadArithmetic` that are arrays over keys or dimensions.
_PRODUCTS_ARRAYS = (
    *("q", "k", "terms", "dots", "scaled", "bias", "softmax", "weights", "v", "weighted"),
    *("result", "part_of_output", "output"),
)


def packed(values: ArrayLike) -> dict[str, Any]:
    """Return `{"shape": …, "float32": …}`: little-endian 32-bit floats in row-major order, in base64."""
    array = np.ascontiguousarray(values, dtype="<f4")
    return {"shape": array.shape, "float32": base64.b64encode(array.tobytes()).decode("ascii")}


def trace_json(trace: Trace, arrays: Arrays) -> dict[str, Any]:
    """Return a trace as `Trace.to_json` does, its attention as lists or packed."""
    if arrays == "lists":
        return trace.to_json()
    result = trace.to_json(attention=False)
    if trace.forced is not None:
        result["forced"]["attention"] = _attention(trace.forced)
    return result


def reading_json(forced: ForcedDecoding, arrays: Arrays) -> dict[str, Any]:
    """Return a forced decoding as `forced_json` does, its attention as lists or packed."""
    if arrays == "lists":
        return forced_json(forced)
    return {**forced_json(forced, attention=False), "attention": _attention(forced)}


def products_json(products: HeadArithmetic, arrays: Arrays) -> dict[str, Any]:
    """Return one head's computation at one step, its arrays as lists or packed."""
    result = products.to_json()
    if arrays == "packed":
        result |= {name: packed(result[name]) for name in _PRODUCTS_ARRAYS}
    return result


def arrays_json(content: Any, arrays: Arrays) -> Any:
    """Return a dataclass with arrays, such as `Box`, for JSON, with these as lists or packed."""
    return as_json(content, packed if arrays == "packed" else listed)


def steps_json(stepwise: Stepwise, arrays: Arrays) -> dict[str, Any]:
    """Return the steps of a target, their cross-attention as lists or packed."""
    weights = stepwise.attention
    if weights is None:
        attention = None
    else:
        attention = packed(weights) if arrays == "packed" else weights.astype(np.float64).round(6).tolist()
    return {**stepwise.to_json(), "attention": attention}


def _attention(forced: ForcedDecoding) -> dict[str, Any]:
    return {part: packed(layers) for part, layers in forced.attention.items()}
