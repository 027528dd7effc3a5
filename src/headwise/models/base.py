"""The protocol that every sequence-to-sequence model keeps.

Search, scoring, serving and analysis know only this: `encode` a source once, `start` a decoding state, `step` it
one token at a time, and `forward` for teacher forcing. The state is opaque.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Memory:
    """An encoded source: states (batch, source, d_model) and mask (batch, source), True = real token."""

    states: Tensor
    mask: Tensor


class State(ABC):
    """What a model carries from one decoding step to the next, for rows = sentences x beams."""

    @abstractmethod
    def reorder(self, rows: Tensor) -> State:
        """Let row r continue what row rows[r] was; beams move only within their sentence."""

    @abstractmethod
    def keep(self, sentences: Tensor) -> State:
        """Keep these sentences with all their beams, in this order."""


class Seq2Seq(nn.Module, ABC):
    """A model that maps source ids to target ids.

    `compute_dtype` is the dtype of the activations; parameters stay in float32. `unused` names the keys of the model
    configuration that mean nothing to an architecture, so that nobody believes to have set something.
    """

    unused: ClassVar[tuple[str, ...]] = ()
    source_size: int
    target_size: int
    max_length: int
    compute_dtype: torch.dtype = torch.float32

    @abstractmethod
    def encode(self, source: Tensor, mask: Tensor) -> Memory:
        """Encode ids (batch, source) whose real tokens mask (batch, source) marks True."""

    @abstractmethod
    def start(self, memory: Memory, beams: int = 1, capacity: int | None = None) -> State:
        """Begin decoding with `beams` rows a sentence, sentence by sentence; `capacity` is a length hint."""

    @abstractmethod
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Feed one token a row (rows,); returns float32 log-probabilities (rows, target_size) of the next."""

    @abstractmethod
    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:
        """Teacher-force target_input (batch, target) over a memory; hidden states (batch, target, d_model)."""

    @property
    @abstractmethod
    def output_weight(self) -> Tensor:
        """The projection to the target vocabulary, (target_size, d_model), for losses fused with it."""

    def forward(self, source: Tensor, source_mask: Tensor, target_input: Tensor) -> Tensor:
        """Encode and teacher-force; returns hidden states (batch, target, d_model)."""
        return self.decode(self.encode(source, source_mask), target_input)

    def project(self, hidden: Tensor) -> Tensor:
        """Logits (…, target_size) of hidden states (…, d_model)."""
        return nn.functional.linear(hidden, self.output_weight.to(hidden.dtype))

    @property
    def device(self) -> torch.device:
        """Where ids must be for this model to read them."""
        return next(self.parameters()).device

    def own_search(self, options: object) -> Callable[..., Any] | None:
        """Return an engine's own search of many sentences, which takes the place of one step after the other.

        `options` are `headwise.decoding.options.SearchOptions`. None where the model has no search for these.
        """
        return None

    @property
    def readable(self) -> Seq2Seq:
        """The model whose attention can be looked at: itself, or for an engine the one that it stands for."""
        return self
