"""Results with arrays in JSON: as nested lists, or packed, which is exact, faster and a third of the size."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DIGITS = 6  # decimals of a weight: a row of 128 still sums to 1 within 1e-4


def listed(values: NDArray) -> list[Any]:
    """Return nested lists; the infinite scores of masked keys become None."""
    shown = values.astype(object)
    shown[~np.isfinite(values)] = None
    return shown.tolist()


def rounded(values: NDArray) -> list[Any]:
    """Return nested lists of numbers with six decimals."""
    return values.astype(np.float64).round(_DIGITS).tolist()


def packed(values: NDArray) -> dict[str, Any]:
    """Return `{"shape": …, "float32": …}`: little-endian 32-bit floats in row-major order, in base64."""
    array = np.ascontiguousarray(values, dtype="<f4")
    return {"shape": array.shape, "float32": base64.b64encode(array.tobytes()).decode("ascii")}


def as_json(content: Any, array: Callable[[NDArray], Any] = listed) -> Any:
    """Return dataclasses, tuples and arrays as JSON has them; `array` makes what stands for an array."""
    if isinstance(content, np.ndarray):
        return array(content)
    if is_dataclass(content):
        content = vars(content)
    if isinstance(content, Mapping):
        return {key: as_json(value, array) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [as_json(value, array) for value in content]
    return content
