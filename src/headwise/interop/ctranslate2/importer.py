"""Import of CTranslate2 directories of a Transformer, in any of its precisions; CTranslate2 isn't needed.

int8 matrices stay in int8, as they have one scale for each row there, too. Other types become float32.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from headwise.config import DecodingConfig, ModelConfig
from headwise.config.model import LARGEST_TABLE
from headwise.engine.native.positions import sinusoids, tensor2tensor_sinusoids
from headwise.errors import CheckpointError
from headwise.interop.base import Array, Imported, assembled, make_config
from headwise.interop.ctranslate2.binary import ModelFile
from headwise.interop.ctranslate2.layout import (
    ACTIVATIONS,
    LOGIT_BIAS,
    POSITIONS,
    PROJECTION,
    SIDES,
    TARGET_EMBEDDING,
    table,
)
from headwise.interop.ctranslate2.vocabulary import read_settings, read_text
from headwise.interop.pieces import Rows
from headwise.interop.table import Change, Left, Read

# Positions of a table that CTranslate2 would make (`src/layers/common.cc`): OpenNMT-tf's sinusoids, from position 1 on.
_MADE = 512  # Headwise's default of model.max_length
# OpenNMT-py computes sinusoids in float32: at position 5,000 they are off by 3e-4. bfloat16 has 8 bits.
_TOLERANCE, _COARSE = 1e-3, 5e-3
_SPECIFICATION, _REVISIONS = "TransformerSpec", range(3, 8)
_ACTIVATIONS = tuple(ACTIVATIONS)
_LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/")
_OFF = ("multi_query_attention", "alibi")  # attributes that Headwise's model hasn't
# Attributes of a side or of the model that are read elsewhere, or have no effect on a translation.
_IGNORED = {
    *("unk_token", "bos_token", "eos_token", "with_source_bos", "with_source_eos", "with_target_bos"),
    *("user_decoder_start_tokens", "alignment_layer", "alignment_heads", "embeddings_merge", *_OFF),
    *("alibi_use_positive_positions", "scale_alibi", "num_heads", "pre_norm", "activation"),
    *("scale_embeddings", "embeddings/multiply_by_sqrt_depth", "start_from_zero_embedding"),
}


def recognizes(source: Path) -> bool:
    """Whether a source is a directory with a model.bin."""
    return (source / "model.bin").is_file()


def read(source: Path, models: tuple[bytes, bytes] | None = None, *, target_language: str = "") -> Imported:
    """Read a CTranslate2 directory; `models` are its SentencePiece models, those in the directory unless given.

    `target_language` is a token with which every translation begins, if it is in the vocabulary. Raises
    `CheckpointError` for a damaged directory, and for what Headwise can't express.
    """
    file = ModelFile(source / "model.bin")
    _check_specification(file)
    settings = read_settings(source, file)
    empty = bool(file.number("decoder/start_from_zero_embedding"))  # the first input, as in Marian
    text, rows = read_text(source, settings, models, starts_empty=empty, target_language=target_language)
    positions, encodings = _read_positions(file, _shape_of(file, TARGET_EMBEDDING)[1])
    model = _model(
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


def _check_specification(file: ModelFile) -> None:
    """Raise `CheckpointError` unless the file is a Transformer in a layout that is known."""
    name, revision = file.specification
    if name != _SPECIFICATION or revision not in _REVISIONS:
        raise CheckpointError(
            f"{file.path}: expected a {_SPECIFICATION} of revision {_REVISIONS[0]} to {_REVISIONS[-1]}, "
            f"found {name[:60]} of revision {revision}"
        )


def _source_embedding(file: ModelFile) -> str:
    """Return the name of the source embedding, which was another one before features."""
    names = ("encoder/embeddings_0/weight", "encoder/embeddings/weight")
    return next((name for name in names if name in file.variables), names[0])


def _shape_of(file: ModelFile, name: str) -> tuple[int, ...]:
    """Return the shape of a parameter; raises `CheckpointError` where it is missing or isn't of its name's kind."""
    dimensions = 2 if name.endswith(("/weight", "/encodings")) else 1
    if name not in file.variables:
        raise CheckpointError(f"{file.path}: expected a variable {name}, found none of that name")
    variable = file.variables[name]
    if len(variable.shape) != dimensions:
        raise CheckpointError(
            f"{file.path}: expected {name} with {dimensions} dimensions, found shape {variable.shape}"
        )
    if variable.type == "int32" or (dimensions == 1 and variable.type.startswith("int")):
        raise CheckpointError(f"{file.path}: expected {name} in floating point, found {variable.type}")
    return variable.shape


def _model(
    file: ModelFile, *, share: str, positions: str, max_length: int, source_end: bool, epsilon: float | None
) -> ModelConfig:
    """Return the configuration; raises `CheckpointError` for what Headwise can't express."""
    for side in SIDES:
        for name in _OFF:
            if file.number(f"{side}/{name}"):
                raise CheckpointError(f"{file.path}: {side}/{name}: expected it to be off, found it on")
    activation = int(_attribute(file, "activation", 0))
    if not 0 <= activation < len(_ACTIVATIONS):
        raise CheckpointError(
            f"{file.path}: activation: expected 0 to {len(_ACTIVATIONS) - 1}, one of {', '.join(_ACTIVATIONS)}, "
            f"found {activation}"
        )
    first = "encoder/layer_0"
    normalization = "layer" if f"{first}/ffn/layer_norm/beta" in file.variables else "rms"
    d_model = _shape_of(file, TARGET_EMBEDDING)[1]
    return make_config(
        file.path,
        ModelConfig,
        encoder_layers=_layers(file, "encoder"),
        decoder_layers=_layers(file, "decoder"),
        d_model=d_model,
        d_ff=_shape_of(file, f"{first}/ffn/linear_0/weight")[0],
        heads=int(_attribute(file, "num_heads", 8)),
        norm="pre" if _attribute(file, "pre_norm", 1) else "post",
        normalization=normalization,
        norm_epsilon=epsilon or (1e-5 if normalization == "layer" else 1e-6),
        activation=_ACTIVATIONS[activation],
        gated=f"{first}/ffn/linear_0_noact/weight" in file.variables,
        feed_forward_bias=f"{first}/ffn/linear_0/bias" in file.variables,
        attention_bias=f"{first}/self_attention/linear_0/bias" in file.variables,
        logit_bias=LOGIT_BIAS in file.variables,
        positions=positions,
        max_length=max_length,
        share_embeddings=share,
        scale_embeddings=_scaled(file, d_model),
        source_end=source_end,
    )


def _attribute(file: ModelFile, name: str, default: float) -> float:
    """Return an attribute of both sides, or of the model as older files have it; raises `CheckpointError`."""
    numbers = [[file.number(f"{side}/{name}"), file.number(name), default] for side in SIDES]
    found = [next(number for number in each if number is not None) for each in numbers]
    if found[0] != found[1]:
        raise CheckpointError(
            f"{file.path}: {name}: expected the same of encoder and decoder, found {found[0]:g} and {found[1]:g}"
        )
    return found[0]


def _layers(file: ModelFile, side: str) -> int:
    """Return the number of layers; one that is missing between others is found when its variables are read."""
    matches = (_LAYER.match(name) for name in file.variables)
    return len({match[2] for match in matches if match and match[1] == side})


def _scaled(file: ModelFile, d_model: int) -> bool:
    """Whether embeddings are multiplied by √d_model; raises `CheckpointError` for another factor."""
    factors = [_factor(file, side, math.sqrt(d_model)) for side in SIDES]
    scaled = math.isclose(factors[0], math.sqrt(d_model), rel_tol=1e-5)
    if factors[0] != factors[1] or not (scaled or factors[0] == 1):
        raise CheckpointError(
            f"{file.path}: scale_embeddings: expected a factor of 1 or √{d_model} on both sides, "
            f"found {factors[0]:g} and {factors[1]:g}"
        )
    return scaled


def _factor(file: ModelFile, side: str, root: float) -> float:
    """Return the factor of one side's embeddings: a flag for the root of d_model, or the number itself."""
    for name in (f"{side}/scale_embeddings", f"{side}/embeddings/multiply_by_sqrt_depth"):
        value = file.number(name)
        if value is not None:
            return value if file.variables[name].type != "int8" else root if value else 1.0
    return root


def _shared(file: ModelFile, *, joint: bool) -> str:
    """Return which embeddings are the same matrix; all can be where there is one vocabulary."""
    if not _equal(file, TARGET_EMBEDDING, PROJECTION):
        return "none"
    return "all" if joint and _equal(file, TARGET_EMBEDDING, _source_embedding(file)) else "target"


def _equal(file: ModelFile, *names: str) -> bool:
    """Whether two matrices, with their scales if they have some, are the same."""
    shapes = [_shape_of(file, name) for name in names]
    first, second = (file.variables[name] for name in names)
    if first is second:
        return True
    if shapes[0] != shapes[1] or first.type != second.type:
        return False
    scales = [file.scale(name) for name in names]
    pairs = [names, scales] if all(scale in file.variables for scale in scales) else [names]
    return all(np.array_equal(file.array(one), file.array(other)) for one, other in pairs)


def _notes(model: ModelConfig, *, stored_positions: bool) -> list[str]:
    notes = ["decoding.alpha=0.6: Headwise divides by ((5 + |Y|) / 6)^alpha, CTranslate2 by |Y|^length_penalty"]
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
        found = _shape_of(file, theirs)[0] if theirs in file.variables else order.needed
        if found < order.needed:
            raise CheckpointError(
                f"{file.path}: expected {theirs} with a row for each of {order.needed} tokens, found {found}"
            )
        if ours == "logit_bias":
            return Change(partial(order.logit_bias, place=f"{file.path}: {LOGIT_BIAS}"))
        return order.into(file.path)(theirs)

    described, quantized = table(model, _source_embedding(file), words), set[str]()
    for row in described:
        if row.theirs in file.variables:
            _shape_of(file, row.theirs)
            quantized.update(row.names if file.variables[row.theirs].type == "int8" else ())
    used = {name for name in file.variables if not {name, name.partition("/")[2]} & _IGNORED}
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


def _read_positions(file: ModelFile, d_model: int) -> tuple[str, Array]:
    """Return the kind of positions and their table (max_length, d_model).

    Sinusoids that were rounded become the paper's again. Raises `CheckpointError` unless both sides have the same
    table, or neither has one.
    """
    present = [name for name in POSITIONS if name in file.variables]
    if not present:
        if not 0 < d_model <= LARGEST_TABLE // _MADE:  # also of an embedding without rows, which needs no bytes
            raise CheckpointError(
                f"{file.path}: expected {TARGET_EMBEDDING} of 1 to {LARGEST_TABLE // _MADE} columns, found {d_model}"
            )
        return "learned", tensor2tensor_sinusoids(_MADE, d_model, start=1)
    if len(present) < len(POSITIONS):
        raise CheckpointError(f"{file.path}: expected {' and '.join(POSITIONS)}, found only {present[0]}")
    shapes = [_shape_of(file, name) for name in POSITIONS]
    for name, shape in zip(POSITIONS, shapes, strict=True):
        if shape[1] != d_model or not shape[0]:
            raise CheckpointError(f"{file.path}: expected {name} of shape (…, {d_model}), found {shape}")
    length = min(shape[0] for shape in shapes)
    tables = [file.tensor(name)[:length] for name in POSITIONS]
    if not np.array_equal(tables[0], tables[1]):
        raise CheckpointError(f"{file.path}: expected {' and '.join(POSITIONS)} to be equal, found other numbers")
    table = tables[0]
    tolerance = _COARSE if file.variables[POSITIONS[0]].type == "bfloat16" else _TOLERANCE
    if d_model % 2 == 0 and np.allclose(table, sinusoids(length, d_model), rtol=0, atol=tolerance):
        return "sinusoidal", table
    return ("learned" if bool(table.any()) else "none"), table
