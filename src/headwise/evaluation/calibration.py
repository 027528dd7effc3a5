"""Whether probabilities mean what they say: reliability by bins, and the expected calibration error.

    ECE = Σ_b n_b / N · |accuracy_b - confidence_b|

over bins of equal width (Guo et al. 2017, "On calibration of modern neural networks", equation 3). Teacher-forced
(Müller et al. 2019, "When does label smoothing help?", section 3), a prediction is the likeliest next token and right
where it is the reference's. Free-running (Wang et al. 2020, "On the inference calibration of neural machine
translation", section 3.2), a prediction is a token of the model's own output, and right where the best alignment with
the reference by edit distance leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headwise.errors import DataError


@dataclass(frozen=True)
class Bin:
    """Predictions with a probability from `low` to `high` (and, in the first bin, 0): how many, how sure, how right."""

    low: float
    high: float
    n: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """A reliability diagram in numbers; empty bins have 0 for confidence and accuracy.

    `error` is the expected calibration error, `bias` the mean confidence less the accuracy: above 0, overconfident.
    """

    bins: tuple[Bin, ...]
    error: float
    bias: float
    confidence: float
    accuracy: float
    n: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def calibration(confidences: Sequence[float], right: Sequence[bool], bins: int = 10) -> Calibration:
    """Bin predictions by their probability; raises `DataError` where there are none or the lengths differ."""
    p, hit = np.asarray(confidences, np.float64), np.asarray(right, np.float64)
    if len(p) != len(hit) or not len(p):
        raise DataError(
            f"calibration: expected as many outcomes as probabilities, found {len(hit)} and {len(p)}"
        )
    if not (p >= 0).all() or not (p <= 1).all():
        raise DataError("calibration: expected probabilities from 0 to 1, found others")
    places = np.clip(np.ceil(p * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(places, minlength=bins)
    sure, true = (np.bincount(places, weights, bins) / np.maximum(counts, 1) for weights in (p, hit))
    error = float((counts * np.abs(true - sure)).sum() / len(p))
    return Calibration(
        tuple(
            Bin(place / bins, (place + 1) / bins, int(n), float(s), float(t))
            for place, (n, s, t) in enumerate(zip(counts, sure, true, strict=True))
        ),
        error,
        float(p.mean() - hit.mean()),
        float(p.mean()),
        float(hit.mean()),
        len(p),
    )


def kept_tokens(hypothesis: Sequence[int], reference: Sequence[int]) -> list[bool]:
    """Tell for each token of the hypothesis whether the best edit to the reference leaves it as it is.

    Insertions, deletions and substitutions cost 1 (Levenshtein 1966). Of equally cheap edits, the one found from the
    end with matches and substitutions first.
    """
    rows, columns = len(hypothesis) + 1, len(reference) + 1
    cost = np.zeros((rows, columns), np.int64)
    cost[:, 0], cost[0] = np.arange(rows), np.arange(columns)
    for i in range(1, rows):
        for j in range(1, columns):
            swap = cost[i - 1, j - 1] + (hypothesis[i - 1] != reference[j - 1])
            cost[i, j] = min(swap, cost[i - 1, j] + 1, cost[i, j - 1] + 1)
    kept = [False] * len(hypothesis)
    i, j = len(hypothesis), len(reference)
    while i and j:
        same = hypothesis[i - 1] == reference[j - 1]
        if cost[i, j] == cost[i - 1, j - 1] + (not same):
            kept[i - 1] = same
            i, j = i - 1, j - 1
        elif cost[i, j] == cost[i - 1, j] + 1:
            i -= 1
        else:
            j -= 1
    return kept
