"""A model's own estimate of how good a translation is: the probability of its tokens, calibrated on development data.

    p = exp(log P(Y | X) / |Y|)

is the geometric mean of the tokens' probabilities, the end symbol's included (Fomicheva et al. 2020, "Unsupervised
quality estimation for neural machine translation"). The end of a training measures what chrF2 the translations of the
development set have, by p: its isotonic regression is the expected chrF2 of any translation with this p. The fifth of
them with the lowest p sets the threshold below which a translation should be looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwise.errors import CheckpointError
from headwise.metrics import MEASURED, read_measured

KEY = "quality"  # of the record of a trained run
_LEAST = 100  # sentences that are enough for a curve
_GROUPS = 20  # of sentences, a point of the curve each
_REVIEWED = 0.2  # share of the development set


def mean_probability(log_probability: float, length: int) -> float:
    """Return the geometric mean of the probabilities of `length` tokens, the end symbol's included; 1 for none."""
    return min(math.exp(log_probability / length), 1.0) if length else 1.0


@dataclass(frozen=True)
class QualityCurve:
    """The expected chrF2 of a translation, by the geometric mean of its tokens' probabilities.

    Attributes:
        probabilities: of the points of the curve, ascending.
        chrf: their expected chrF2, from 0 to 100, ascending.
        review: the probability below which a translation should be looked at.
    """

    probabilities: tuple[float, ...]
    chrf: tuple[float, ...]
    review: float

    @classmethod
    def fit(cls, probabilities: Sequence[float], chrf: Sequence[float]) -> QualityCurve | None:
        """Fit the translations of a development set with their chrF2; None where they are fewer than 100."""
        if len(probabilities) < _LEAST:
            return None
        p, scores = np.asarray(probabilities, np.float64), np.asarray(chrf, np.float64)
        groups = np.array_split(np.argsort(p, kind="stable"), _GROUPS)
        # Mean chrF2, number of sentences, and probabilities of the groups.
        pooled: list[tuple[float, int, list[float]]] = []
        for rows in groups:
            mean, count, places = float(scores[rows].mean()), len(rows), [float(p[rows].mean())]
            while pooled and pooled[-1][0] >= mean:  # pool adjacent violators
                before, others, earlier = pooled.pop()
                mean = (before * others + mean * count) / (others + count)
                count, places = others + count, earlier + places
            pooled.append((mean, count, places))
        points = [(place, mean) for mean, _, places in pooled for place in places]
        return cls(*zip(*points, strict=True), review=float(np.quantile(p, _REVIEWED)))

    @classmethod
    def of_run(cls, run: Path) -> QualityCurve | None:
        """Return the curve that a trained run has recorded, if any; raises `CheckpointError` if it is damaged."""
        found = read_measured(run).get(KEY)
        if found is None:
            return None
        curve = cls._parsed(found)
        if curve is None:
            raise CheckpointError(
                f"{run / MEASURED}: {KEY}: expected ascending probabilities with their chrf, and review, found others"
            )
        return curve

    @classmethod
    def _parsed(cls, found: Any) -> QualityCurve | None:
        if not isinstance(found, Mapping) or found.keys() != {"probabilities", "chrf", "review"}:
            return None
        lists = [found["probabilities"], found["chrf"], [found["review"]]]
        if not all(isinstance(each, list) and each for each in lists):
            return None
        numbers = [number for each in lists for number in each]
        if not all(type(number) in (int, float) and 0 <= number <= 100 for number in numbers):
            return None
        if len(lists[0]) != len(lists[1]) or any(each != sorted(each) for each in lists):
            return None
        return cls(tuple(map(float, lists[0])), tuple(map(float, lists[1])), float(found["review"]))

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self) | {"probabilities": list(self.probabilities), "chrf": list(self.chrf)}

    def expected(self, probability: float) -> float:
        """Return the expected chrF2 of a translation."""
        return float(np.interp(probability, self.probabilities, self.chrf))
