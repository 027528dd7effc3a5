"""The networks that are compared: recurrent layers and an attention layer with random weights, and a run's own encoder.

Each maps its inputs x (rows, time, width) to states (rows, time, size); rows are independent copies of one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.recurrent import Recurrence

INPUT = 0.1  # size of U x, so that states begin in the nearly linear part of tanh
REMEMBERED = 64  # positions that the gates are initialized for


class SimpleRecurrence(nn.Module):
    """h_t = tanh(W h_{t-1} + U x_t) without gates (Elman 1990).

    W is `radius` times a random orthogonal matrix: all of its eigenvalues have that magnitude, and all of its singular
    values, too.
    """

    def __init__(self, width: int, radius: float) -> None:
        super().__init__()
        self.state = nn.Parameter(radius * nn.init.orthogonal_(torch.empty(width, width)))
        self.input = nn.Parameter(INPUT * nn.init.orthogonal_(torch.empty(width, width)))

    def forward(self, x: Tensor) -> Tensor:
        """Return the states of x, both (rows, time, width)."""
        state, states = x.new_zeros(x.size(0), x.size(2)), []
        for projected in functional.linear(x, self.input).unbind(1):
            state = torch.tanh(functional.linear(state, self.state) + projected)
            states.append(state)
        return torch.stack(states, dim=1)


class GatedRecurrence(nn.Module):
    """A GRU or LSTM layer whose gates are initialized to remember up to `REMEMBERED` positions.

    The bias of the forget gate (LSTM) and of the update gate (GRU) is log u for u uniform in [1, REMEMBERED - 1], that
    of the LSTM's input gate -log u (Tallec & Ollivier 2018, "Can recurrent neural networks warp time?").
    """

    def __init__(self, cell: str, width: int) -> None:
        super().__init__()
        self.layer = Recurrence(cell, width, width)
        bias = torch.empty(width).uniform_(1, REMEMBERED - 1).log()
        _, _, input_bias, state_bias = self.layer.rnn.all_weights[0]
        with torch.no_grad():
            input_bias.zero_()
            state_bias.zero_()
            input_bias[width : 2 * width] = bias
            if cell == "lstm":
                input_bias[:width] = -bias

    def forward(self, x: Tensor) -> Tensor:
        """Return the states of x, both (rows, time, width)."""
        start = (x.new_zeros(x.size(0), x.size(2)),) * self.layer.parts
        return self.layer.run(x, start)

    def by_position(self, x: Tensor) -> Tensor:
        """Return the same states, computed by one call per position, as a decoder must."""
        state = (x.new_zeros(x.size(0), x.size(2)),) * self.layer.parts
        weights, states = self.layer.weights(x.dtype), []
        for one in x.unbind(1):
            state = Recurrence.step(one, state, weights)
            states.append(state[0])
        return torch.stack(states, dim=1)


def attention_layer(width: int) -> MultiHeadAttention:
    """Return a multi-head self-attention layer of a width, with up to 8 heads."""
    return MultiHeadAttention(width, math.gcd(width, 8), kind="reference")


class OwnEncoder(nn.Module):
    """A run's own encoder as a function of its token embeddings.

    `encode` maps token ids (rows, time) to states (rows, time, size); it looks the ids up in `embedding`.
    With `backward`, it reads the last token first; inputs and states are in the order of reading.
    """

    def __init__(
        self,
        encode: Callable[[Tensor], Tensor],
        embedding: nn.Module,
        ids: Tensor,
        *,
        size: int | None = None,
        backward: bool = False,
    ) -> None:
        """Encode ids (time,); `size` keeps so many features of a state: the direction that reads forward."""
        super().__init__()
        self.encode, self.embedding, self.ids = encode, embedding, ids
        self.size, self.backward = size, backward

    @torch.no_grad()
    def inputs(self) -> Tensor:
        """Return the embeddings (time, width) of the tokens, in the order of reading."""
        return self._ordered(self.embedding(self.ids), 0).float()

    def forward(self, x: Tensor) -> Tensor:
        """Return the states (rows, time, size) for x (rows, time, width) in place of the embeddings."""
        given = self._ordered(x, 1)
        handle = self.embedding.register_forward_hook(lambda *_: given)
        try:
            states = self.encode(self.ids.expand(x.size(0), -1))
        finally:
            handle.remove()
        return self._ordered(states[..., : self.size], 1).float()

    def _ordered(self, values: Tensor, dimension: int) -> Tensor:
        return values.flip(dimension) if self.backward else values
