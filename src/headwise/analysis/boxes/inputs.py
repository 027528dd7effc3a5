"""The steps before the first layer: token, embedding and positional encoding (sections 3.4 and 3.5)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headwise.analysis.boxes.places import Place
from headwise.analysis.boxes.recording import Recorded
from headwise.analysis.boxes.steps import Grid, Step, Vector, floats
from headwise.analysis.terminal import plain
from headwise.nn.positions import AttentionPositions, position_encoding

MAPPED = 32  # positions in the map of the encoding, unless the text is longer


def embedding_steps(recorded: Recorded, place: Place, position: int) -> list[Step]:
    """Return token → row of the embedding table → × √d_model."""
    model, side = recorded.model, recorded.sides[place.stack]
    table = (model.source_embedding if place.stack == "encoder" else model.target_embedding).weight
    size, d_model = table.shape
    token = side.ids[position]
    row = recorded.embedded(place.stack).given[position]
    shared = {
        "all": ", which the encoder, the decoder and the output projection share",
        "target": ", which the decoder and the output projection share",
        "none": "",
    }[model.config.share_embeddings]
    if place.stack == "encoder" and model.config.share_embeddings == "target":
        shared = ""
    embedded = Vector("e", floats(row))
    steps = [
        Step(
            "token",
            "e = E_t",
            f"{plain(side.pieces[position])!r} is token {token}. Its embedding is row {token} of the table E of "
            f"{size:,} tokens by {d_model} numbers{shared}.",
            (embedded,),
            facts={"token": token},
        )
    ]
    if not model.config.scale_embeddings:
        return steps
    scale = math.sqrt(d_model)
    sentence = f"Each number is multiplied by √{d_model} = {scale:.4f}."
    scaled = Vector("√d_{model} e", floats(row * scale))
    return [
        *steps,
        Step("× √d_{model}", "√d_{model} e", sentence, (embedded, scaled), facts={"√d_model": scale}),
    ]


def position_steps(recorded: Recorded, place: Place, position: int) -> list[Step]:
    """Return the map of the encoding and x = √d_model e + PE; one step if nothing is added."""
    model, call = recorded.model, recorded.embedded(place.stack)
    scaled, x = call.given[position] * model.positions.scale, call.returned[position]
    before = Vector("√d_{model} e" if model.config.scale_embeddings else "e", floats(scaled))
    kind = model.config.positions
    if model.positions.table is None:
        return [Step("nothing added", f"x = {before.label}", _inside(kind), (before, Vector("x", floats(x))))]
    pieces = recorded.sides[place.stack].pieces
    table = model.positions.table.detach().float().cpu()
    row = Vector("PE", floats(table[position]))
    formula = {"sinusoidal": "PE_{pos,2i} = sin(pos / 10000^{2i/d})", "learned": "PE = P_{pos}"}.get(
        kind, f"PE = {kind}(pos)"
    )
    source = (
        "learned in training" if kind == "learned" else "a sine or cosine of the position in each dimension"
    )
    map_step = Step(
        "PE",
        formula,
        f"The encoding is a table with a row for each position, {source}. {plain(pieces[position])!r} has row "
        f"{position}, counted from 0.",
        (row,),
        (_map(table, len(pieces), position),),
        {"pos": position},
    )
    share = float(table[position].norm() / max(1e-12, scaled.norm()))
    sentence = f"The two are added. The encoding's length is {share:.2f} times that of the scaled embedding."
    return [
        map_step,
        Step("+ PE", f"x = {before.label} + PE", sentence, (before, row, Vector("x", floats(x)))),
    ]


def _map(table: Tensor, tokens: int, position: int) -> Grid:
    rows = table[: max(tokens, MAPPED)]
    names = tuple(str(number) for number in range(len(rows)))
    return Grid("PE", floats(rows), names, marked=position)


def _inside(kind: str) -> str:
    """Say what a model without an additive encoding does instead."""
    inside = position_encoding(kind).inside
    if inside is None:
        return "This model adds no positional encoding: without one, attention doesn't depend on the order of tokens."
    acts = (
        "rotate queries and keys"
        if "rotation" in inside.needs
        else "change the scores by the distance of query and key"
    )
    return f"This model adds no positional encoding: {kind} positions {acts} inside self-attention."


def rotated(recorded: Recorded, place: Place, x: Tensor) -> Tensor | None:
    """Return queries (heads, time, d_k) as rotary positions rotate them; None where nothing is rotated."""
    inside = position_encoding(recorded.model.config.positions).inside
    if inside is None or "rotation" not in inside.needs or place.module.endswith("cross_attention"):
        return None
    positions = recorded.model.get_submodule(f"{place.module}.positions")
    assert isinstance(positions, AttentionPositions)
    with torch.inference_mode():
        return positions.rotate(x[None], 0)[0]
