"""The steps of a multi-head attention with all its heads (section 3.2.2).

The products of one head and one key are in `headwise.analysis.head_arithmetic`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.analysis.boxes.inputs import rotated
from headwise.analysis.boxes.steps import Floats, Grid, Step, Vector, floats
from headwise.analysis.boxes.structure import BoxPlace
from headwise.analysis.boxes.tensors import BoxTensors
from headwise.analysis.head_arithmetic import has_products
from headwise.analysis.terminal import plain
from headwise.errors import ConfigError
from headwise.nn.multihead import Attended, MultiHeadAttention


def attention_steps(recorded: BoxTensors, place: BoxPlace, position: int) -> list[Step]:
    """Return x → q, k, v → weights of every head → concatenation → W^O.

    Raises `ConfigError` for a layer without attention weights.
    """
    attention = recorded.structure.model.get_submodule(place.module)
    if not isinstance(attention, MultiHeadAttention):
        found = recorded.structure.config.attention
        raise ConfigError(f"box: expected multi-head attention in {place.name}, found a {found} layer")
    attended = recorded.attended(place.module)
    heads, joined = attended.q.size(1), Vector("heads", _joined(attended.heads, position))
    return [
        _query(recorded, place, attention, position),
        _keys_and_values(recorded, place, attention),
        *_weights(recorded, place, attention, position),
        Step(
            "concat",
            "Concat(head_1, …, head_h)",
            f"Each of the {heads} heads sums the values by its own weights, Σ α v; the {heads} vectors of "
            f"{attention.value_size} numbers are joined."
            f"{'' if _off(recorded, place) else _added(attention)}",
            (joined,),
        ),
        Step(
            "W^O",
            "out = Concat(head_1, …, head_h) W^O" + _bias(attention),
            f"W^O mixes the heads: {heads * attention.value_size} numbers become {attention.output.out_features}.",
            (joined, Vector("out", floats(recorded.written(place)[position]))),
        ),
    ]


def _query(recorded: BoxTensors, place: BoxPlace, attention: MultiHeadAttention, position: int) -> Step:
    x = Vector("x", floats(recorded.read(place)[position]))
    q = Vector("q", _joined(recorded.attended(place.module).q, position))
    sentence = f"The queries of all {attention.heads} heads, {attention.key_size} numbers each, side by side."
    with torch.inference_mode():
        projected = attention.query(recorded.read(place).to(attention.query.weight.device)).float()
    if not rotated(recorded, place):
        return Step("W^Q", "q = x W^Q" + _bias(attention), sentence + _off(recorded, place), (x, q))
    before = Vector("x W^Q", floats(projected[position].cpu()))
    kind = recorded.structure.config.positions
    sentence += f" The {kind} positions rotate each pair of numbers by an angle that grows with the position."
    return Step("W^Q", "q = rotated x W^Q" + _bias(attention), sentence, (x, before, q))


def _keys_and_values(recorded: BoxTensors, place: BoxPlace, attention: MultiHeadAttention) -> Step:
    attended, pieces = recorded.attended(place.module), recorded.forward.sides[place.reads].pieces
    structure, cross = recorded.structure, place.reads != place.stack
    read = recorded.last(structure.stack("encoder")) if cross else recorded.read(place)
    config = structure.config
    groups = config.groups
    turned = "rotated " * rotated(recorded, place)
    origin = "the encoder's output" if cross else "this sub-layer's input"
    shared = f" Each of {groups} key and value heads serves {config.heads // groups} query heads." * (
        groups < config.heads
    )
    grids = (
        Grid("x", floats(read), pieces, tokens=True),
        Grid("k", _all_joined(attended.k), pieces, tokens=True),
        Grid("v", _all_joined(attended.v), pieces, tokens=True),
    )
    return Step(
        "W^K, W^V",
        f"k = {turned}x W^K{_bias(attention)}, v = x W^V{_bias(attention)}",
        f"Each of the {len(pieces)} tokens has a key and a value in every head, from {origin}.{shared}",
        grids=grids,
    )


@dataclass(frozen=True)
class _Changes:
    """What interventions change in one attention: the scores of all its heads, or the weights after the softmax.

    `scaled` is whether scores are divided by √d_k, and `temperature` what they are divided by besides; `later` are the
    interventions on weights; `unmasked` is whether the causal mask is switched off.
    """

    scaled: bool
    temperature: float
    later: tuple[str, ...]
    unmasked: bool


def _changes(recorded: BoxTensors, place: BoxPlace) -> _Changes:
    part = place.stack if place.reads == place.stack else "cross"
    acting = [
        change
        for change in recorded.forward.interventions
        if change.of_heads and change.part in (None, part) and change.layer in (None, place.layer)
    ]
    unmasked = f"{place.module}.causal" in recorded.forward.off
    unscaled = sum(change.kind == "no-scaling" for change in acting)
    # Each multiplies the scores by √d_k, so that a second one has another formula than the first.
    if unscaled > 1 or any(
        change.kind not in ("no-scaling", "temperature") or change.head is not None for change in acting
    ):
        return _Changes(True, 1.0, tuple(map(str, acting)), unmasked)
    temperature = math.prod(change.temperature or 1.0 for change in acting)
    return _Changes(unscaled == 0, temperature, (), unmasked)


def _weights(recorded: BoxTensors, place: BoxPlace, attention: MultiHeadAttention, position: int) -> list[Step]:
    """Return the softmax of the scores, and what interventions made of its weights."""
    attended, pieces = recorded.attended(place.module), recorded.forward.sides[place.reads].pieces
    changes = _changes(recorded, place)
    used = attended.weights[0, :, position].float().cpu()  # (heads, keys)
    rows = tuple(f"head {head + 1}" for head in range(len(used)))
    if not has_products(attention):
        sentence = _largest(used, rows, pieces) + (f" {_changed(changes)}" if changes.later else "")
        grid = Grid("α", floats(used), rows, pieces)
        return [Step(attention.kind, f"α by {attention.kind} attention", sentence, grids=(grid,))]
    q, k = attended.q[0, :, position].float().cpu(), attended.k[0].float().cpu()
    scale = math.sqrt(q.size(1)) if changes.scaled else 1.0
    scores = torch.einsum("hd,hkd->hk", q, k) / scale
    bias = _of_query(attended.bias, attended, position)
    scores = (scores if bias is None else scores + bias) / changes.temperature
    mask = _of_query(attended.mask, attended, position)
    hidden = 0 if mask is None else int((~mask[0].bool()).sum())
    scores = scores if mask is None else scores.masked_fill(~mask.bool(), -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0.0) if changes.later else used
    shown, computed = Grid("s", floats(scores), rows, pieces), Grid("α", floats(weights), rows, pieces)
    masked = f" {hidden} of {len(pieces)} keys are masked." if hidden else ""
    step = Step(
        "softmax",
        f"α = softmax({_argument(changes, biased=bias is not None)})",
        f"{_scores(changes, scale)} each head's weights sum to 1. {_largest(weights, rows, pieces)}{masked}"
        + " The causal mask is switched off: positions attend to later ones." * changes.unmasked,
        grids=(shown, computed),
        facts={"√d_k": math.sqrt(q.size(1)), "masked keys": hidden}
        | ({} if changes.temperature == 1 else {"T": changes.temperature}),
    )
    if not changes.later:
        return [step]
    replaced = Grid("α'", floats(used), rows, pieces)
    sentence = f"{_changed(changes)} {_largest(used, rows, pieces)}"
    return [step, Step("α'", "α' takes the place of α", sentence, grids=(computed, replaced))]


def _argument(changes: _Changes, *, biased: bool) -> str:
    """Write the argument of the softmax as it was computed."""
    products = "q k^T / √d_k" if changes.scaled else "q k^T"
    if changes.temperature == 1:
        return f"{products} + bias" if biased else products
    return f"({products} + bias) / T" if biased else f"{products} / T"


def _scores(changes: _Changes, scale: float) -> str:
    warmer = "" if changes.temperature == 1 else f", at temperature {changes.temperature:g}"
    if changes.scaled:
        return f"Scores are q · k / {scale:.4f}{warmer};"
    return f"The division by √d_k is switched off: scores are q · k{warmer};"


def _changed(changes: _Changes) -> str:
    return f"Interventions change the weights: {', '.join(changes.later)}."


def _largest(weights: Tensor, rows: tuple[str, ...], pieces: tuple[str, ...]) -> str:
    best = [pieces[key] for key in weights.argmax(1).tolist()]
    largest = ", ".join(
        f"{name}: {plain(piece)!r} {float(row.max()):.2f}" for name, piece, row in zip(rows, best, weights, strict=True)
    )
    return f"The largest weights are {largest}."


def _off(recorded: BoxTensors, place: BoxPlace) -> str:
    """Say that positions inside this attention are switched off, if they are."""
    if f"{place.module}.positions" not in recorded.forward.off:
        return ""
    return f" The {recorded.structure.config.positions} positions are switched off."


def _of_query(full: Tensor | None, attended: Attended, position: int) -> Tensor | None:
    """Return a query's rows (heads, keys) of a tensor broadcastable to (batch, heads, query, key)."""
    if full is None:
        return None
    return full.expand(*torch.broadcast_shapes(full.shape, attended.weights.shape))[0, :, position].cpu()


def _joined(heads: Tensor, position: int) -> Floats:
    """Return (heads · d,) of (1, heads, time, d) at one position."""
    return floats(heads[0, :, position].float().cpu().flatten())


def _all_joined(heads: Tensor) -> Floats:
    """Return (time, heads · d) of (1, heads, time, d)."""
    return floats(heads[0].float().cpu().transpose(0, 1).flatten(1))


def _added(attention: MultiHeadAttention) -> str:
    adds = attention.positions is not None and "weights" in attention.positions.needs
    return " The positions add a vector for each distance to the values." * adds


def _bias(attention: MultiHeadAttention) -> str:
    return "" if attention.query.bias is None else " + b"
