"""The protocol of all sequence-to-sequence models, and base classes of all models.

Search, scoring, serving and analysis use only this protocol: `encode` a source once, `start` a decoding state, `step`
it one token at a time, and `forward` for teacher forcing. The state is opaque to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Memory:
    """An encoded source: states (batch, source, d_model) and mask (batch, source), True = real token."""

    states: Tensor
    mask: Tensor


class State(ABC):
    """Decoding state that a model passes from one step to the next, for rows = sentences × beams."""

    beams: int

    @abstractmethod
    def reorder(self, rows: Tensor) -> State:
        """Reorder the beams: row r becomes what row rows[r] was; beams move only within their sentence."""

    @abstractmethod
    def keep(self, sentences: Tensor) -> State:
        """Keep only these sentences, with all their beams, in this order."""

    def rows_of(self, sentences: Tensor) -> Tensor:
        """Return the rows of these sentences, in this order."""
        rows = sentences[:, None] * self.beams + torch.arange(self.beams, device=sentences.device)
        return rows.flatten()


class MixedPrecision(nn.Module):
    """Base class of models with a dtype of the activations; parameters stay in float32."""

    _compute_dtype = torch.float32

    @property
    def compute_dtype(self) -> torch.dtype:
        """The dtype of the activations; setting it sets that of the models inside, too."""
        return self._compute_dtype

    @compute_dtype.setter
    def compute_dtype(self, dtype: torch.dtype) -> None:
        for module in self.modules():
            if isinstance(module, MixedPrecision):
                module._compute_dtype = dtype


class Projecting(MixedPrecision, ABC):
    """Base class of models that end in a projection to logits."""

    @property
    @abstractmethod
    def output_weight(self) -> Tensor:
        """Weight of the output projection, (size, d_model)."""

    @property
    def output_bias(self) -> Tensor | None:
        """Bias of the output projection, (size,), if it has one."""
        return None

    def project(self, hidden: Tensor) -> Tensor:
        """Return the logits (…, size) of hidden states (…, d_model)."""
        bias = None if self.output_bias is None else self.output_bias.to(hidden.dtype)
        return nn.functional.linear(hidden, self.output_weight.to(hidden.dtype), bias)

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """Return the float32 log-probabilities (…, size) of hidden states (…, d_model)."""
        return self.project(hidden).float().log_softmax(dim=-1)

    def projection(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return x (tokens, n) and W (size, n) such that x Wᵀ are the logits of hidden states (tokens, d_model).

        Losses fused with the projection take them. A bias is a column of W, for an input that is always 1.
        """
        if self.output_bias is None:
            return hidden, self.output_weight
        weight = torch.cat([self.output_weight, self.output_bias[:, None]], dim=1)
        return torch.cat([hidden, hidden.new_ones(len(hidden), 1)], dim=1), weight


class Seq2Seq(Projecting):
    """Base class of sequence-to-sequence models, from source ids to target ids."""

    source_size: int
    target_size: int
    max_length: int

    @abstractmethod
    def encode(self, source: Tensor, mask: Tensor) -> Memory:
        """Encode ids (batch, source); mask (batch, source) is True at real tokens."""

    @abstractmethod
    def start(self, memory: Memory, beams: int = 1) -> State:
        """Return the initial state, with `beams` consecutive rows per sentence."""

    @abstractmethod
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Feed one token per row (rows,); returns float32 log-probabilities (rows, target_size) of the next token."""

    @abstractmethod
    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:
        """Decode target_input (batch, target) with teacher forcing; returns hidden states (batch, target, d_model)."""

    def forward(self, source: Tensor, source_mask: Tensor, target_input: Tensor) -> Tensor:
        """Encode, and decode with teacher forcing; returns hidden states (batch, target, d_model)."""
        return self.decode(self.encode(source, source_mask), target_input)

    @property
    def device(self) -> torch.device:
        """Device of the parameters, on which the ids must be."""
        return next(self.parameters()).device
