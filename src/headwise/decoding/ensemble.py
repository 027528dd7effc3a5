"""Ensemble decoding: the probabilities of several models are averaged at every token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headwise.engine.ids import check_one_vocabulary
from headwise.models.base import Memory, Seq2Seq, State


@dataclass(frozen=True)
class _Memories(Memory):
    """The encoded source of each model of an ensemble."""

    parts: tuple[Memory, ...]


@dataclass(frozen=True)
class _States(State):
    """One decoding state for each model of an ensemble."""

    parts: tuple[State, ...]

    def reorder(self, rows: Tensor) -> _States:
        return _States(tuple(part.reorder(rows) for part in self.parts))

    def keep(self, sentences: Tensor) -> _States:
        return _States(tuple(part.keep(sentences) for part in self.parts))


class Ensemble(Seq2Seq):
    """Ensemble of models, which averages their probabilities at every token.

    It implements the protocol of one model; its hidden states are the concatenated hidden states of its models.
    """

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        """Combine models; raises `ConfigError` unless their vocabularies have the same sizes."""
        super().__init__()
        self.models = nn.ModuleList(models)
        first = models[0]
        check_one_vocabulary(models)
        self.source_size, self.target_size = first.source_size, first.target_size
        self.max_length = min(model.max_length for model in models)
        self._members = tuple(models)
        self.eval()

    @property
    def device(self) -> torch.device:
        """The device of the first model."""
        return self._members[0].device

    def encode(self, source: Tensor, mask: Tensor) -> Memory:  # noqa: D102
        parts = tuple(model.encode(source, mask) for model in self._members)
        return _Memories(torch.cat([part.states for part in parts], dim=-1), mask, parts)

    def start(self, memory: Memory, beams: int = 1) -> State:  # noqa: D102
        assert isinstance(memory, _Memories)
        pairs = zip(self._members, memory.parts, strict=True)
        return _States(tuple(model.start(part, beams) for model, part in pairs))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:  # noqa: D102
        assert isinstance(state, _States)
        pairs = zip(self._members, state.parts, strict=True)
        log_probs, states = zip(*(model.step(tokens, part) for model, part in pairs), strict=True)
        return self._mean(log_probs), _States(states)

    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:  # noqa: D102
        assert isinstance(memory, _Memories)
        pairs = zip(self._members, memory.parts, strict=True)
        return torch.cat([model.decode(part, target_input) for model, part in pairs], dim=-1)

    @property
    def output_weight(self) -> Tensor:
        """Not available: no single projection gives the mean of the models' probabilities."""
        raise NotImplementedError("an ensemble has no single output projection; use `project`")

    def project(self, hidden: Tensor) -> Tensor:
        """Return the log of the mean probabilities, which is its own log-softmax and so serves as logits."""
        widths = [model.output_weight.shape[1] for model in self._members]
        parts = zip(self._members, hidden.split(widths, dim=-1), strict=True)
        return self._mean([model.project(part).float().log_softmax(-1) for model, part in parts])

    @staticmethod
    def _mean(log_probs: Sequence[Tensor]) -> Tensor:
        return torch.logsumexp(torch.stack(list(log_probs)), dim=0) - math.log(len(log_probs))
