"""S4D, a diagonal state space layer in place of self-attention (Gu et al. 2022, "On the Parameterization and
Initialization of Diagonal State Space Models").

Each channel of the input goes through its own linear system (section 3, with zero-order hold):

    x_k = Ā x_{k-1} + B̄ u_k,   y_k = 2 Re(C x_k) + D u_k,   Ā = exp(ΔA),   B̄ = (Ā - 1) / A

A is diagonal and complex, and represents itself and its conjugate; B is 1, because C can absorb it. Then the channels
are mixed by GLU(W gelu(y)). In the causal form, the state is the whole decoding cache, for any length of sequence; in
the bidirectional form, a second system runs from the end of the sequence to its beginning.

Training computes the same recurrence in chunks, by matrix products: within a chunk, y is a convolution with
K_k = 2 Re(C Ā^k B̄), and only the states between chunks are sequential. (Section 3 convolves whole sequences by Fourier
transforms instead, whose rounding errors leak a little of the future into the past.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwise.config import ModelConfig
from headwise.nn.attention import pairs_refused, register_layer
from headwise.nn.cache import Cache, RecurrentCache
from headwise.nn.device import sum_dtype
from headwise.nn.linear import Linear
from headwise.nn.mixing import SequenceMixer

_NO_PAIRS = "it has no scores or weights of pairs of positions"


class _Chunk(NamedTuple):
    """The recurrence over a chunk of positions as matrices of each channel, which multiply inputs as row vectors.

    `write` and `read` hold the real parts of the states, then the imaginary ones.
    """

    inside: Tensor  # (channel, chunk, chunk): from inputs to outputs
    write: Tensor  # (channel, chunk, 2 · states): from inputs to the state after the chunk
    read: Tensor  # (channel, 2 · states, chunk): from the state before the chunk to outputs
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

    Without `causal` it is bidirectional. Where the mask is False, the input is set to 0.
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
        """Mix x, continuing from the cache if given; the last `time` keys of a mask (batch, 1, 1, key) are those of x.

        Raises ValueError for a mask over pairs.
        """
        u = x.to(sum_dtype(x)).permute(2, 0, 1)  # (channel, batch, time)
        if mask is not None:
            if mask.dim() != 4 or mask.shape[1:3] != (1, 1):
                raise pairs_refused("state_space")
            u = u.masked_fill(~mask[:, 0, 0, -x.size(1) :], 0.0)
        if cache is not None:
            assert isinstance(cache, RecurrentCache)
            y, cache.state = self._scan(u, cache.state)
            cache.length += x.size(1)
        elif self.directions == 1:
            y, _ = self._scan(u, None)
        else:
            both, _ = self._scan(torch.cat([u, u.flip(2)]), None)
            left_to_right, right_to_left = both.chunk(2)
            y = left_to_right + right_to_left.flip(2)
        y = y + self.skip.to(u.dtype)[:, None, None] * u
        return functional.glu(self.output(functional.gelu(y).permute(1, 2, 0).to(x.dtype)))

    def new_cache(self) -> Cache:
        """Return an empty cache; raises ValueError in an encoder, because it also reads from the end."""
        if self.directions == 2:
            raise ValueError("expected a causal state space to decode step by step, found one that reads both ways")
        return RecurrentCache(dim=1)  # of a state (channels, rows, states)

    def _scan(self, u: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Run u (channel, batch, time) from `state`; returns y like u, and the state after the last position."""
        channels, batch, time = u.shape
        chunk = min(self.chunk, time)
        system = self._system(chunk, u.dtype)
        if state is None:
            state = system.powers.new_zeros(channels, batch, system.powers.size(1))
        chunks = functional.pad(u, (0, -time % chunk)).unflatten(2, (-1, chunk))
        updates = _complex(_per_channel(chunks, system.write))  # (channel, batch, chunks, states)
        initial = [state]  # the state before each chunk
        for update in updates.unbind(2)[:-1]:
            initial.append(system.powers[:, None, :, chunk] * initial[-1] + update)
        states = torch.stack(initial, dim=2)
        y = _per_channel(chunks, system.inside) + _per_channel(_real(states), system.read)
        rest = time - chunk * (chunks.size(2) - 1)  # length of the last chunk, without padding
        last = _complex(_per_channel(chunks[:, :, -1:, :rest], system.write[:, chunk - rest :])).squeeze(2)
        return y.flatten(2)[..., :time], system.powers[:, None, :, rest] * initial[-1] + last

    def _system(self, chunk: int, dtype: torch.dtype) -> _Chunk:
        """Discretize, and return the recurrence over `chunk` positions; the channels of both directions are stacked."""
        decay, frequency, readout = (p.to(dtype).flatten(0, 1) for p in (self.log_decay, self.frequency, self.readout))
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
    """Return the initial Im A (section 4): πn for `linear`, N/π (N / (2n + 1) - 1) for `inverse`, N = 2 · states."""
    n = torch.arange(states, dtype=torch.float64)
    if start == "linear":
        return (math.pi * n).float()
    return (2 * states / math.pi * (2 * states / (2 * n + 1) - 1)).float()


def _per_channel(x: Tensor, matrices: Tensor) -> Tensor:
    """Multiply x (channel, batch, chunks, n) by the matrix of each channel, (channel, n, m)."""
    return (x.flatten(1, 2) @ matrices).unflatten(1, x.shape[1:3])


def _real(x: Tensor) -> Tensor:
    return torch.cat([x.real, x.imag], dim=-1)


def _complex(x: Tensor) -> Tensor:
    real, imaginary = x.chunk(2, dim=-1)
    return torch.complex(real, imaginary)
