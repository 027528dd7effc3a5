"""Attention before heads: one distribution over the source for each target position.

    a_ij = softmax_j(score(s_i, h_j)),  c_i = Σ_j a_ij h_j

Additive (Bahdanau et al. 2015, appendix A.1.2):  score(s, h) = vᵀ tanh(W s + U h)
Multiplicative (Luong et al. 2015, equation 8, "general"):  score(s, h) = sᵀ W h

Shapes: query (batch, target, query_size), keys (batch, source, ·), values (batch, source, value_size),
mask (batch, source) bool, True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from headwise.nn.dropout import dropout as drop
from headwise.nn.layers import Linear
from headwise.nn.multihead import Probed


class SourceAttention(Probed):
    """Attends with the scores that a subclass gives; the weights, (batch, 1, target, source), pass the probe."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout

    def project_memory(self, states: Tensor) -> Tensor:
        """Turn an encoded source (batch, source, memory_size) into keys, once for all steps."""
        raise NotImplementedError

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """Score every key for every query, (batch, target, source)."""
        raise NotImplementedError

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Return the contexts (batch, target, value_size), zeros where the mask leaves nothing."""
        weights = masked_softmax(self.scores(query, keys), mask[:, None])
        if self.probe is not None:
            weights = self.probe(weights[:, None]).squeeze(1)
        return drop(weights, self.dropout, self.training) @ values


class AdditiveAttention(SourceAttention):
    """vᵀ tanh(W s + U h), with the hidden layer as wide as the keys."""

    def __init__(self, query_size: int, memory_size: int, size: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.query = Linear(query_size, size, bias=False)
        self.key = Linear(memory_size, size, bias=False)
        self.score = Linear(size, 1, bias=False)

    def project_memory(self, states: Tensor) -> Tensor:  # noqa: D102
        return self.key(states)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:  # noqa: D102
        # One query at a time: all at once would hold (batch, target, source, size).
        hidden = (torch.tanh(one[:, None] + keys) for one in self.query(query).unbind(1))
        return torch.stack([self.score(one).squeeze(-1) for one in hidden], dim=1)


class MultiplicativeAttention(SourceAttention):
    """Scores sᵀ W h; W is applied to the source, once."""

    def __init__(self, query_size: int, memory_size: int, size: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        assert size == query_size, (size, query_size)
        self.key = Linear(memory_size, size, bias=False)

    def project_memory(self, states: Tensor) -> Tensor:  # noqa: D102
        return self.key(states)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:  # noqa: D102
        return query @ keys.transpose(1, 2)


class DotAttention(SourceAttention):
    """Scores sᵀ h, without parameters or scale (Gehring et al. 2017, section 3.3)."""

    def project_memory(self, states: Tensor) -> Tensor:  # noqa: D102
        return states

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:  # noqa: D102
        return query @ keys.transpose(1, 2)


# How a score is called in a configuration: (query size, memory size, hidden size, dropout) -> attention.
SCORES: dict[str, Callable[[int, int, int, float], SourceAttention]] = {
    "additive": AdditiveAttention,
    "multiplicative": MultiplicativeAttention,
}


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last dimension with exactly 0 where mask is False; a row without any True is all 0."""
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


def beams_as_queries(x: Tensor, sentences: int) -> Tensor:
    """View rows (sentences * beams, size) as (sentences, beams, size): beams are queries to one shared memory."""
    return x.view(sentences, -1, x.size(-1))
