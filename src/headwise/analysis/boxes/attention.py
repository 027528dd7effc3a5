"""The steps of a multi-head attention with all its heads (section 3.2.2).

The products of one head and one key are in `headwise.analysis.products`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headwise.analysis.boxes.inputs import rotated
from headwise.analysis.boxes.places import Place
from headwise.analysis.boxes.recording import Recorded
from headwise.analysis.boxes.steps import Floats, Grid, Step, Vector, floats
from headwise.analysis.terminal import plain
from headwise.errors import ConfigError
from headwise.nn.attention import attention_kind, attention_weights
from headwise.nn.multihead import Attended, MultiHeadAttention


def attention_steps(recorded: Recorded, place: Place, position: int) -> list[Step]:
    """Return x → q, k, v → weights of every head → concatenation → W^O.

    Raises `ConfigError` for a layer without attention weights.
    """
    attention = recorded.model.get_submodule(place.module)
    if not isinstance(attention, MultiHeadAttention):
        found = recorded.model.config.attention
        raise ConfigError(f"box: expected multi-head attention in {place.name}, found a {found} layer")
    attended = recorded.attended[place.module]
    cross = place.module.endswith("cross_attention")
    pieces = recorded.sides["encoder" if cross else place.stack].pieces
    x = Vector("x", floats(recorded.read(place)[position]))
    heads = attended.q.size(1)
    return [
        _query(recorded, place, attention, x, position),
        _keys_and_values(recorded, place, attended, pieces, cross=cross),
        _weights(attention, attended, pieces, position),
        Step(
            "concat",
            "Concat(head_1, …, head_h)",
            f"Each of the {heads} heads sums the values by its own weights, Σ α v; the {heads} vectors of "
            f"{attention.value_size} numbers are joined.{_added(attention)}",
            (Vector("heads", _joined(attended.heads, position)),),
        ),
        Step(
            "W^O",
            "out = Concat(head_1, …, head_h) W^O" + _bias(attention),
            f"W^O mixes the heads: {heads * attention.value_size} numbers become {attention.output.out_features}.",
            (
                Vector("heads", _joined(attended.heads, position)),
                Vector("out", floats(recorded.written(place)[position])),
            ),
        ),
    ]


def _query(recorded: Recorded, place: Place, attention: MultiHeadAttention, x: Vector, position: int) -> Step:
    q = Vector("q", _joined(recorded.attended[place.module].q, position))
    sentence = f"The queries of all {attention.heads} heads, {attention.key_size} numbers each, side by side."
    with torch.inference_mode():
        projected = attention.query(recorded.read(place).to(attention.query.weight.device)).float()
    split = projected.unflatten(-1, (attention.heads, -1)).transpose(0, 1)  # (heads, time, d_k)
    if rotated(recorded, place, split) is None:
        return Step("W^Q", "q = x W^Q" + _bias(attention), sentence, (x, q))
    before = Vector("x W^Q", floats(projected[position].cpu()))
    kind = recorded.model.config.positions
    sentence += f" The {kind} positions rotate each pair of numbers by an angle that grows with the position."
    return Step("W^Q", "q = rotated x W^Q" + _bias(attention), sentence, (x, before, q))


def _keys_and_values(
    recorded: Recorded, place: Place, attended: Attended, pieces: tuple[str, ...], *, cross: bool
) -> Step:
    read = recorded.memory if cross else recorded.read(place)
    config = recorded.model.config
    groups = config.key_value_heads or config.heads
    turned = "rotated " * (rotated(recorded, place, attended.q[0]) is not None)
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
        f"k = {turned}x W^K, v = x W^V",
        f"Each of the {len(pieces)} tokens has a key and a value in every head, from {origin}.{shared}",
        grids=grids,
    )


def _weights(
    attention: MultiHeadAttention, attended: Attended, pieces: tuple[str, ...], position: int
) -> Step:
    q, k = attended.q[0, :, position].float().cpu(), attended.k[0].float().cpu()
    scale = math.sqrt(q.size(1))
    weights = attended.weights[0, :, position].float().cpu()  # (heads, keys)
    rows = tuple(f"head {head + 1}" for head in range(len(weights)))
    best = [pieces[key] for key in weights.argmax(1).tolist()]
    largest = ", ".join(
        f"{name}: {plain(piece)!r} {float(row.max()):.2f}"
        for name, piece, row in zip(rows, best, weights, strict=True)
    )
    used = Grid("α", floats(weights), rows, pieces)
    sentence = f"The largest weights are {largest}."
    if attention_kind(attention.kind).weights is not attention_weights:
        return Step(attention.kind, f"α by {attention.kind} attention", sentence, grids=(used,))
    scores = torch.einsum("hd,hkd->hk", q, k) / scale
    bias = _of_query(attended.bias, attended, position)
    if bias is not None:
        scores = scores + bias
    mask = _of_query(attended.mask, attended, position)
    hidden = 0 if mask is None else int((~mask[0].bool()).sum())
    scores = scores if mask is None else scores.masked_fill(~mask.bool(), -torch.inf)
    shown = Grid("s", floats(scores), rows, pieces)
    formula = "α = softmax(q k^T / √d_k" + (" + bias)" if bias is not None else ")")
    masked = f" {hidden} of {len(pieces)} keys are masked." if hidden else ""
    return Step(
        "softmax",
        formula,
        f"Scores are q · k / {scale:.4f}; each head's weights sum to 1. {sentence}{masked}",
        grids=(shown, used),
        facts={"√d_k": scale, "masked keys": hidden},
    )


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
