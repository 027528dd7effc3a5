"""Marian's vocabularies: a .yml file with the id of each piece, or a SentencePiece model with ids of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import CheckpointError
from headwise.parsing import MOST_DIGITS, Malformed, decode, read_bounded, yaml_value
from headwise.text.tokens.splitting import open_processor

_MOST_BYTES = 64 << 20
_EOS, _UNK, _PAD, _BOS = "</s>", "<unk>", "<pad>", "<s>"
SUFFIXES = (".yml", ".yaml", ".json", ".spm")


@dataclass(frozen=True)
class MarianVocabulary:
    """The piece of each id, empty where an id has none; `begin` isn't what Marian's decoder begins with."""

    pieces: list[str]
    padding: int | None
    unknown: int
    begin: int | None
    end: int
    model: bytes | None  # the SentencePiece model, if it is one


def read_vocabulary(path: Path, size: int) -> MarianVocabulary:
    """Read the pieces with ids below `size`, the number of rows of the embeddings; raises `CheckpointError`."""
    if path.suffix not in SUFFIXES:
        raise CheckpointError(f"{path}: expected a vocabulary ({', '.join(SUFFIXES)}), found {path.suffix!r}")
    content = read_bounded(path, _MOST_BYTES, CheckpointError, "a vocabulary")
    if path.suffix == ".spm":
        return _sentencepiece(content, path, size)
    pieces = [""] * size
    for piece, number in _entries(content, path):
        if number < size:  # Marian ignores the others
            if pieces[number]:
                raise CheckpointError(f"{path}: expected a different id for each piece, found {number} twice")
            pieces[number] = piece
    for special in (_EOS, _UNK):
        if special not in pieces:
            raise CheckpointError(f"{path}: expected the piece {special} with an id below {size}, found none")

    def find(piece: str) -> int | None:
        return pieces.index(piece) if piece in pieces else None

    return MarianVocabulary(pieces, find(_PAD), pieces.index(_UNK), find(_BOS), pieces.index(_EOS), None)


def _sentencepiece(content: bytes, path: Path, size: int) -> MarianVocabulary:
    processor = open_processor(content, str(path))
    if processor.vocab_size() > size or processor.eos_id() < 0:
        raise CheckpointError(
            f"{path}: expected at most {size} pieces, as many as the embeddings have rows, one of them the end of a "
            f"sentence, found {processor.vocab_size()} pieces and the end {processor.eos_id()}"
        )
    pieces = list(processor.id_to_piece(list(range(processor.vocab_size()))))
    pieces += [""] * (size - len(pieces))
    padding, begin = (number if number >= 0 else None for number in (processor.pad_id(), processor.bos_id()))
    return MarianVocabulary(pieces, padding, processor.unk_id(), begin, processor.eos_id(), content)


def _entries(content: bytes, path: Path) -> list[tuple[str, int]]:
    """Parse `piece: id` lines, which are a subset of YAML; a quoted piece may have escapes.

    A YAML parser in Python needs a minute for a large vocabulary. A piece that is longer than 128 bytes has two lines,
    `? piece` and `: id`.
    """
    try:
        lines = decode(content).split("\n")
    except Malformed as problem:
        raise CheckpointError(problem.sentence(path, "a vocabulary")) from None
    entries: list[tuple[str, int]] = []
    key: str | None = None
    for number, full in enumerate(lines, start=1):
        line = full.rstrip("\r").strip(" ")
        if line in ("", "---", "{", "}") or (line.startswith("#") and ":" not in line):
            continue
        if key is None and line.startswith("? "):
            key = line[2:]
            continue
        piece, colon, value = (key, ":", line.removeprefix(":")) if key is not None else line.rpartition(":")
        key = None
        digits = value.strip(" ,")
        if not colon or not digits.isascii() or not digits.isdigit() or len(digits) > MOST_DIGITS:
            raise CheckpointError(f"{path}: expected a piece and its id (line {number}), found {full[:60]!r}")
        entries.append((_unquoted(piece.strip(" "), path, number), int(digits)))
    return entries


def _unquoted(piece: str, path: Path, line: int) -> str:
    """Return a piece without its quotes and escapes."""
    if piece[:1] not in ('"', "'"):
        return piece
    try:
        value = yaml_value(piece)
    except Malformed as problem:
        problem.line = line
        raise CheckpointError(problem.sentence(path, "a piece")) from None
    return str(value)


def vocabulary_text(pieces: Sequence[str]) -> str:
    """Return the .yml file of pieces in the order of their ids."""
    return "".join(f"{json.dumps(piece, ensure_ascii=False)}: {number}\n" for number, piece in enumerate(pieces))
