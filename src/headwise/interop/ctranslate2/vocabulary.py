"""The tokens of a CTranslate2 directory: config.json with the special ones, vocabularies, and SentencePiece models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from headwise import bounds
from headwise.config.base import Epsilon
from headwise.config.data import SPECIAL_PIECES
from headwise.errors import CheckpointError
from headwise.interop.ctranslate2.binary import ModelFile
from headwise.interop.pieces import Rows, arranged, make_subwords
from headwise.parsing import Malformed, checked, decode, read_bounded, read_json, read_object
from headwise.text.tokens.subwords import Subwords, read_file

_MOST_BYTES = 64 << 20  # of config.json or a vocabulary
_PADDING = ("<pad>", "<blank>")  # Headwise's and OpenNMT-py's
# Names under which SentencePiece models of source and target lie in such a directory.
_MODELS = (
    ("source.spm", "target.spm"),
    ("spm.source.model", "spm.target.model"),
    ("spm.model", "spm.model"),
    ("sentencepiece.model", "sentencepiece.model"),
    ("sentencepiece.bpe.model", "sentencepiece.bpe.model"),
)

_Token = Annotated[str, Field(max_length=1000)]


class Settings(BaseModel):
    """What config.json says of the tokens; other keys don't affect a Transformer."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    unk_token: _Token = "<unk>"
    bos_token: _Token = "<s>"
    eos_token: _Token = "</s>"
    decoder_start_token: _Token | None = None
    add_source_bos: bool = False
    add_source_eos: bool = False
    layer_norm_epsilon: Epsilon | None = None


def read_settings(source: Path, file: ModelFile) -> Settings:
    """Read config.json or, before binary version 6, the variables in its place.

    Raises `CheckpointError` for a damaged file, and for tokens that a user would have to give.
    """
    place = source / "config.json"
    if file.version < 6:
        settings = _settings_of_variables(file)
    else:
        tree = read_object(place, error=CheckpointError, finite=False, most=_MOST_BYTES)
        settings = checked(Settings, tree, place)
    if settings.decoder_start_token is None:
        raise CheckpointError(
            f"{place}: decoder_start_token: expected the token that begins every translation, "
            "found none, as in models for many languages"
        )
    if settings.add_source_bos:
        raise CheckpointError(f"{place}: add_source_bos: expected false, found true")
    return settings


def _settings_of_variables(file: ModelFile) -> Settings:
    names = {key: file.text(key) for key in ("unk_token", "bos_token", "eos_token")}
    known = {key: value for key, value in names.items() if value is not None}
    settings = checked(Settings, known, file.path)
    begins = file.number("with_target_bos") != 0
    if not file.number("user_decoder_start_tokens"):
        settings.decoder_start_token = settings.bos_token if begins else settings.eos_token
    settings.add_source_bos = bool(file.number("with_source_bos"))
    settings.add_source_eos = bool(file.number("with_source_eos"))
    return settings


def read_text(
    source: Path,
    settings: Settings,
    models: tuple[bytes, bytes] | None,
    *,
    starts_empty: bool,
    target_language: str = "",
) -> tuple[Subwords, list[Rows]]:
    """Read the tokenizer, and the rows of each list of tokens.

    `models` are serialized SentencePiece models, those in the directory unless given. With `starts_empty` the first
    input of the decoder is a vector of zeros. `target_language` is a token with which every translation begins, if it
    is in the vocabulary. Raises `CheckpointError` where a file is missing or damaged, and for sources that a user would
    have to end.
    """
    ended = settings.add_source_eos or starts_empty
    if models is None and not ended and settings.decoder_start_token == settings.eos_token:
        raise CheckpointError(
            f"{source}: add_source_eos: expected true where decoder_start_token is {settings.eos_token[:40]!r}, found "
            "false, as in M2M100 and NLLB, whose callers put language codes and the end symbol into each source"
        )
    models = models or _read_models(source)
    shared = _vocabulary(source, "shared_vocabulary")
    tokens = [shared] if shared else [_needed(source, f"{side}_vocabulary") for side in ("source", "target")]
    numbered = [_numbered(each, settings, source, starts_empty=starts_empty) for each in tokens]
    lists = [pieces for pieces, _ in numbered]
    language = target_language if target_language in lists[-1][len(SPECIAL_PIECES) :] else ""
    subwords = make_subwords(models, lists, str(source), target_language=language)
    return subwords, [rows for _, rows in numbered]


def _read_models(source: Path) -> tuple[bytes, bytes]:
    for names in _MODELS:
        if all((source / name).is_file() for name in names):
            return read_file(source / names[0]), read_file(source / names[1])
    expected = " or ".join(" and ".join(dict.fromkeys(names)) for names in _MODELS)
    raise CheckpointError(
        f"{source}: expected the SentencePiece models that split text into its tokens, {expected}, found none"
    )


def _vocabulary(source: Path, name: str) -> list[str] | None:
    """Return the tokens of a vocabulary in the order of their ids, None if there is no such file."""
    file = source / f"{name}.json"
    if file.is_file():
        tokens = read_json(file, expected="a list of tokens", error=CheckpointError, most=_MOST_BYTES)
    elif (file := source / f"{name}.txt").is_file():
        tokens = _lines(file)
    else:
        return None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise CheckpointError(f"{file}: expected a list of tokens, found another value")
    if not len(SPECIAL_PIECES) < len(tokens) <= bounds.VOCABULARY:
        raise CheckpointError(
            f"{file}: expected {len(SPECIAL_PIECES) + 1} to {bounds.VOCABULARY} tokens, found {len(tokens)}"
        )
    return tokens


def _lines(file: Path) -> list[str]:
    content = read_bounded(file, _MOST_BYTES, CheckpointError, "a list of tokens")
    try:
        text = decode(content)
    except Malformed as problem:
        raise CheckpointError(problem.sentence(file, "a list of tokens")) from None
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines] if all(line[-1:] == "\r" for line in lines) else lines


def _needed(source: Path, name: str) -> list[str]:
    tokens = _vocabulary(source, name)
    if tokens is None:
        raise CheckpointError(f"{source}: expected shared_vocabulary.json or {name}.json, found neither")
    return tokens


def _numbered(
    tokens: list[str], settings: Settings, source: Path, *, starts_empty: bool
) -> tuple[tuple[str, ...], Rows]:
    """Return the tokens as pieces in Headwise's order, and their rows."""
    places = {token: row for row, token in reversed(list(enumerate(tokens)))}
    start = settings.decoder_start_token
    assert start is not None
    for key, token in (("unk_token", settings.unk_token), ("eos_token", settings.eos_token)):
        if token not in places:
            raise CheckpointError(f"{source}: {key}: expected a token of the vocabulary, found {token[:40]!r}")
    if start not in places and not starts_empty:
        raise CheckpointError(
            f"{source}: decoder_start_token: expected a token of the vocabulary, found {start[:40]!r}"
        )
    special = (
        next((places[token] for token in _PADDING if token in places), None),
        places[settings.unk_token],
        None if starts_empty else places[start],
        places[settings.eos_token],
    )
    unique = [token if places[token] == row else "" for row, token in enumerate(tokens)]
    return arranged(unique, special, str(source))
