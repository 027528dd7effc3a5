"""Import of CTranslate2 directories of a Transformer, in any of its precisions; CTranslate2 isn't needed.

int8 matrices stay in int8, as they have one scale for each row there, too. Other types become float32.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from headwise.config import DecodingConfig, ModelConfig
from headwise.engine.native.positions import sinusoids, tensor2tensor_sinusoids
from headwise.errors import CheckpointError
from headwise.interop import base
from headwise.interop.base import Array, Imported
from headwise.interop.ctranslate2.attributes import (
    IGNORED,
    check_specification,
    read_model,
    shape_of,
    source_embedding,
    starts_empty,
)
from headwise.interop.ctranslate2.binary import ModelFile
from headwise.interop.ctranslate2.layout import LOGIT_BIAS, POSITIONS, PROJECTION, TARGET_EMBEDDING, table
from headwise.interop.ctranslate2.vocabulary import read_settings, read_text
from headwise.interop.pieces import Rows
from headwise.interop.reading import assembled
from headwise.interop.table import Change, Left, Read

# Positions of a table that CTranslate2 would make (`src/layers/common.cc`): OpenNMT-tf's sinusoids, from position 1 on.
_MADE = 512  # Headwise's default of model.max_length
# OpenNMT-py computes sinusoids in float32: at position 5,000 they are off by 3e-4. bfloat16 has 8 bits.
_TOLERANCE, _COARSE = 1e-3, 5e-3


class Importer(base.Importer):
    """Reader of CTranslate2 directories."""

    def recognizes(self, source: Path) -> bool:  # noqa: D102
        return (source / "model.bin").is_file()

    def read(self, source: Path) -> Imported:  # noqa: D102
        return read_directory(source)


def read_directory(
    source: Path, models: tuple[bytes, bytes] | None = None, *, target_language: str = ""
) -> Imported:
    """Read a CTranslate2 directory; `models` are its SentencePiece models, those in the directory unless given.

    `target_language` is a token with which every translation begins, if it is in the vocabulary. Raises
    `CheckpointError` as `Importer.read`.
    """
    file = ModelFile(source / "model.bin")
    check_specification(file)
    settings = read_settings(source, file)
    empty = starts_empty(file)
    text, rows = read_text(source, settings, models, starts_empty=empty, target_language=target_language)
    positions, encodings = _read_positions(file, shape_of(file, TARGET_EMBEDDING)[1])
    model = read_model(
        file,
        share=_shared(file, joint=text.joint),
        positions=positions,
        max_length=len(encodings),
        # Marian reads the end symbol of the source, which the tokenizer of transformers adds.
        source_end=settings.add_source_eos or empty,
        epsilon=settings.layer_norm_epsilon,
    )
    model.logit_bias = model.logit_bias or bool(rows[-1].never)
    parameters, quantized = _parameters(file, model, rows, encodings)
    notes = _notes(model, stored_positions=POSITIONS[0] in file.variables)
    return replace(assembled(model, DecodingConfig(), text, parameters, notes), quantized=quantized)


def _shared(file: ModelFile, *, joint: bool) -> str:
    """Return which embeddings are the same matrix; all can be where there is one vocabulary."""
    if not _equal(file, TARGET_EMBEDDING, PROJECTION):
        return "none"
    return "all" if joint and _equal(file, TARGET_EMBEDDING, source_embedding(file)) else "target"


def _equal(file: ModelFile, *names: str) -> bool:
    """Whether two matrices, with their scales if they have some, are the same."""
    shapes = [shape_of(file, name) for name in names]
    first, second = (file.variables[name] for name in names)
    if first is second:
        return True
    if shapes[0] != shapes[1] or first.type != second.type:
        return False
    scales = [file.scale(name) for name in names]
    pairs = [names, scales] if all(scale in file.variables for scale in scales) else [names]
    return all(np.array_equal(file.array(one), file.array(other)) for one, other in pairs)


def _notes(model: ModelConfig, *, stored_positions: bool) -> list[str]:
    notes = [
        "decoding.alpha=0.6: Headwise divides by ((5 + |Y|) / 6)^alpha, CTranslate2 by |Y|^length_penalty"
    ]
    if not stored_positions:
        notes.append(
            f"model.max_length={model.max_length}: CTranslate2 makes this model's sinusoids for any length; "
            "here they are a learned table"
        )
    return notes


def _parameters(
    file: ModelFile, model: ModelConfig, rows: list[Rows], encodings: Array
) -> tuple[dict[str, Read], frozenset[str]]:
    """Return the parameters by our names, and the names of those in int8; `encodings` are the table of positions.

    Raises `CheckpointError` before one is read where it is missing, isn't of its kind or has too few rows for the
    tokens, and for a variable that has an effect and no place in the model.
    """

    def words(ours: str, theirs: str) -> Change:
        order = rows[0] if ours == "source_embedding.weight" else rows[-1]
        found = shape_of(file, theirs)[0] if theirs in file.variables else order.needed
        if found < order.needed:
            raise CheckpointError(
                f"{file.path}: expected {theirs} with a row for each of {order.needed} tokens, found {found}"
            )
        if ours == "logit_bias":
            return Change(partial(_logit_bias, file, order))
        return order.into(file.path)(theirs)

    described, quantized = table(model, source_embedding(file), words), set[str]()
    for row in described:
        if row.theirs in file.variables:
            shape_of(file, row.theirs)
            quantized.update(row.names if file.variables[row.theirs].type == "int8" else ())
    used = {name for name in file.variables if not {name, name.partition("/")[2]} & IGNORED}
    reads: dict[str, Read] = dict.fromkeys(POSITIONS, lambda: encodings)
    if model.logit_bias:
        reads[LOGIT_BIAS] = partial(np.zeros, rows[-1].needed, np.float32)
    scales = {file.scale(name) for name in used}
    reads |= {name: partial(file.tensor, name) for name in used - scales - {*POSITIONS}}
    left = Left(file.path, reads, "a variable")
    parameters = left.take_rows(described)
    left.finish()
    if model.positions != "learned":
        del parameters["positions.table"]
    return parameters, frozenset(quantized)


def _logit_bias(file: ModelFile, rows: Rows, stored: Array) -> Array:
    """Return the bias of the logits, so low for ids that can't be an output that they don't count."""
    bias = rows.logit_bias(stored, f"{file.path}: {LOGIT_BIAS}")
    return np.zeros(len(rows.order), np.float32) if bias is None else bias


def _read_positions(file: ModelFile, d_model: int) -> tuple[str, Array]:
    """Return the kind of positions and their table (max_length, d_model).

    Sinusoids that were rounded become the paper's again.

    Raises `CheckpointError` unless both sides have the same table, or neither has one.
    """
    present = [name for name in POSITIONS if name in file.variables]
    if not present:
        return "learned", tensor2tensor_sinusoids(_MADE, d_model, start=1)
    if len(present) < len(POSITIONS):
        raise CheckpointError(f"{file.path}: expected {' and '.join(POSITIONS)}, found only {present[0]}")
    shapes = [shape_of(file, name) for name in POSITIONS]
    for name, shape in zip(POSITIONS, shapes, strict=True):
        if shape[1] != d_model or not shape[0]:
            raise CheckpointError(f"{file.path}: expected {name} of shape (…, {d_model}), found {shape}")
    length = min(shape[0] for shape in shapes)
    tables = [file.tensor(name)[:length] for name in POSITIONS]
    if not np.array_equal(tables[0], tables[1]):
        raise CheckpointError(
            f"{file.path}: expected {' and '.join(POSITIONS)} to be equal, found other numbers"
        )
    table = tables[0]
    tolerance = _COARSE if file.variables[POSITIONS[0]].type == "bfloat16" else _TOLERANCE
    if d_model % 2 == 0 and np.allclose(table, sinusoids(length, d_model), rtol=0, atol=tolerance):
        return "sinusoidal", table
    return ("learned" if bool(table.any()) else "none"), table
