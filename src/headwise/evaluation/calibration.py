"""Calibration of probabilities: reliability diagram and expected calibration error (ECE).

    ECE = Σ_b n_b / N · |accuracy_b - confidence_b|

over bins of equal width (Guo et al. 2017, "On calibration of modern neural networks", equation 3). Teacher-forced
(Müller et al. 2019, "When does label smoothing help?", section 3), a prediction is the most probable next token, and
correct where it equals the reference token. Free-running (Wang et al. 2020, "On the inference calibration of neural
machine translation", section 3.2), a prediction is a token of the model's own output, and correct where the
minimum-edit-distance alignment with the reference leaves it unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headwise.errors import DataError


@dataclass(frozen=True)
class Bin:
    """Predictions with probabilities above `low` up to `high` (the first bin includes 0): count, means and accuracy."""

    low: float
    high: float
    n: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """Values of a reliability diagram; empty bins have confidence and accuracy 0.

    `error` is the expected calibration error, `bias` is mean confidence minus accuracy: positive means overconfident.
    """

    bins: tuple[Bin, ...]
    error: float
    bias: float
    confidence: float
    accuracy: float
    n: int

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self)


def calibration(confidences: Sequence[float], right: Sequence[bool], bins: int = 10) -> Calibration:
    """Bin predictions by their probability; raises `DataError` where there are none or the lengths differ."""
    p, outcomes = np.asarray(confidences, np.float64), np.asarray(right, np.float64)
    if len(p) != len(outcomes):
        raise DataError(f"calibration: expected as many outcomes as probabilities, found {len(outcomes)} and {len(p)}")
    if not len(p):
        raise DataError("calibration: expected at least one predicted token, found none")
    if not (p >= 0).all() or not (p <= 1).all():
        raise DataError("calibration: expected probabilities from 0 to 1, found others")
    bin_indices = np.clip(np.ceil(p * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(bin_indices, minlength=bins)
    bin_confidences, bin_accuracies = (
        np.bincount(bin_indices, weights, bins) / np.maximum(counts, 1) for weights in (p, outcomes)
    )
    error = float((counts * np.abs(bin_accuracies - bin_confidences)).sum() / len(p))
    return Calibration(
        tuple(
            Bin(index / bins, (index + 1) / bins, int(n), float(s), float(t))
            for index, (n, s, t) in enumerate(zip(counts, bin_confidences, bin_accuracies, strict=True))
        ),
        error,
        float(p.mean() - outcomes.mean()),
        float(p.mean()),
        float(outcomes.mean()),
        len(p),
    )


def kept_tokens(hypothesis: Sequence[int], reference: Sequence[int]) -> list[bool]:
    """Return for each token of the hypothesis whether the minimum edit to the reference leaves it unchanged.

    Insertions, deletions and substitutions cost 1 (Levenshtein 1966). Among edits of equal cost, backtracking from the
    end prefers matches and substitutions.
    """
    rows, columns = len(hypothesis) + 1, len(reference) + 1
    cost = np.zeros((rows, columns), np.int64)
    cost[:, 0], cost[0] = np.arange(rows), np.arange(columns)
    for i in range(1, rows):
        for j in range(1, columns):
            substitution = cost[i - 1, j - 1] + (hypothesis[i - 1] != reference[j - 1])
            cost[i, j] = min(substitution, cost[i - 1, j] + 1, cost[i, j - 1] + 1)
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
