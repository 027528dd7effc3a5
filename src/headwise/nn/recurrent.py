"""Layers of recurrent encoder-decoders: attention with one distribution over the source, and LSTM and GRU layers.

    a_ij = softmax_j(score(s_i, h_j)),  c_i = Σ_j a_ij h_j

Additive (Bahdanau et al. 2015, appendix A.1.2):  score(s, h) = vᵀ tanh(W s + U h)
Multiplicative (Luong et al. 2015, equation 8, "general"):  score(s, h) = sᵀ W h

The parameters of a layer, LSTM (Hochreiter & Schmidhuber 1997) or GRU (Cho et al. 2014), are those of torch.nn.LSTM and
torch.nn.GRU, in float32; its arithmetic uses the dtype of the input.

Shapes of attention: query (batch, target, size), keys (batch, source, ·), values (batch, source, value_size),
mask (batch, source) bool, True = may attend. Of layers: batch or rows = sequences, time = positions, size = width of a
state, which is a tuple: (h, c) for an LSTM, (h,) for a GRU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from headwise.nn.dropout import dropout as drop
from headwise.nn.linear import Linear
from headwise.nn.masks import masked_softmax
from headwise.nn.multihead import Attended, Probed


class SourceAttention(Probed):
    """Attention over the source, with scores sᵀ h without parameters or scale (Gehring et al. 2017, section 3.3).

    Subclasses have other scores. It is inspected as attention with one head.
    """

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout

    def project_memory(self, states: Tensor) -> Tensor:
        """Return the keys of an encoded source (batch, source, memory_size), computed once for all steps."""
        return states

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return the scores of all queries and keys, (batch, target, source)."""
        return query @ keys.transpose(1, 2)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Return the context vectors (batch, target, value_size), zeros if all keys are masked."""
        weights = masked_softmax(self.scores(query, keys), mask[:, None])
        if self.probe is not None:
            weights = self.probe(weights[:, None], mask[:, None, None]).squeeze(1)
        context = drop(weights, self.dropout, self.training) @ values
        if self.watch is not None:
            q, k, v, used, heads = (x[:, None] for x in (query, keys, values, weights, context))
            self.watch(Attended(q, k, v, mask[:, None, None], None, used, heads))
        return context


class AdditiveAttention(SourceAttention):
    """Additive attention, with scores vᵀ tanh(W s + U h); the hidden layer is as wide as a state s."""

    def __init__(self, size: int, memory_size: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.query = Linear(size, size, bias=False)
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

    def __init__(self, size: int, memory_size: int, dropout: float = 0.0) -> None:
        super().__init__(dropout)
        self.key = Linear(memory_size, size, bias=False)

    def project_memory(self, states: Tensor) -> Tensor:  # noqa: D102
        return self.key(states)


# From the name in the configuration to a function (size of a state, memory size, dropout) -> attention.
SCORES: dict[str, Callable[[int, int, float], SourceAttention]] = {
    "additive": AdditiveAttention,
    "multiplicative": MultiplicativeAttention,
}


Parts = tuple[Tensor, ...]

_CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class Recurrence(nn.Module):
    """LSTM or GRU layer over a padded batch (`encode`), a batch of equal lengths (`run`) or one position (`step`).

    Weights and biases are initialized uniformly within ±1/√size.
    """

    def __init__(self, cell: str, input_size: int, size: int, *, bidirectional: bool = False) -> None:
        super().__init__()
        self.size = size
        self.bidirectional = bidirectional
        self.parts = 2 if cell == "lstm" else 1  # tensors of a state
        self.rnn = _CELLS[cell](input_size, size, bidirectional=bidirectional)

    def weights(self, dtype: torch.dtype) -> list[Tensor]:
        """Return the input and state weights, then their biases, of each direction, cast to `dtype`."""
        return [weight.to(dtype) for direction in self.rnn.all_weights for weight in direction]

    def encode(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Parts]:
        """Run over each sequence of x (batch, time, input_size) up to its length; lengths (batch,) are on the CPU.

        Returns the outputs (batch, time, directions * size), zeros after the end of a sequence, and the final states,
        tensors (batch, directions, size): forward after the last position, backward after the first.
        """
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        directions = 2 if self.bidirectional else 1
        zeros = (x.new_zeros(directions, x.size(0), self.size),) * self.parts
        weights = self.weights(x.dtype)
        options = (True, 1, 0.0, self.training, self.bidirectional)
        if self.parts == 2:
            out, *final = torch.lstm(packed.data, packed.batch_sizes, zeros, weights, *options)
        else:
            out, *final = torch.gru(packed.data, packed.batch_sizes, zeros[0], weights, *options)
        repacked = PackedSequence(out, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        states, _ = pad_packed_sequence(repacked, batch_first=True, total_length=x.size(1))
        assert packed.unsorted_indices is not None
        return states, tuple(part[:, packed.unsorted_indices].transpose(0, 1) for part in final)

    def run(self, x: Tensor, state: Parts) -> Tensor:
        """Run over x (batch, time, input_size) from an initial state; returns the outputs (batch, time, size)."""
        start = tuple(part[None].contiguous() for part in state)
        options = (self.weights(x.dtype), True, 1, 0.0, self.training, False, True)
        if self.parts == 2:
            return torch.lstm(x, start, *options)[0]
        return torch.gru(x, start[0], *options)[0]

    @staticmethod
    def step(x: Tensor, state: Parts, weights: list[Tensor]) -> Parts:
        """Run one position x (rows, input_size), given `weights(dtype)`; returns the new state (h is the output)."""
        if len(state) == 2:
            return torch.lstm_cell(x, state, *weights)
        return (torch.gru_cell(x, state[0], *weights),)


def reverse(x: Tensor, mask: Tensor) -> Tensor:
    """Reverse each sequence of x (batch, time, size); padding, where mask (batch, time) is False, stays at the end."""
    position = torch.arange(x.size(1), device=x.device)
    reversed_position = mask.sum(1, keepdim=True) - 1 - position  # (batch, time)
    index = torch.where(mask, reversed_position, position)
    return x.gather(1, index[:, :, None].expand_as(x))
