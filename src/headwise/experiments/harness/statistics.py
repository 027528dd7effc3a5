"""Means over seeds, with Student's 95 % confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Two-sided 95 % quantiles of Student's t distribution by degrees of freedom (from any table; the limit is 1.960).
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True)
class Mean:
    """A mean over `count` seeds; `half` is half the width of its 95 % interval, None for a single seed."""

    value: float
    half: float | None
    count: int

    def text(self, digits: int = 2, sign: bool = False) -> str:
        """Format the mean as `25.80 ± 0.31`, or without an interval for a single seed."""
        value = f"{self.value:{'+' if sign else ''}.{digits}f}"
        return value if self.half is None else f"{value} ± {self.half:.{digits}f}"


def mean(values: Sequence[float]) -> Mean:
    """Return the mean of one or more values; half its interval is t · s / √n."""
    assert values, "a mean of nothing"
    count = len(values)
    middle = sum(values) / count
    if count == 1:
        return Mean(middle, None, 1)
    deviation = math.sqrt(sum((value - middle) ** 2 for value in values) / (count - 1))
    quantile = _STUDENT[count - 2] if count - 2 < len(_STUDENT) else 1.960
    return Mean(middle, quantile * deviation / math.sqrt(count), count)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the exponent b of y ~ x^b, by least squares on logarithms."""
    u, v = [math.log(value) for value in x], [math.log(value) for value in y]
    mu, mv = sum(u) / len(u), sum(v) / len(v)
    return sum((a - mu) * (b - mv) for a, b in zip(u, v, strict=True)) / sum((a - mu) ** 2 for a in u)
