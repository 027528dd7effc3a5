"""Import of Marian's own files, as OPUS publishes them (Junczys-Dowmunt et al. 2018).

A directory has a model in .npz, whose options are inside, vocabularies in .yml or .spm, and for the former
SentencePiece models. Marian's decoder begins with a zero vector, and its sinusoids are tensor2tensor's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np

from headwise.config import DecodingConfig, ModelConfig
from headwise.engine.native.positions import sinusoids, tensor2tensor_sinusoids
from headwise.errors import CheckpointError
from headwise.files import DamagedArchive, opened_zip
from headwise.interop.base import Imported, assembled, make_config
from headwise.interop.marian.npz import Array, npz_arrays
from headwise.interop.marian.options import (
    ACTIVATIONS,
    DecoderOptions,
    ModelOptions,
    decoder_options,
    model_options,
)
from headwise.interop.marian.table import NORM_EPSILON, OPTIONS, OUTPUT, POSITIONS, embeddings, table
from headwise.interop.marian.vocabulary import MarianVocabulary, read_vocabulary
from headwise.interop.pieces import Rows, arranged, make_subwords
from headwise.interop.residual import sines_first
from headwise.interop.table import Change, Left, Read
from headwise.text.tokens.subwords import Subwords, read_file

_LENGTH = 512  # subwords, where the options don't ask for more; Marian has no limit


def recognizes(source: Path) -> bool:
    """Whether a source is a .npz file of Marian, or a directory with one."""
    files = [source] if source.is_file() else sorted(source.glob("*.npz"))
    return any(_is_marian(file) for file in files if file.suffix == ".npz")


def read(source: Path) -> Imported:
    """Read a .npz file, or a directory with one; raises `CheckpointError` for what Headwise can't express."""
    files = _find(source)
    arrays = npz_arrays(files.model)
    options = model_options(arrays, files.model)
    model = _model(options, files.model)
    del arrays[OPTIONS]
    _tie(arrays, options)
    vocabularies = [
        read_vocabulary(file, size) for file, size in zip(files.vocabularies, options.dim_vocabs, strict=True)
    ]
    text, rows = _text(vocabularies, files, arrays, model)
    bias = f"{OUTPUT}_b"
    stored = arrays.pop(bias).read() if bias in arrays else None
    biases = rows[-1].logit_bias(stored, f"{files.model}: {bias}")
    model.logit_bias = bool(biases.any())
    model.attention_bias = _has_attention_bias(arrays, model)
    permuted = _set_positions(arrays, model, files.model)
    parameters: dict[str, Any] = {"logit_bias": lambda: biases} if model.logit_bias else {}
    parameters |= _parameters(arrays, model, rows, permuted, files.model)
    notes: list[str] = []
    if text.vocabulary is not None and text.vocabulary.split == "words":
        notes.append("texts are pieces with spaces between them, because there is no source.spm and target.spm")
    if model.norm == "pre":
        notes.append(
            "norm=pre, as Marian trains and scores: its decoder doesn't normalize the keys and values of earlier "
            "positions, so its translations differ"
        )
    decoding = _decoding(files.options, model, notes)
    return assembled(model, decoding, text, parameters, notes)


@dataclass(frozen=True)
class _Files:
    model: Path
    options: DecoderOptions
    vocabularies: tuple[Path, Path]


def _is_marian(file: Path) -> bool:
    try:
        with opened_zip(file) as archive:
            return f"{OPTIONS}.npy" in archive.namelist()
    except DamagedArchive:
        return False


def _find(source: Path) -> _Files:
    """Return the model, its decoder's options and the vocabularies of source and target.

    Names in the options are of files beside the model: other folders aren't read.
    """
    folder = source.parent if source.is_file() else source
    own = [f"{source.name}.decoder.yml"] if source.is_file() else []
    settings = [folder / name for name in (*own, "decoder.yml") if (folder / name).is_file()]
    settings += sorted(folder.glob("*.npz.decoder.yml")) if source.is_dir() and not settings else []
    options = decoder_options(settings[0]) if settings else DecoderOptions()
    models = [source] if source.is_file() else [_beside(folder, name) for name in options.models]
    if not models:
        models = [file for file in sorted(folder.glob("*.npz")) if _is_marian(file)]
    if len(models) != 1:
        raise CheckpointError(f"{folder}: expected one model, found {len(models)}; give the .npz file that you mean")
    vocabularies = [_beside(folder, name) for name in options.vocabs]
    if not vocabularies:
        patterns = ("*vocab*.yml", "*vocab*.yaml", "*vocab*.spm")
        vocabularies = [file for pattern in patterns for file in sorted(folder.glob(pattern))][:2]
        vocabularies *= 2 if len(vocabularies) == 1 else 1
        if len(set(vocabularies)) > 1:
            raise CheckpointError(
                f"{folder}: expected decoder.yml, which names the vocabularies of source and target, found none"
            )
    if len(vocabularies) != 2:
        raise CheckpointError(f"{folder}: expected vocabularies of source and target, found {len(vocabularies)}")
    return _Files(models[0], options, (vocabularies[0], vocabularies[1]))


def _beside(folder: Path, name: str) -> Path:
    """Return the file of this name in a folder, whatever folder a stranger's path names."""
    return folder / PureWindowsPath(name).name


def _model(options: ModelOptions, path: Path) -> ModelConfig:
    tied = options.tied_embeddings_all or (options.tied_embeddings and options.tied_embeddings_src)
    return make_config(
        f"{path}: {OPTIONS}",
        ModelConfig,
        encoder_layers=options.enc_depth,
        decoder_layers=options.dec_depth,
        d_model=options.dim_emb,
        d_ff=options.transformer_dim_ffn,
        heads=options.transformer_heads,
        norm=options.norm,
        norm_epsilon=NORM_EPSILON,
        activation=ACTIVATIONS[options.transformer_ffn_activation],
        positions="tensor2tensor",
        attention_bias=True,
        max_length=max(options.max_length, _LENGTH),
        share_embeddings="all" if tied else "target" if options.tied_embeddings else "none",
    )


def _tie(arrays: dict[str, Array], options: ModelOptions) -> None:
    """Give the embeddings of source and target the names that they have where they aren't tied."""
    others = options.tied_embeddings or options.tied_embeddings_all
    if options.tied_embeddings_src and not others and "Wemb" in arrays:
        arrays["encoder_Wemb"] = arrays["decoder_Wemb"] = arrays.pop("Wemb")


def _text(
    vocabularies: list[MarianVocabulary], files: _Files, arrays: dict[str, Array], model: ModelConfig
) -> tuple[Subwords, list[Rows]]:
    """Return the subwords, and for each list of pieces the rows of the embeddings."""
    tied = model.share_embeddings == "all"
    joint = tied or vocabularies[0] == vocabularies[1]
    if tied and vocabularies[0].pieces != vocabularies[1].pieces:
        raise CheckpointError(
            f"{files.vocabularies[1]}: expected the pieces of {files.vocabularies[0].name}, because the embeddings are "
            f"tied, found others"
        )
    tables = embeddings(model)
    lists, rows = [], []
    for vocabulary, file, name in zip(
        vocabularies[1:] if joint else vocabularies,
        files.vocabularies,
        ["target"] if joint else ["source", "target"],
        strict=False,
    ):
        matrix = tables.get(f"{name}_embedding.weight", "Wemb")
        begin = vocabulary.begin if _is_zero(arrays, matrix, vocabulary.begin) else None
        special = vocabulary.padding, vocabulary.unknown, begin, vocabulary.end
        pieces, order = arranged(vocabulary.pieces, special, str(file))
        lists.append(pieces)
        rows.append(order)
    folder = files.model.parent
    names = [folder / f"{side}.spm" for side in ("source", "target")]
    own = vocabularies[0].model, vocabularies[1].model
    if own[0] is not None and own[1] is not None:
        return make_subwords((own[0], own[1]), lists, str(folder)), rows
    if own != (None, None):
        raise CheckpointError(f"{folder}: expected two vocabularies in .yml or two in .spm, found one of each")
    if not any(name.is_file() for name in names):
        return make_subwords((b"", b""), lists, str(folder), "words"), rows
    return make_subwords((read_file(names[0]), read_file(names[1])), lists, str(folder)), rows


def _is_zero(arrays: dict[str, Array], matrix: str, row: int | None) -> bool:
    """Whether a row of the embeddings is the zero vector with which Marian's decoder begins."""
    if row is None or matrix not in arrays:
        return False
    tensor = arrays[matrix].read()
    return tensor.ndim == 2 and row < len(tensor) and not bool(tensor[row].any())


def _has_attention_bias(arrays: dict[str, Array], model: ModelConfig) -> bool:
    """Whether a bias of the attention isn't zero; if all are zero, remove them."""
    names = [str(row.theirs) for row in table(model, permuted=False) if row.zeros]
    if any(name not in arrays or bool(arrays[name].read().any()) for name in names):
        return True
    for name in names:
        del arrays[name]
    return False


def _set_positions(arrays: dict[str, Array], model: ModelConfig, path: Path) -> bool:
    """Set the model's positions; return whether the residual stream's dimensions are to be permuted.

    Marian doesn't read `Wpos`, if it doesn't train it, but CTranslate2 does: `headwise export` writes the table that a
    model was trained with, which may be the paper's, sines first.
    """
    if POSITIONS not in arrays:
        return False
    stored = arrays.pop(POSITIONS).read()
    for name, make in (("tensor2tensor", tensor2tensor_sinusoids), ("sinusoidal", sinusoids)):
        if stored.ndim != 2 or stored.shape[1] != model.d_model or not 0 < len(stored) <= _LENGTH * 128:
            break
        expected = make(len(stored), model.d_model)
        if np.array_equal(stored, sines_first(expected, 1) if name == "sinusoidal" else expected):
            model.positions, model.max_length = name, len(stored)
            return name == "sinusoidal"
    raise CheckpointError(f"{path}: expected {POSITIONS} to be sinusoids, found other numbers")


def _parameters(
    arrays: dict[str, Array], model: ModelConfig, rows: list[Rows], permuted: bool, path: Path
) -> dict[str, Read]:
    """Return the parameters by our names; raises `CheckpointError` for an array that is missing or left over."""
    reads: dict[str, Read] = {name: array.read for name, array in arrays.items()}
    if old := reads.pop(f"{OUTPUT}_W", None):  # (d_model, vocabulary), of an old Marian
        reads[f"{OUTPUT}_Wt"] = lambda: old().T

    def words(ours: str, theirs: str) -> Change:
        return (rows[0] if ours == "source_embedding.weight" else rows[-1]).into(path)(theirs)

    left = Left(path, reads, "array")
    found = left.take_rows(table(model, permuted=permuted, words=words))
    left.finish()
    return found


def _decoding(options: DecoderOptions, model: ModelConfig, notes: list[str]) -> DecodingConfig:
    """Return the search options of the model's own decoder."""
    decoding = DecodingConfig(alpha=options.normalize, extra_length=model.max_length)
    decoding.beam = options.beam_size or decoding.beam
    if options.normalize:
        notes.append(
            f"decoding.alpha={options.normalize:g} for normalize {options.normalize:g}: "
            "Headwise divides by ((5 + |Y|) / 6)^alpha, Marian by |Y|^normalize"
        )
    if options.word_penalty:
        notes.append(f"word-penalty {options.word_penalty:g} isn't used: Headwise has none")
    return decoding
