"""The steps before the first layer: token or patch, embedding and positional encoding (sections 3.4 and 3.5)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headwise.analysis.boxes.layers import normalization_steps
from headwise.analysis.boxes.steps import Grid, Step, Vector, floats
from headwise.analysis.boxes.structure import BoxPlace, Structure
from headwise.analysis.boxes.tensors import BoxTensors
from headwise.analysis.terminal import plain
from headwise.models.single import BertEmbedding
from headwise.models.transformer import InputEmbedding
from headwise.nn.positions import position_encoding
from headwise.nn.recording import Call

MAPPED = 32  # positions in the map of the encoding, unless the text is longer


def embedding_steps(recorded: BoxTensors, place: BoxPlace, position: int) -> list[Step]:
    """Return token → row of the embedding table → × √d_model."""
    structure, side = recorded.structure, recorded.forward.sides[place.stack]
    table = structure.model.get_submodule(place.modules.embedding).weight
    assert isinstance(table, Tensor)
    token = side.ids[position]
    row = recorded.embedded(place.modules).given[position]
    embedded = Vector("e", floats(row))
    step = Step(
        "token",
        "e = E_t",
        f"{plain(side.pieces[position])!r} is token {token}. Its embedding is row {token} of the table E of "
        f"{len(table):,} tokens by {len(row)} numbers{_sharing(structure, place)}.",
        (embedded,),
        facts={"token": token},
    )
    return [step, *_scaled(structure, embedded)]


def patch_steps(recorded: BoxTensors, place: BoxPlace, position: int) -> list[Step]:
    """Return the pixels of a patch → x E + b, or the class token's learned vector; → × √d_model."""
    structure, vision = recorded.structure, recorded.structure.vision
    assert vision is not None
    embedded = Vector("e", floats(recorded.embedded(place.modules).given[position]))
    patch = position if vision.class_token is None else position - 1
    if patch < 0:
        sentence = "The class token is a learned vector in front of the patches; the classifier reads its place."
        step = Step("class token", "e = x_{class}", sentence, (embedded,))
    else:
        pixels = recorded.call(place.modules.embedding).given[patch]
        row, column = divmod(patch, vision.grid[1])
        step = Step(
            "patch",
            "e = x E + b",
            f"The patch in row {row + 1}, column {column + 1} has {vision.side} × {vision.side} pixels: {len(pixels)} "
            f"normalized numbers x, channel by channel and row by row. A learned linear map makes "
            f"{len(embedded.values)} numbers of them.",
            (Vector("x", floats(pixels)), embedded),
            facts={"patch": patch + 1},
        )
    return [step, *_scaled(structure, embedded)]


def _sharing(structure: Structure, place: BoxPlace) -> str:
    """Say with what the table of a stack is shared."""
    if structure.sharing == "target" and place.stack == "encoder":
        return ""
    return {
        "all": ", which the encoder, the decoder and the output projection share",
        "target": ", which the decoder and the output projection share",
        "one": ", which the output projection shares",
        "none": "",
    }[structure.sharing]


def _scaled(structure: Structure, embedded: Vector) -> list[Step]:
    if not structure.config.scale_embeddings:
        return []
    scale = math.sqrt(structure.config.d_model)
    sentence = f"Each number is multiplied by √{structure.config.d_model} = {scale:.4f}."
    scaled = Vector("√d_{model} e", floats(embedded.values * scale))
    return [Step("× √d_{model}", "√d_{model} e", sentence, (embedded, scaled), facts={"√d_model": scale})]


def position_steps(recorded: BoxTensors, place: BoxPlace, position: int) -> list[Step]:
    """Return the map of the encoding, x = √d_model e + PE, and BERT's segment and normalization where they are."""
    structure, call = recorded.structure, recorded.embedded(place.modules)
    module = structure.input_embedding(place.modules)
    label = "√d_{model} e" if structure.config.scale_embeddings else "e"
    before = Vector(label, floats(call.given[position] * module.scale))
    norm = f"{place.modules.positions}.norm"
    total = recorded.call(norm).given if structure.config.embedding_norm else call.returned
    segments = module.segments if isinstance(module, BertEmbedding) else None
    if segments is None:
        steps = _table_steps(recorded, place, position, before, Vector("x", floats(total[position])))
    else:
        segment = segments.weight[0].detach().float().cpu()
        encoding = 0.0 if call.table is None else call.table[position]
        u = Vector("u", floats(call.given[position] * module.scale + encoding))
        steps = _table_steps(recorded, place, position, before, u)
        sentence = "The embedding of the segment is added: that of the first text, as there is one only."
        vectors = (u, Vector("S_0", floats(segment)), Vector("x", floats(total[position])))
        steps.append(Step("+ segment", "x = u + S_0", sentence, vectors))
    if structure.config.embedding_norm:
        steps += normalization_steps(recorded, norm, position, "x")
    return steps


def _table_steps(recorded: BoxTensors, place: BoxPlace, position: int, before: Vector, x: Vector) -> list[Step]:
    """Return the steps from the embedding to x, its sum with the table, or one that says why nothing is added."""
    structure, call = recorded.structure, recorded.embedded(place.modules)
    module, kind = structure.input_embedding(place.modules), structure.config.positions
    if call.table is None:
        inside = _off_inside(recorded, place) if module.table is None else "Positions are switched off"
        sentence = f"{inside}: the tokens have no order." if inside else _inside(kind)
        return [Step("nothing added", f"{x.label} = {before.label}", sentence, (before, x))]
    pieces = recorded.forward.sides[place.stack].pieces
    number = _number_of(module, call, position)
    table = module.table
    assert table is not None
    shown = table.detach().float().cpu()
    row, rows = Vector("PE", floats(shown[number])), shown[: max(len(pieces), MAPPED)]
    formula = {"sinusoidal": "PE_{pos,2i} = sin(pos / 10000^{2i/d})", "learned": "PE = P_{pos}"}.get(
        kind, f"PE = {kind}(pos)"
    )
    source = "learned in training" if kind == "learned" else "a sine or cosine of the position in each dimension"
    shuffled = "" if number == position else f" Positions are shuffled: its own would be row {position}."
    map_step = Step(
        "PE",
        formula,
        f"The encoding is a table with a row for each position, {source}. {plain(pieces[position])!r} has row "
        f"{number}, counted from 0.{shuffled}",
        (row,),
        (Grid("PE", floats(rows), tuple(map(str, range(len(rows)))), marked=number),),
        {"pos": number},
    )
    share = float(shown[number].norm() / max(1e-12, float(torch.from_numpy(before.values).norm())))
    sentence = f"The two are added. The encoding's length is {share:.2f} times that of the scaled embedding."
    return [map_step, Step("+ PE", f"{x.label} = {before.label} + PE", sentence, (before, row, x))]


def _number_of(module: InputEmbedding, call: Call, position: int) -> int:
    """Return the row of the trained table that a token got: its position, unless an intervention shuffled them."""
    assert call.table is not None
    assert module.table is not None
    same = (module.table.detach().float().cpu() == call.table[position]).all(1)
    return position if bool(same[position]) else int(same.nonzero()[0, 0])


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


def _off_inside(recorded: BoxTensors, place: BoxPlace) -> str:
    """Say that positions inside the stack's attention are switched off, if they are."""
    inside = [name for name in recorded.forward.off if name.endswith(".positions")]
    off = any(name.startswith(f"{place.modules.layers}.") for name in inside)
    return f"The {recorded.structure.config.positions} positions are switched off" if off else ""


def rotated(recorded: BoxTensors, place: BoxPlace) -> bool:
    """Whether positions inside this attention rotate its queries and keys."""
    inside = position_encoding(recorded.structure.config.positions).inside
    if inside is None or "rotation" not in inside.needs or place.reads != place.stack:
        return False
    return f"{place.module}.positions" not in recorded.forward.off
