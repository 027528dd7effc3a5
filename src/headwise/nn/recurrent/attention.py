"""Attention of recurrent encoder-decoders: one distribution over the source for each target position.

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
from headwise.nn.linear import Linear
from headwise.nn.multihead import Probed


class SourceAttention(Probed):
    """Attention over the source with the scores of a subclass; a probe gets the weights (batch, 1, target, source)."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout

    def project_memory(self, states: Tensor) -> Tensor:
        """Return the keys of an encoded source (batch, source, memory_size), computed once for all steps."""
        raise NotImplementedError

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of all queries and keys, (batch, target, source)."""
        raise NotImplementedError

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Return the context vectors (batch, target, value_size), zeros if all keys are masked."""
        weights = masked_softmax(self.scores(query, keys), mask[:, None])
        if self.probe is not None:
            weights = self.probe(weights[:, None]).squeeze(1)
        return drop(weights, self.dropout, self.training) @ values


class AdditiveAttention(SourceAttention):
    """Additive attention, with scores vᵀ tanh(W s + U h); the hidden layer is as wide as the keys."""

    def __init__(self, query_size: int, memory_size: int, size: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.query = Linear(query_size, size, bias=False)
        self.key = Linear(memory_size, size, bias=False)
        self.score = Linear(size, 1, bias=False)

    def project_memory(self, states: Tensor) -> Tensor:  # noqa: D102
        return self.key(states)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:  # noqa: D102
        # One query at a time, because all at once would need a tensor (batch, target, source, size).
        hidden = (torch.tanh(one[:, None] + keys) for one in self.query(query).unbind(1))
        return torch.stack([self.score(one).squeeze(-1) for one in hidden], dim=1)


class MultiplicativeAttention(SourceAttention):
    """Multiplicative attention, with scores sᵀ W h; W is applied to the source once."""

    def __init__(self, query_size: int, memory_size: int, size: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        assert size == query_size, (size, query_size)
        self.key = Linear(memory_size, size, bias=False)

    def project_memory(self, states: Tensor) -> Tensor:  # noqa: D102
        return self.key(states)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:  # noqa: D102
        return query @ keys.transpose(1, 2)


class DotAttention(SourceAttention):
    """Dot-product attention, with scores sᵀ h, without parameters or scale (Gehring et al. 2017, section 3.3)."""

    def project_memory(self, states: Tensor) -> Tensor:  # noqa: D102
        return states

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:  # noqa: D102
        return query @ keys.transpose(1, 2)


# From the name in the configuration to a function (query size, memory size, hidden size, dropout) -> attention.
SCORES: dict[str, Callable[[int, int, int, float], SourceAttention]] = {
    "additive": AdditiveAttention,
    "multiplicative": MultiplicativeAttention,
}


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax over the last dimension, exactly 0 where mask is False; all 0 if no key is allowed."""
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


def beams_as_queries(x: Tensor, sentences: int) -> Tensor:
    """View x (sentences · beams, size) as (sentences, beams, size): the beams of a sentence query one memory."""
    return x.view(sentences, -1, x.size(-1))
