"""Import of JoeyNMT's model directories (Kreutzer et al. 2019): Transformers with the paper's sinusoids."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from headwise.config import DecodingConfig, ModelConfig
from headwise.errors import CheckpointError
from headwise.interop import base
from headwise.interop.base import Imported
from headwise.interop.joeynmt.fields import ACTIVATIONS, Settings, Side, read_settings
from headwise.interop.pieces import Rows, arranged, make_subwords
from headwise.interop.reading import assembled, beside
from headwise.interop.tensors import load_restricted, state_tensors
from headwise.nn.positions import sinusoids
from headwise.parsing.bounds import Malformed, decode, read_bounded
from headwise.text.tokens.splitting import Split, open_processor
from headwise.text.tokens.subwords import Subwords, read_file

_MOST_BYTES = 64 << 20  # of a vocabulary
_LENGTH = 1024  # subwords; JoeyNMT has a table of 5,000 positions
_NORM_EPSILON = 1e-6
_PROJECTIONS = {"query": "q_layer", "key": "k_layer", "value": "v_layer", "output": "output_layer"}
_VOCABULARIES = ("src_vocab.txt", "trg_vocab.txt")


class Importer(base.Importer):
    """Reader of a model directory, or of one of its checkpoints."""

    def recognizes(self, source: Path) -> bool:  # noqa: D102
        folder, pattern = (source.parent, source.name) if source.is_file() else (source, "*.ckpt")
        wanted = ("config.yaml", *_VOCABULARIES)
        found = any(file.suffix == ".ckpt" for file in folder.glob(pattern))
        return found and all((folder / name).is_file() for name in wanted)

    def read(self, source: Path) -> Imported:  # noqa: D102
        folder = source.parent if source.is_file() else source
        settings = read_settings(folder / "config.yaml")
        model = _model(settings, folder / "config.yaml")
        text, rows = _text(settings, model, folder)
        path = source if source.is_file() else _checkpoint(folder)
        checkpoint = load_restricted(path)
        state = checkpoint.get("model_state") if isinstance(checkpoint, Mapping) else None
        if not isinstance(state, Mapping):
            raise CheckpointError(f"{path}: expected model_state, the parameters by name, found none")
        tensors = dict(state_tensors(state, path))
        _drop_positions(tensors, model, path)
        parameters = _parameters(tensors, model, rows, path)
        testing = settings.testing
        decoding = DecodingConfig(beam=testing.beam_size, alpha=max(testing.beam_alpha, 0.0))
        decoding.extra_length = (
            testing.max_output_length if testing.max_output_length > 0 else decoding.extra_length
        )
        imported = assembled(model, decoding, text, parameters, [])
        return imported.in_languages(settings.data.src.lang, settings.data.trg.lang)


def _checkpoint(folder: Path) -> Path:
    """Return the best checkpoint of a directory, or else the only one."""
    best = folder / "best.ckpt"
    if best.is_file():
        return best
    files = [file for file in sorted(folder.glob("*.ckpt")) if file.is_file() and not file.is_symlink()]
    if len(files) != 1:
        raise CheckpointError(f"{folder}: expected best.ckpt or one .ckpt file, found {len(files)}")
    return files[0]


def _model(settings: Settings, path: Path) -> ModelConfig:
    encoder, decoder = settings.model.encoder, settings.model.decoder
    tied = settings.model.tied_softmax, settings.model.tied_embeddings
    try:
        return ModelConfig(
            encoder_layers=encoder.num_layers,
            decoder_layers=decoder.num_layers,
            d_model=encoder.hidden_size,
            d_ff=encoder.ff_size,
            heads=encoder.num_heads,
            norm=encoder.layer_norm,
            norm_epsilon=_NORM_EPSILON,
            activation=ACTIVATIONS[encoder.activation],  # type: ignore[arg-type]
            attention_bias=True,
            max_length=_LENGTH,
            share_embeddings="all" if all(tied) else "target" if tied[0] else "none",
            scale_embeddings=encoder.embeddings.scale,
            dropout=encoder.dropout,
        )
    except ValidationError as error:
        raise CheckpointError(f"{path}: {error.errors()[0]['msg']}") from None


def _text(settings: Settings, model: ModelConfig, folder: Path) -> tuple[Subwords, list[Rows]]:
    """Return the subwords, and for each list of pieces the rows of the embeddings."""
    symbols, sides = settings.data.special_symbols, (settings.data.src, settings.data.trg)
    special = symbols.pad_id, symbols.unk_id, symbols.bos_id, symbols.eos_id
    vocabularies = [_lines(folder / name) for name in _VOCABULARIES]
    joint = vocabularies[0] == vocabularies[1]
    if model.share_embeddings == "all" and not joint:
        raise CheckpointError(
            f"{folder / _VOCABULARIES[1]}: expected the pieces of src_vocab.txt, found others"
        )
    split = _split(sides[0])
    models = [_read_model(side, split, folder) for side in sides]
    lists, rows = [], []
    for name, pieces, content in zip(_VOCABULARIES, vocabularies, models, strict=True):
        if split == "sentencepiece":
            _check_whole(pieces, content, folder / name)
        names, order = arranged(pieces, special, str(folder / name))
        lists.append(names)
        rows.append(order)
    count = 1 if joint else 2
    text = make_subwords(
        (models[0], models[1]),
        lists[:count],
        str(folder),
        split,
        lowercase=sides[0].lowercase,
        limited=split == "subword-nmt",
    )
    return text, rows[:count]


def _split(side: Side) -> Split:
    if side.level == "bpe":
        return side.tokenizer_type
    return "words" if side.level == "word" else "characters"


def _read_model(side: Side, split: Split, folder: Path) -> bytes:
    """Read the file of SentencePiece or of the byte pairs; JoeyNMT copies it into the model directory."""
    name = {"sentencepiece": side.tokenizer_cfg.model_file, "subword-nmt": side.tokenizer_cfg.codes}.get(
        split
    )
    return b"" if name is None else read_file(beside(folder, name or "sp.model"))


def _lines(path: Path) -> list[str]:
    """Read a vocabulary, a piece a line."""
    try:
        text = decode(read_bounded(path, _MOST_BYTES, CheckpointError, "a vocabulary"))
    except Malformed as problem:
        raise CheckpointError(problem.sentence(path, "a vocabulary")) from None
    return text.removesuffix("\n").split("\n")


def _check_whole(pieces: list[str], model: bytes, path: Path) -> None:
    """Raise `CheckpointError` if a piece of SentencePiece is missing: JoeyNMT then splits texts otherwise."""
    processor, known = open_processor(model, str(path)), frozenset(pieces)
    for number in range(processor.vocab_size()):
        piece = processor.id_to_piece(number)
        special = processor.is_control(number) or processor.is_unknown(number) or processor.is_byte(number)
        if len(piece) > 1 and not special and piece not in known:
            raise CheckpointError(
                f"{path}: expected all pieces of the SentencePiece model, found no {piece[:60]!r}"
            )


def _drop_positions(tensors: dict[str, Any], model: ModelConfig, path: Path) -> None:
    """Remove the position tables; raises `CheckpointError` if they aren't the paper's sinusoids."""
    for side in ("encoder", "decoder"):
        name = f"{side}.pe.pe"
        if name not in tensors:
            continue
        table = tensors.pop(name)()
        if table.dim() != 3 or table.shape[::2] != (1, model.d_model):
            raise CheckpointError(
                f"{path}: expected {name} of shape (1, positions, {model.d_model}), found {tuple(table.shape)}"
            )
        model.max_length = min(model.max_length, table.shape[1])
        table = table[0, : model.max_length]
        if not torch.allclose(table, sinusoids(len(table), model.d_model), atol=1e-3):
            raise CheckpointError(f"{path}: expected {name} to be the paper's sinusoids, found other numbers")


def _parameters(tensors: dict[str, Any], model: ModelConfig, rows: list[Rows], path: Path) -> dict[str, Any]:
    """Return the parameters by our names; raises `CheckpointError` for a tensor that is missing or left over."""
    source, target, output = "src_embed.lut.weight", "trg_embed.lut.weight", "decoder.output_layer.weight"
    copies = {"all": {target: source, output: source}, "target": {output: target}}.get(
        model.share_embeddings, {}
    )
    for copy, original in copies.items():
        if (
            copy in tensors
            and original in tensors
            and not torch.equal(tensors.pop(copy)(), tensors[original]())
        ):
            raise CheckpointError(f"{path}: expected {copy} to equal {original}, which it is tied to")
    found: dict[str, Any] = {}
    matrices = {"source_embedding": source, "target_embedding": target, "output_projection": output}
    for ours, theirs in matrices.items():
        if theirs in copies:
            continue
        if theirs not in tensors:
            raise CheckpointError(f"{path}: expected tensor {theirs}, found none of that name")
        order = rows[0] if theirs == source else rows[-1]
        found[f"{ours}.weight"] = partial(_ordered, tensors.pop(theirs), order, f"{path}: {theirs}")
    for ours, theirs in layer_names(model).items():
        if theirs not in tensors:
            raise CheckpointError(f"{path}: expected tensor {theirs}, found none of that name")
        found[ours] = tensors.pop(theirs)
    if tensors:
        raise CheckpointError(f"{path}: found tensor {min(tensors)}, which Headwise has no place for")
    return found


def _ordered(read: Any, rows: Rows, place: str) -> Tensor:
    return rows.of(read(), place, exactly=True)


def layer_names(model: ModelConfig) -> dict[str, str]:
    """Return the name in JoeyNMT of each parameter of the layers, by its name in Headwise."""
    modules: dict[str, str] = {}
    for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for number in range(layers):
            ours, theirs = f"{side}.{number}", f"{side}.layers.{number}"
            if side == "encoder":
                attentions = {"self_attention": "src_src_att"}
                norms = {"attention": "layer_norm"}
            else:
                attentions = {"self_attention": "trg_trg_att", "cross_attention": "src_trg_att"}
                norms = {"self_attention": "x_layer_norm", "cross_attention": "dec_layer_norm"}
            for attention, name in attentions.items():
                for projection, part in _PROJECTIONS.items():
                    modules[f"{ours}.{attention}.{projection}"] = f"{theirs}.{name}.{part}"
            for around, name in norms.items():
                modules[f"{ours}.around_{around}.norm"] = f"{theirs}.{name}"
            modules[f"{ours}.around_feed_forward.norm"] = f"{theirs}.feed_forward.layer_norm"
            modules[f"{ours}.feed_forward.w1"] = f"{theirs}.feed_forward.pwff_layer.0"
            modules[f"{ours}.feed_forward.w2"] = f"{theirs}.feed_forward.pwff_layer.3"
        if model.norm == "pre":
            modules[f"{side}_norm"] = f"{side}.layer_norm"
    return {
        f"{ours}.{part}": f"{theirs}.{part}"
        for ours, theirs in modules.items()
        for part in ("weight", "bias")
    }
