"""What a search holds: hypotheses, the continuations of one step, and the length penalty that they compete under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One finished output.

    Attributes:
        tokens: subword ids without the start and end symbols.
        log_probability: log P(tokens, end symbol | source), natural logarithm.
        score: log_probability / length penalty; the beam search returns the highest.
        token_log_probabilities: one for each token and one for the end symbol; they sum to `log_probability`.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...]


@dataclass(frozen=True)
class Candidates:
    """One step's continuations, (n, m) each, best first, and which of them stay live.

    Attributes:
        parents: place of the hypothesis that is continued.
        tokens: by which token.
        gains: the token's log-probability.
        totals: log-probability of the continued hypothesis.
        ends: those that finish here.
        places: columns (n, k) of those that stay live.
        places_totals: log-probabilities (n, k) of those that stay live, -inf for an empty place.
    """

    parents: Tensor
    tokens: Tensor
    gains: Tensor
    totals: Tensor
    ends: Tensor
    places: Tensor
    places_totals: Tensor


@overload
def length_penalty(length: int, alpha: float) -> float: ...
@overload
def length_penalty(length: Tensor, alpha: float) -> Tensor: ...
def length_penalty(length: int | Tensor, alpha: float) -> float | Tensor:
    """Return ((5 + |Y|) / 6)^alpha for |Y| = `length` subwords, the end symbol included."""
    return ((5 + length) / 6) ** alpha
