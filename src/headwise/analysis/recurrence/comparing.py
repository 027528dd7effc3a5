"""Comparison of recurrent networks, attention and a run's own encoder on one sentence.

What is compared is how much of an early position arrives at a late one: in the gradient, and in the states.

Shapes: x (time, width) are the inputs of a network, states (time, size).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise import bounds
from headwise.analysis.interventions import Intervention
from headwise.analysis.recurrence.networks import (
    REMEMBERED,
    GatedRecurrence,
    OwnEncoder,
    SimpleRecurrence,
    attention_layer,
)
from headwise.analysis.terminal import plain, table_lines
from headwise.analysis.trace import Side
from headwise.analysis.tracer import Tracer
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.errors import ConfigError
from headwise.models.decoder_only import DecoderOnly
from headwise.models.embedded import EmbeddedSeq2Seq
from headwise.models.encoder_only import EncoderOnly
from headwise.models.output_heads import HeadedEncoder
from headwise.models.recurrent import RecurrentSeq2Seq

Network = Callable[[Tensor], Tensor]  # x (rows, time, width) -> states (rows, time, size)
Vector = NDArray[np.float64]

SHOWN = 48  # features of a state
WIDEST = 128  # of the networks with random weights
_SEED = 1
SHRINKING, STRETCHING = 0.8, 2.0
_MOST_ROWS = 128  # of the Jacobian; of larger ones, so many random projections are taken


def gradient_norms(network: Network, x: Tensor) -> Vector:
    """Return ‖∂h_T/∂x_{T-k}‖, the Frobenius norm, for the last state h_T and each distance k = 0, 1, …, T - 1.

    Row i of the Jacobian is the gradient of the state's feature i, computed for a copy of the sentence of its own. A
    state of more than 128 features is projected onto 128 random orthogonal directions, for which the squared norm is
    right on average.
    """
    with torch.enable_grad():
        size = _size(network, x)
        rows = min(size, _MOST_ROWS)
        directions = torch.eye(size)
        if rows < size:
            generator = torch.Generator().manual_seed(0)
            drawn, _ = torch.linalg.qr(torch.randn(size, rows, generator=generator))
            directions = drawn.T * (size / rows) ** 0.5
        copies = x.expand(rows, -1, -1).clone().requires_grad_()
        last = network(copies)[:, -1]
        if not last.requires_grad:  # an intervention may leave nothing of the inputs
            return np.zeros(x.size(-2))
        (gradient,) = torch.autograd.grad((last * directions.to(last)).sum(), copies)
    norms = gradient.double().square().sum((0, 2)).sqrt()  # (time,)
    return norms.flip(0).cpu().numpy()


@torch.no_grad()
def shares_of_first(network: Network, x: Tensor) -> Vector:
    """Return what each state still has of the first input: ‖h_t(x) - h_t(x without x_1)‖, relative to t = 1; (time,).

    The first input is replaced by zeros.
    """
    without = x.clone()
    without[0] = 0
    states = network(torch.stack([x, without])).double()
    differences = (states[0] - states[1]).norm(dim=1)
    return (differences / differences[0].clamp_min(torch.finfo(torch.float64).tiny)).cpu().numpy()


@torch.no_grad()
def states_of(network: Network, x: Tensor) -> NDArray[np.float32]:
    """Return the states (time, size)."""
    return network(x[None])[0].float().cpu().numpy()


@torch.no_grad()
def _size(network: Network, x: Tensor) -> int:
    return network(x[None]).size(2)


@dataclass(frozen=True)
class Compared:
    """One network on one sentence of n tokens.

    Attributes:
        name: `own`, `shrinking`, `stretching`, `gru`, `lstm` or `attention`.
        sequential: whether a state is computed from the one before, so that distance k is a path of k steps.
        states: (n, features), the first `SHOWN` features.
        kept: what each state has of the first token, (n,); see `shares_of_first`.
        gradient: norm of the gradient by distance, relative to distance 0; see `gradient_norms`. Of `own` over the
            sentence, of the others over the sentence repeated up to `REMEMBERED` positions.
    """

    name: str
    title: str
    about: str
    sequential: bool
    states: NDArray[np.float32]
    kept: Vector
    gradient: Vector


@dataclass(frozen=True)
class RecurrenceComparison:
    """All networks on one sentence; `pieces` are its tokens, `width` that of the networks with random weights."""

    pieces: tuple[str, ...]
    width: int
    radius: float
    backward: bool
    networks: tuple[Compared, ...]


def compare(
    tracer: Tracer,
    text: str,
    radius: float = STRETCHING,
    interventions: Sequence[Intervention] = (),
) -> RecurrenceComparison:
    """Compare on a text: the run's own encoder, and networks with random weights that read the run's embeddings.

    `radius` is the spectral radius of the second recurrent network without gates; the interventions are on the run's
    model. Raises `ConfigError` for a text without tokens, a radius out of range, and as `Tracer.model`.
    """
    if not bounds.LEAST_RADIUS <= radius <= bounds.MOST_RADIUS:
        raise ConfigError(f"radius: expected from {bounds.LEAST_RADIUS} to {bounds.MOST_RADIUS}, found {radius:g}")
    with tracer.model(interventions) as model, torch.random.fork_rng(devices=[]):
        side = _tokens(tracer, text)
        pieces, own = side.pieces, _own_encoder(model, side.ids)
        embedded = own.inputs()
        if own.backward:
            pieces = pieces[::-1]
        torch.manual_seed(_SEED)
        width = min(embedded.size(1), WIDEST)
        x = _unit_size(embedded[:, :width]).cpu()  # (time, width)
        networks = [_compared(own, embedded, embedded, *_about_own(model))]
        for name, title, about, sequential, network in _random_networks(width, radius):
            networks.append(_compared(network, x, _repeated(x), name, title, about, sequential))
    return RecurrenceComparison(pieces, width, radius, own.backward, tuple(networks))


def _compared(
    network: Network, x: Tensor, longer: Tensor, name: str, title: str, about: str, sequential: bool
) -> Compared:
    gradient = gradient_norms(network, longer)
    relative = gradient / max(gradient[0], np.finfo(np.float64).tiny)
    states = states_of(network, x)[:, :SHOWN]
    return Compared(name, title, about, sequential, states, shares_of_first(network, x), relative)


def _random_networks(width: int, radius: float) -> list[tuple[str, str, str, bool, nn.Module]]:
    gates = f"random weights, gates that begin by remembering up to {REMEMBERED} positions"
    simple = "h = tanh(W h + U x), every eigenvalue of W of this magnitude"
    return [
        ("shrinking", f"no gates, radius {SHRINKING:g}", simple, True, SimpleRecurrence(width, SHRINKING)),
        ("stretching", f"no gates, radius {radius:g}", simple, True, SimpleRecurrence(width, radius)),
        ("gru", "GRU", gates, True, GatedRecurrence("gru", width)),
        ("lstm", "LSTM", gates, True, GatedRecurrence("lstm", width)),
        ("attention", "attention", "one layer with random weights", False, attention_layer(width)),
    ]


def _about_own(model: nn.Module) -> tuple[str, str, str, bool]:
    stack = "decoder" if isinstance(model, DecoderOnly) else "encoder"
    about = f"the trained {stack}, all layers, on the sentence as it is"
    return "own", f"this run's {stack}", about, isinstance(model, RecurrentSeq2Seq)


def _own_encoder(model: nn.Module, ids: Sequence[int]) -> OwnEncoder:
    tokens = torch.tensor(ids, device=next(model.parameters()).device)
    if not isinstance(model, EmbeddedSeq2Seq):
        stack = model.encoder if isinstance(model, HeadedEncoder) else model
        if not isinstance(stack, DecoderOnly | EncoderOnly):
            raise ConfigError("recurrence: expected a model with source embeddings, found another")
        return OwnEncoder(model, stack.embedding, tokens)

    def encode(rows: Tensor) -> Tensor:
        return model.encode(rows, torch.ones_like(rows, dtype=torch.bool)).states

    embedding = model.source_embedding
    if isinstance(model, RecurrentSeq2Seq):
        backward = model.options.reading == "backward"
        return OwnEncoder(encode, embedding, tokens, size=model.size, backward=backward)
    return OwnEncoder(encode, embedding, tokens)


def _tokens(tracer: Tracer, text: str) -> Side:
    side, _ = tracer.read(text)
    if len(side.ids) == 1 if isinstance(tracer, TranslationTracer) else not text.strip():
        raise ConfigError("expected a text to look into, found an empty one")
    return side


def _unit_size(x: Tensor) -> Tensor:
    """Scale each position of x (time, width) to a mean square of 1."""
    return x / x.square().mean(-1, keepdim=True).sqrt().clamp_min(1e-12)


def _repeated(x: Tensor) -> Tensor:
    """Repeat a sentence x (time, width) up to `REMEMBERED` positions; a longer one stays as it is."""
    length = max(REMEMBERED, len(x))
    return x[torch.arange(length) % len(x)]


_DISTANCES = (0, 1, 2, 4, 8, 16, 32, 63)


def comparison_lines(found: RecurrenceComparison) -> list[str]:
    """Return the lines of two tables: the gradient by distance, and what each state has of the first token."""
    names = [network.title for network in found.networks]
    gradients = [
        [f"{network.gradient[k]:.1e}" if k < len(network.gradient) else "–" for k in _DISTANCES]
        for network in found.networks
    ]
    lines = [
        "gradient of the last state with respect to the input k positions earlier, relative to k = 0",
        *table_lines(names, [f"k = {k}" for k in _DISTANCES], gradients),
        "",
        f"what is left of the first token{', which is read last in the text,' if found.backward else ''} in each state",
        *table_lines(
            names,
            [plain(piece) for piece in found.pieces],
            [[f"{share:.2f}" for share in n.kept] for n in found.networks],
        ),
        "",
    ]
    lines += [f"{network.title}: {network.about}" for network in found.networks]
    return [*lines, f"networks with random weights have width {found.width}"]
