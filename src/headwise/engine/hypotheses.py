"""Finished hypotheses, and the length penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from headwise.errors import CheckpointError

Lengths = TypeVar("Lengths")  # a tensor of lengths


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

    @classmethod
    def scored(cls, tokens: Sequence[int], log_probs: Sequence[float], alpha: float) -> Hypothesis:
        """Return the hypothesis of these tokens and log-probabilities, with the length penalty's exponent `alpha`."""
        total = sum(log_probs)
        return cls(tuple(tokens), total, total / length_penalty(len(log_probs), alpha), tuple(log_probs))


@overload
def length_penalty(length: int, alpha: float) -> float: ...
@overload
def length_penalty(length: Lengths, alpha: float) -> Lengths: ...
def length_penalty(length: Any, alpha: float) -> Any:
    """Return the length penalty ((5 + |Y|) / 6)^alpha for |Y| = `length` subwords, the end symbol included."""
    return ((5 + length) / 6) ** alpha


def damaged_model_error(number: int) -> CheckpointError:
    """Return the error for sentence `number` of a batch (from 1), of which no hypothesis could be finished."""
    return CheckpointError(
        f"sentence {number} of the batch: expected probabilities from the model, "
        "found values that aren't finite numbers; its parameters are damaged"
    )
