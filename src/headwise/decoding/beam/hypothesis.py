"""Finished hypotheses, the candidates of one search step, and the length penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """A finished hypothesis.

    Attributes:
        tokens: subword ids without the start and end symbols.
        log_probability: log P(tokens, end symbol | source), natural logarithm.
        score: log_probability / length penalty; the beam search returns the highest.
        token_log_probabilities: one for each token and one for the end symbol; they sum to `log_probability`.
        note: a sentence about how it was found; empty where there is nothing to say.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    token_log_probabilities: tuple[float, ...]
    note: str = ""


@dataclass(frozen=True)
class Candidates:
    """The candidate continuations of one search step, and those that stay live.

    Shapes: n sentences, m candidates each, best first, of which k stay live.

    Attributes:
        parents: index (n, m) of the beam's hypothesis that is continued.
        tokens: token (n, m) that is appended.
        gains: log-probability (n, m) of that token.
        totals: log-probability (n, m) of the continued hypothesis.
        ends: whether the candidate is a finished hypothesis (n, m).
        places: index (n, k) of the candidates that stay live.
        places_totals: log-probability (n, k) of the candidates that stay live, -inf for an empty place in the beam.
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
    """Return the length penalty ((5 + |Y|) / 6)^alpha for |Y| = `length` subwords, the end symbol included."""
    return ((5 + length) / 6) ** alpha
