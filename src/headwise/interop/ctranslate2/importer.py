"""Import of CTranslate2 directories of a Transformer, in any of its precisions; CTranslate2 isn't needed.

int8 matrices stay in int8, as they have one scale for each row there, too. Other types become float32.
"""

from __future__ import annotations

from collections.abc import Callable
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
from headwise.interop.ctranslate2.layout import (
    POSITIONS,
    PROJECTION,
    SIDES,
    TARGET_EMBEDDING,
    embeddings,
    linear_layers,
    norms,
)
from headwise.interop.ctranslate2.vocabulary import read_settings, read_text
from headwise.interop.pieces import Rows
from headwise.interop.reading import assembled

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
    tables = [POSITIONS.format(side=side) for side in SIDES]
    positions, table = _read_positions(file, tables, shape_of(file, TARGET_EMBEDDING, 2)[1])
    model = read_model(
        file,
        share=_shared(file, joint=text.joint),
        positions=positions,
        max_length=len(table),
        # Marian reads the end symbol of the source, which the tokenizer of transformers adds.
        source_end=settings.add_source_eos or empty,
        epsilon=settings.layer_norm_epsilon,
    )
    model.logit_bias = model.logit_bias or bool(rows[-1].never)
    parameters = _Parameters(file, model)
    parameters.take_layers()
    parameters.take_embeddings(rows)
    if positions == "learned":
        parameters.tensors["positions.table"] = lambda: table
    parameters.check_rest({*tables} & file.variables.keys())
    notes = _notes(model, stored_positions=tables[0] in file.variables)
    imported = assembled(model, DecodingConfig(), text, parameters.tensors, notes)
    return replace(imported, quantized=frozenset(parameters.quantized))


def _shared(file: ModelFile, *, joint: bool) -> str:
    """Return which embeddings are the same matrix; all can be where there is one vocabulary."""
    output = f"{PROJECTION}/weight"
    if not _equal(file, TARGET_EMBEDDING, output):
        return "none"
    return "all" if joint and _equal(file, TARGET_EMBEDDING, source_embedding(file)) else "target"


def _equal(file: ModelFile, *names: str) -> bool:
    """Whether two matrices, with their scales if they have some, are the same."""
    shapes = [shape_of(file, name, 2) for name in names]
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


class _Parameters:
    """Collector of the parameters of a model, which marks the variables that it has used.

    Attributes:
        tensors: the parameters by name.
        quantized: names of those that are stored in int8.
    """

    def __init__(self, file: ModelFile, model: ModelConfig) -> None:
        self._file, self._model = file, model
        self._used: set[str] = set()
        self.tensors: dict[str, Callable[[], Array]] = {}
        self.quantized: set[str] = set()

    def take_layers(self) -> None:
        """Take the linear layers and normalizations; raises `CheckpointError` where one is missing or too small."""
        for scope, modules in linear_layers(self._model).items():
            ours = self._model.feed_forward_bias if "/ffn/" in scope else self._model.attention_bias
            for part, dimensions in (("weight", 2), *([("bias", 1)] if ours else [])):
                name = f"{scope}/{part}"
                length = shape_of(self._file, name, dimensions)[0] // len(modules)
                for number, module in enumerate(modules):
                    rows = slice(number * length, (number + 1) * length)
                    self._take(f"{module}.{part}", name, partial(self._file.tensor, name, rows))
        parts = {"gamma": "weight"} | ({"beta": "bias"} if self._model.normalization == "layer" else {})
        for scope, module in norms(self._model).items():
            for theirs, ours in parts.items():
                name = f"{scope}/{theirs}"
                shape_of(self._file, name, 1)
                self._take(f"{module}.{ours}", name, partial(self._file.tensor, name))

    def take_embeddings(self, rows: list[Rows]) -> None:
        """Take the embeddings and the output projection with rows in Headwise's order, and the bias of the logits."""
        source, target, output = embeddings(self._model)
        names = {
            source: source_embedding(self._file),
            target: TARGET_EMBEDDING,
            output: f"{PROJECTION}/weight",
        }
        self._used |= {source_embedding(self._file), TARGET_EMBEDDING, f"{PROJECTION}/weight"}
        for ours, theirs in names.items():
            order = rows[0] if ours == source else rows[-1]
            self._check_rows(theirs, shape_of(self._file, theirs, 2)[0], order)
            self._take(ours, theirs, partial(self._ordered, theirs, order))
        if self._model.logit_bias:
            bias = f"{PROJECTION}/bias"
            if bias in self._file.variables:
                self._check_rows(bias, shape_of(self._file, bias, 1)[0], rows[-1])
            self._used.add(bias)
            self.tensors["logit_bias"] = partial(self._logit_bias, bias, rows[-1])

    def _check_rows(self, name: str, found: int, rows: Rows) -> None:
        """Raise `CheckpointError`, before a variable is read, if it has fewer rows than tokens."""
        if found < rows.needed:
            raise CheckpointError(
                f"{self._file.path}: expected {name} with a row for each of {rows.needed} tokens, found {found}"
            )

    def _take(self, ours: str, theirs: str, read: Callable[[], Array]) -> None:
        self.tensors[ours] = read
        self._used.add(theirs)
        if self._file.variables[theirs].type == "int8":
            self.quantized.add(ours)

    def _ordered(self, name: str, rows: Rows) -> Array:
        return rows.of(self._file.tensor(name), f"{self._file.path}: {name}")

    def _logit_bias(self, name: str, rows: Rows) -> Array:
        """Return the bias of the logits, so low for ids that can't be an output that they don't count."""
        stored = self._file.tensor(name) if name in self._file.variables else None
        bias = rows.logit_bias(stored, f"{self._file.path}: {name}")
        return np.zeros(len(rows.order), np.float32) if bias is None else bias

    def check_rest(self, used: set[str]) -> None:
        """Raise `CheckpointError` for a variable that has an effect and wasn't used."""
        used = used | self._used
        scales = {self._file.scale(name) for name in used if name in self._file.variables}
        for name in sorted(self._file.variables.keys() - used - scales):
            if name not in IGNORED and name.partition("/")[2] not in IGNORED:
                raise CheckpointError(
                    f"{self._file.path}: found the variable {name}, which Headwise has no place for"
                )


def _read_positions(file: ModelFile, names: list[str], d_model: int) -> tuple[str, Array]:
    """Return the kind of positions and their table (max_length, d_model); `names` are the tables of both sides.

    Sinusoids that were rounded become the paper's again.

    Raises `CheckpointError` unless both sides have the same table, or neither has one.
    """
    present = [name for name in names if name in file.variables]
    if not present:
        return "learned", tensor2tensor_sinusoids(_MADE, d_model, start=1)
    if len(present) < len(names):
        raise CheckpointError(f"{file.path}: expected {' and '.join(names)}, found only {present[0]}")
    shapes = [shape_of(file, name, 2) for name in names]
    for name, shape in zip(names, shapes, strict=True):
        if shape[1] != d_model or not shape[0]:
            raise CheckpointError(f"{file.path}: expected {name} of shape (…, {d_model}), found {shape}")
    length = min(shape[0] for shape in shapes)
    tables = [file.tensor(name, slice(length)) for name in names]
    if not np.array_equal(tables[0], tables[1]):
        raise CheckpointError(f"{file.path}: expected {' and '.join(names)} to be equal, found other numbers")
    table = tables[0]
    tolerance = _COARSE if file.variables[names[0]].type == "bfloat16" else _TOLERANCE
    if d_model % 2 == 0 and np.allclose(table, sinusoids(length, d_model), rtol=0, atol=tolerance):
        return "sinusoidal", table
    return ("learned" if bool(table.any()) else "none"), table
