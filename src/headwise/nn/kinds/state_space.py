"""A diagonal state space in the place of self-attention: S4D (Gu et al. 2022, "On the Parameterization and
Initialization of Diagonal State Space Models").

Each channel of the input runs through a linear system of its own (section 3, with zero-order hold):

    x_k = Ā x_{k-1} + B̄ u_k,   y_k = 2 Re(C x_k) + D u_k,   Ā = exp(ΔA),   B̄ = (Ā - 1) / A

A is diagonal and complex, and stands for itself and its conjugate; B is 1, since C can hold its part. Then all
channels meet in GLU(W gelu(y)). Causally the state is all that decoding carries, however long the sequence; over a
whole sequence, a second system runs from its end to its beginning.

Training takes the same recurrence a chunk at a time, so that it is matrix products: inside a chunk y is a convolution
with K_k = 2 Re(C Ā^k B̄), and only the states between chunks follow each other. (Section 3 convolves whole sequences
by Fourier transforms instead, whose rounding lets a little of the future into the past.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwise.config import ModelConfig
from headwise.nn.attention import pairs_refused, register_layer
from headwise.nn.cache import Cache
from headwise.nn.layers import Linear
from headwise.nn.mixing import SequenceMixer

_NO_PAIRS = "it has no scores or weights of pairs of positions"


class StateSpaceCache:
    """The state x after all positions so far, (channels, rows, states): a cache that doesn't grow."""

    def __init__(self) -> None:
        self.length = 0
        self.state: Tensor | None = None

    def select(self, rows: Tensor) -> None:
        """Make row r continue what row rows[r] was."""
        if self.state is not None:
            self.state = self.state.index_select(1, rows)


class _Chunk(NamedTuple):
    """The recurrence over a chunk of positions as matrices, a leading dimension of channels; inputs are rows."""

    inside: Tensor  # (channel, chunk, chunk): from inputs to outputs
    write: (
        Tensor  # (channel, chunk, 2 · states): from inputs to the state after them, real and imaginary parts
    )
    read: Tensor  # (channel, 2 · states, chunk): from the state before them to outputs
    powers: Tensor  # (channel, states, chunk + 1) complex: Ā^k


@register_layer(
    "state_space",
    lacks={
        "cross": "its state is made of one sequence, and another has no queries to ask of it",
        "pairs": "its state is one for all later positions",
        "bias": _NO_PAIRS,
        "rotation": "it has no queries and keys, and knows distances by itself",
        "dropout": _NO_PAIRS,
        "weights": _NO_PAIRS,
        "probe": _NO_PAIRS,
    },
)
class StateSpace(SequenceMixer):
    """S4D over each of d_model channels, then GLU; x and the result are (batch, time, d_model).

    Without `causal` it reads the sequence in both directions. Where the mask is False the input counts as 0.
    """

    def __init__(self, config: ModelConfig, *, causal: bool) -> None:
        super().__init__()
        options = config.attention_options.state_space
        self.chunk = options.chunk
        self.directions = 1 if causal else 2
        states = options.size // 2
        shape = (self.directions, config.d_model, states)
        self.log_step = nn.Parameter(torch.empty(shape[:2]))  # Δ
        self.log_decay = nn.Parameter(torch.full(shape, math.log(0.5)))  # -Re A
        self.frequency = nn.Parameter(_frequencies(states, options.start).expand(shape).clone())  # Im A
        self.readout = nn.Parameter(torch.empty(*shape, 2))  # C, real and imaginary part
        self.skip = nn.Parameter(torch.ones(config.d_model))  # D
        self.output = Linear(config.d_model, 2 * config.d_model, bias=config.attention_bias)
        nn.init.uniform_(self.log_step, math.log(options.shortest), math.log(options.longest))
        nn.init.normal_(self.readout, std=math.sqrt(0.5))

    def forward(self, x: Tensor, mask: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """Continue from the cache if there is one; of a mask (batch, 1, 1, key) the last `time` keys are x's.

        Raises ValueError for a mask over pairs.
        """
        u = (x if x.dtype == torch.float64 else x.float()).permute(2, 0, 1)  # (channel, batch, time)
        if mask is not None:
            if mask.dim() != 4 or mask.shape[1:3] != (1, 1):
                raise pairs_refused("state_space")
            u = u.masked_fill(~mask[:, 0, 0, -x.size(1) :], 0.0)
        if cache is not None:
            assert isinstance(cache, StateSpaceCache)
            y, cache.state = self._scan(u, cache.state)
            cache.length += x.size(1)
        elif self.directions == 1:
            y, _ = self._scan(u, None)
        else:
            both, _ = self._scan(torch.cat([u, u.flip(2)]), None)
            forth, back = both.chunk(2)
            y = forth + back.flip(2)
        y = y + self.skip.to(u.dtype)[:, None, None] * u
        return functional.glu(self.output(functional.gelu(y).permute(1, 2, 0).to(x.dtype)))

    def new_cache(self, capacity: int = 32) -> Cache:
        """Return an empty state. Raises ValueError in an encoder, whose second system begins at the end."""
        if self.directions == 2:
            raise ValueError(
                "expected a causal state space to decode step by step, found one that reads both ways"
            )
        return StateSpaceCache()

    def _scan(self, u: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Run u (channel, batch, time) from `state`; returns y like u, and the state after the last position."""
        channels, batch, time = u.shape
        chunk = min(self.chunk, time)
        system = self._system(chunk, u.dtype)
        if state is None:
            state = system.powers.new_zeros(channels, batch, system.powers.size(1))
        chunks = functional.pad(u, (0, -time % chunk)).unflatten(2, (-1, chunk))
        written = _complex(_each(chunks, system.write))  # (channel, batch, chunks, states)
        before = [state]
        for part in written.unbind(2)[:-1]:
            before.append(system.powers[:, None, :, chunk] * before[-1] + part)
        states = torch.stack(before, dim=2)
        y = _each(chunks, system.inside) + _each(_real(states), system.read)
        rest = time - chunk * (chunks.size(2) - 1)  # positions of the last chunk, without padding
        last = _complex(_each(chunks[:, :, -1:, :rest], system.write[:, chunk - rest :])).squeeze(2)
        return y.flatten(2)[..., :time], system.powers[:, None, :, rest] * before[-1] + last

    def _system(self, chunk: int, dtype: torch.dtype) -> _Chunk:
        """Discretize, and write the recurrence over `chunk` positions out; channels of all directions in a row."""
        decay, frequency, readout = (
            p.to(dtype).flatten(0, 1) for p in (self.log_decay, self.frequency, self.readout)
        )
        a = torch.complex(-decay.exp(), frequency)  # (channel, states)
        a_step = self.log_step.to(dtype).exp().flatten()[:, None] * a
        number = torch.arange(chunk + 1, dtype=dtype, device=a.device)
        powers = (a_step[..., None] * number).exp()  # (channel, states, chunk + 1)
        b = torch.expm1(a_step) / a
        c = 2 * torch.view_as_complex(readout.contiguous())
        kernel = torch.einsum("hn,hnk->hk", c * b, powers[..., :-1]).real  # (channel, chunk)
        lag = torch.arange(chunk, device=a.device) - torch.arange(chunk, device=a.device)[:, None]
        inside = kernel[:, lag.clamp(min=0)].masked_fill(lag < 0, 0.0)
        write = (b[..., None] * powers[..., :-1].flip(2)).transpose(1, 2)
        read = c[..., None] * powers[..., 1:]
        return _Chunk(inside, _real(write), torch.cat([read.real, -read.imag], dim=1), powers)


def _frequencies(states: int, start: str) -> Tensor:
    """Im A at the start (section 4): πn for `linear`, N/π (N / (2n + 1) - 1) for `inverse`, N = 2 · states."""
    n = torch.arange(states, dtype=torch.float64)
    if start == "linear":
        return (math.pi * n).float()
    return (2 * states / math.pi * (2 * states / (2 * n + 1) - 1)).float()


def _each(x: Tensor, matrices: Tensor) -> Tensor:
    """Multiply x (channel, batch, chunks, n) with each channel's matrix (channel, n, m)."""
    return (x.flatten(1, 2) @ matrices).unflatten(1, x.shape[1:3])


def _real(x: Tensor) -> Tensor:
    return torch.cat([x.real, x.imag], dim=-1)


def _complex(x: Tensor) -> Tensor:
    real, imaginary = x.chunk(2, dim=-1)
    return torch.complex(real, imaginary)
