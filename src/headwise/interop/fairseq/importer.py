"""Import of fairseq's Transformers (Ott et al. 2019): a checkpoint with the dictionaries and subwords beside it.

Its sinusoids are tensor2tensor's from position 2 on, and a translation begins with the end symbol.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import torch
from pydantic import ValidationError
from torch import Tensor

from headwise.config import DecodingConfig, ModelConfig
from headwise.errors import CheckpointError
from headwise.interop import base
from headwise.interop.base import Imported
from headwise.interop.fairseq.options import ACTIVATIONS, Options, read_options
from headwise.interop.huggingface.names import layer_names
from headwise.interop.pieces import Rows, arranged, make_subwords
from headwise.interop.reading import assembled, beside
from headwise.interop.tensors import load_restricted, state_tensors
from headwise.parsing.bounds import Malformed, decode, read_bounded
from headwise.text.tokens.splitting import Split
from headwise.text.tokens.subwords import Subwords, read_file

_MOST_BYTES = 64 << 20  # of a dictionary
_BEGIN, _PADDING, _END, _UNKNOWN = 0, 1, 2, 3
_SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>"]  # before those of the dictionary
_OVERWRITE = "#fairseq:overwrite"
# Files of subwords by the names that fairseq's own hub gives them.
_SUBWORDS: dict[str, Split] = {
    "sentencepiece.bpe.model": "sentencepiece",
    "spm.model": "sentencepiece",
    "bpecodes": "subword-nmt",
    "code": "subword-nmt",
}
_REFUSED = {"merges.txt": "gpt2", "vocab.json": "gpt2"}
_BEST = ("checkpoint_best.pt", "model.pt")
# Tensors without an effect; version 0.12 has room for copies of a layer's parameters, which it fills when it loads.
_IGNORED = re.compile(
    r"(?:en|de)coder\.(?:version|embed_positions\._float_tensor"
    r"|layers\.\d+\.(?:in_proj|out_proj|fc1|fc2)_(?:weight|bias))"
)
Read = Callable[[], Tensor]


class Importer(base.Importer):
    """Reader of a checkpoint, or of a directory with one."""

    def recognizes(self, source: Path) -> bool:  # noqa: D102
        folder = source.parent if source.is_file() else source
        files = [source] if source.is_file() else list(source.glob("*.pt"))
        return any(file.suffix == ".pt" for file in files) and any(folder.glob("dict.*.txt"))

    def read(self, source: Path) -> Imported:  # noqa: D102
        path = source if source.is_file() else _checkpoint(source)
        checkpoint = load_restricted(path, [Namespace])
        state = checkpoint.get("model") if isinstance(checkpoint, Mapping) else None
        if not isinstance(checkpoint, Mapping) or not isinstance(state, Mapping):
            raise CheckpointError(f"{path}: expected model, the parameters by name, found none")
        options = read_options(checkpoint, path)
        model = _model(options, path)
        notes: list[str] = []
        text, rows = _text(options, model, path, notes)
        tensors = _renamed(dict(state_tensors(state, path)))
        parameters = _parameters(tensors, model, rows, path)
        bias = rows[-1].logit_bias(None, str(path))
        if bias is not None:
            model.logit_bias = True
            parameters["logit_bias"] = lambda: bias
        imported = assembled(model, DecodingConfig(beam=5), text, parameters, notes)
        return imported.in_languages(options.source_lang, options.target_lang)


def _checkpoint(folder: Path) -> Path:
    """Return the best checkpoint of a directory, or else the only one."""
    files = [folder / name for name in _BEST if (folder / name).is_file()] or sorted(folder.glob("*.pt"))
    if len(files) != 1:
        raise CheckpointError(f"{folder}: expected {' or '.join(_BEST)} or one .pt file, found {len(files)}")
    return files[0]


def _model(options: Options, path: Path) -> ModelConfig:
    tied = "target" if options.share_decoder_input_output_embed else "none"
    try:
        return ModelConfig(
            encoder_layers=options.encoder_layers,
            decoder_layers=options.decoder_layers,
            d_model=options.encoder_embed_dim,
            d_ff=options.encoder_ffn_embed_dim,
            heads=options.encoder_attention_heads,
            norm="pre" if options.encoder_normalize_before else "post",
            activation=ACTIVATIONS[options.activation_fn],  # type: ignore[arg-type]
            positions="none" if options.no_token_positional_embeddings else "fairseq",
            attention_bias=True,
            max_length=min(options.max_source_positions, options.max_target_positions),
            share_embeddings="all" if options.share_all_embeddings else tied,  # type: ignore[arg-type]
            scale_embeddings=not options.no_scale_embedding,
            dropout=options.dropout,
        )
    except ValidationError as error:
        raise CheckpointError(f"{path}: {error.errors()[0]['msg']}") from None


def _text(options: Options, model: ModelConfig, path: Path, notes: list[str]) -> tuple[Subwords, list[Rows]]:
    """Return the subwords, and for each dictionary the rows of the embeddings."""
    folder = path.parent
    files = [folder / f"dict.{language}.txt" for language in _languages(options, path)]
    dictionaries = [_dictionary(file) for file in files]
    joint = dictionaries[0] == dictionaries[1]
    if model.share_embeddings == "all" and not joint:
        raise CheckpointError(f"{files[1]}: expected the pieces of {files[0].name}, found others")
    special = _PADDING, _UNKNOWN, _END, _END
    lists, rows = [], []
    for pieces, file in list(zip(dictionaries, files, strict=True))[: 1 if joint else 2]:
        names, order = arranged(pieces, special, str(file))
        lists.append(names)
        rows.append(order)
    split, content = _subwords(folder)
    if split != "sentencepiece":
        kind = "byte pairs" if content else "pieces"
        notes.append(f"texts are split at spaces into {kind}: tokenize them as the training text was")
    return make_subwords((content, content), lists, str(folder), split), rows


def _languages(options: Options, path: Path) -> tuple[str, str]:
    """Return source and target, which name the dictionaries; raises `CheckpointError` if they aren't known.

    Where fairseq has found them by the names of its data, the options don't have them.
    """
    if options.source_lang and options.target_lang:
        return beside(path, options.source_lang).name, beside(path, options.target_lang).name
    folder = path.parent
    known = sorted(file.name.removeprefix("dict.").removesuffix(".txt") for file in folder.glob("dict.*.txt"))
    if len(known) == 2:
        orders = [(known[0], known[1]), (known[1], known[0])]
        named = [order for order in orders if any(folder.glob(f"*.{order[0]}-{order[1]}.*"))]
        if len(named) == 1:
            return named[0]
        if _dictionary(folder / f"dict.{known[0]}.txt") == _dictionary(folder / f"dict.{known[1]}.txt"):
            return orders[0]
    raise CheckpointError(
        f"{path}: expected source_lang and target_lang in its options, or two dictionaries and a file with a name like "
        f"train.en-de.en.idx, which may be empty, found neither"
    )


def _subwords(folder: Path) -> tuple[Split, bytes]:
    """Return what splits texts, by the file in the directory, and the content of that file."""
    for name, kind in _REFUSED.items():
        if (folder / name).is_file():
            raise CheckpointError(
                f"{folder / name}: expected {' or '.join(_SUBWORDS)}, found the subwords of --bpe {kind}"
            )
    found = [name for name in _SUBWORDS if (folder / name).is_file()]
    if len(found) > 1:
        raise CheckpointError(f"{folder}: expected one file of subwords, found {' and '.join(found)}")
    return (_SUBWORDS[found[0]], read_file(folder / found[0])) if found else ("words", b"")


def _dictionary(path: Path) -> list[str]:
    """Read the pieces of a dictionary: a piece and its count a line, after four special symbols."""
    try:
        lines = (
            decode(read_bounded(path, _MOST_BYTES, CheckpointError, "a dictionary"))
            .removesuffix("\n")
            .split("\n")
        )
    except Malformed as problem:
        raise CheckpointError(problem.sentence(path, "a dictionary")) from None
    pieces = list(_SYMBOLS)
    for number, line in enumerate(lines, start=1):
        text = line.rstrip().removesuffix(_OVERWRITE).rstrip()
        piece, space, count = text.rpartition(" ")
        if not space or not piece or not count.isdecimal():
            raise CheckpointError(
                f"{path}: expected a piece and its count (line {number}), found {line[:60]!r}"
            )
        pieces.append(piece)
    return pieces


def _renamed(tensors: dict[str, Read]) -> dict[str, Read]:
    """Return the tensors by the names of newer versions; older ones joined the projections of an attention's inputs."""
    found: dict[str, Read] = {}
    for name, read in tensors.items():
        if _IGNORED.fullmatch(name):
            continue
        if ".in_proj_" in name:
            attention, _, part = name.partition(".in_proj_")
            for index, letter in enumerate("qkv"):
                found[f"{attention}.{letter}_proj.{part}"] = partial(_third, read, index)
            continue
        for index, norm in enumerate(_norms(name)):
            name = name.replace(f".layer_norms.{index}.", f".{norm}.")
        found[name] = read
    return found


def _norms(name: str) -> tuple[str, ...]:
    """Return the newer names of a layer's normalizations, which older versions number."""
    cross = () if name.startswith("encoder.") else ("encoder_attn_layer_norm",)
    return ("self_attn_layer_norm", *cross, "final_layer_norm")


def _third(read: Read, index: int) -> Tensor:
    tensor = read()
    return tensor.chunk(3)[index] if len(tensor) % 3 == 0 else tensor


def _parameters(
    tensors: dict[str, Read], model: ModelConfig, rows: list[Rows], path: Path
) -> dict[str, Read]:
    """Return the parameters by our names; raises `CheckpointError` for a tensor that is missing or left over."""
    source, target, output = (
        "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
        "decoder.output_projection.weight",
    )
    if "decoder.embed_out" in tensors:  # of older versions
        tensors[output] = tensors.pop("decoder.embed_out")
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
    names = {
        "source_embedding.weight": source,
        "target_embedding.weight": target,
        "output_projection.weight": output,
    }
    names = {ours: theirs for ours, theirs in names.items() if theirs not in copies}
    names |= {ours: theirs.removeprefix("model.") for ours, theirs in layer_names(model).items()}
    found: dict[str, Read] = {}
    for ours, theirs in names.items():
        if theirs not in tensors:
            raise CheckpointError(f"{path}: expected tensor {theirs}, found none of that name")
        read = tensors.pop(theirs)
        if theirs in (source, target, output):
            order = rows[0] if theirs == source else rows[-1]
            read = partial(_ordered, read, order, f"{path}: {theirs}")
        found[ours] = read
    if tensors:
        raise CheckpointError(f"{path}: found tensor {min(tensors)}, which Headwise has no place for")
    return found


def _ordered(read: Read, rows: Rows, place: str) -> Tensor:
    return rows.of(read(), place, exactly=True)
