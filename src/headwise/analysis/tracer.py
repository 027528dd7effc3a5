"""Tracers of models that read text: a private copy of the model for each request, and recorded forced decoding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from headwise.analysis.interventions import (
    Copies,
    Intervention,
    intervening,
    require_no_translation,
    switched_off,
)
from headwise.analysis.recording import ForwardPass, Row, attention_by_part
from headwise.analysis.trace import Alternative, ForcedDecoding, Side, Trace
from headwise.engine.hypotheses import length_penalty
from headwise.errors import ConfigError
from headwise.nn.recording import recording

LONGEST = 128  # maximum length of a traced text in tokens; attention grows with its square

Model = TypeVar("Model", bound=nn.Module)


class Tracer(ABC, Generic[Model]):
    """Tracer of one run's model; thread-safe.

    Each request uses a private copy of the model, so interventions don't affect each other.

    Attributes:
        longest: maximum length of a traced text in tokens.
        what: what the tokens are whose probability is shown, in words.
        free: tokens whose probability at the beginning isn't counted.
    """

    what: str
    free: Sequence[int] = ()

    def __init__(self, open_model: Callable[[], Model], longest: int) -> None:
        """Use a model that is opened when the first request needs it."""
        self._open_model, self.longest = open_model, longest

    @cached_property
    def copies(self) -> Copies[Model]:
        """Private copies of the run's model."""
        return Copies(self._open_model())

    @property
    def trained(self) -> Model:
        """The run's model."""
        return self.copies.trained

    def copies_for(self, interventions: Sequence[Intervention]) -> Copies[Model]:
        """Return the copies of the model whose parameters are to act; raises `ConfigError` as `model`."""
        require_no_translation(interventions)
        return self.copies

    @contextmanager
    def model(self, interventions: Sequence[Intervention] = ()) -> Iterator[Model]:
        """Context manager that gives a private copy of the model with the interventions applied.

        Raises `ConfigError` for one that the model doesn't allow.
        """
        with self.copies_for(interventions).lent() as copy, intervening(copy, interventions):
            yield copy

    # ------------------------------------------------------------------------------------------------ tokens

    @abstractmethod
    def read(self, text: str) -> tuple[Side, tuple[str, ...]]:
        """Return the tokens that the model reads for a text, and notes about what was left out."""

    @abstractmethod
    def side(self, ids: Sequence[int]) -> Side:
        """Return the text, tokens and words of ids that the model writes; symbols are words of their own."""

    @abstractmethod
    def names(self, ids: Sequence[int]) -> Sequence[str]:
        """Return the tokens of ids that the model writes."""

    @abstractmethod
    def forced(self, text: str | Side, target: str | Sequence[int]) -> tuple[dict[Row, Side], tuple[int, ...]]:
        """Return what each stack reads for a target, and the target's ids; arguments and errors as for `force`."""

    @abstractmethod
    def logits(self, model: Model, sides: dict[Row, Side]) -> Tensor:
        """Return the logits (rows, vocabulary) at each token that the last stack reads."""

    def counted(self, reads: Side) -> Sequence[int]:
        """Return the positions whose log-probabilities add up to that of the target."""
        return range(len(reads.ids))

    @abstractmethod
    def exponent(self, alpha: float | None) -> float:
        """Return the exponent of the length penalty where `alpha` is asked for."""

    # ------------------------------------------------------------------------------------------------ recording

    @abstractmethod
    def trace(self, text: str, interventions: Sequence[Intervention] = (), **options: Any) -> Trace:
        """Complete or translate a text and return its trace."""

    def record(
        self, text: str | Side, target: str | Sequence[int], interventions: Sequence[Intervention] = ()
    ) -> ForwardPass:
        """Record the forced decoding of a target; arguments and errors as for `force`."""
        sides, ids = self.forced(text, target)
        with self.model(interventions) as model, torch.inference_mode():
            return self.forward(model, sides, ids, interventions)

    def force(
        self,
        text: str | Side,
        target: str | Sequence[int],
        interventions: Sequence[Intervention] = (),
        *,
        alpha: float | None = None,
        alternatives: int = 5,
    ) -> ForcedDecoding:
        """Return the probabilities and the attention of a target: ids as a trace has them, or a translator's text.

        In place of a text, the source of a trace gives the same tokens again, however that trace read its text.
        Interventions on the output (prefix, word) are ignored here. Raises `ConfigError` for an empty source, and for
        a target that is empty, too long, or has ids outside the vocabulary.
        """
        recorded = self.record(text, target, interventions)
        return self.forced_of(recorded, self.exponent(alpha), alternatives)

    def forward(
        self,
        model: Model,
        sides: dict[Row, Side],
        target: Sequence[int],
        interventions: Sequence[Intervention],
    ) -> ForwardPass:
        """Record a model to which the interventions are applied, with the target's ids."""
        trained = self.copies_for(interventions).trained
        with recording(model, calls=True) as recorded:
            logits = self.logits(model, sides).float()
        return ForwardPass(
            trained=trained,
            interventions=tuple(interventions),
            off=switched_off(trained, model),
            sides=sides,
            recording=recorded,
            logits=logits,
            chosen=self.side(target),
            what=self.what,
            names=self.names,
        )

    def forced_of(self, recorded: ForwardPass, alpha: float, alternatives: int) -> ForcedDecoding:
        """Return what a recorded pass says of its target; raises `ConfigError` where numbers overflow."""
        target, reads = recorded.chosen, [*recorded.sides.values()][-1]
        log_probs = recorded.logits.log_softmax(-1).cpu()  # (target, vocabulary)
        if not bool(torch.isfinite(log_probs).all()):
            raise ConfigError("expected finite log-probabilities, found others: the model's numbers overflow")
        values = log_probs.gather(1, torch.tensor(target.ids)[:, None])[:, 0].tolist()
        if target.ids[0] in self.free:
            values[0] = 0.0
        total = sum(values[position] for position in self.counted(reads))
        penalty = length_penalty(len(values), alpha)
        return ForcedDecoding(
            target=target,
            reads=reads,
            log_probabilities=tuple(values),
            alternatives=likeliest(log_probs, alternatives, self.names),
            log_probability=total,
            length_penalty=penalty,
            score=total / penalty,
            attention=attention_by_part(recorded.recording),
        )


def likeliest(
    log_probs: Tensor, count: int, names: Callable[[Sequence[int]], Sequence[str]]
) -> tuple[tuple[Alternative, ...], ...]:
    """Return the likeliest tokens of each row of log-probabilities (rows, vocabulary), best first."""
    top = log_probs.topk(min(count, log_probs.size(1)), dim=1)
    return tuple(
        tuple(Alternative(*one) for one in zip(ids, names(ids), values, strict=True))
        for ids, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    )
