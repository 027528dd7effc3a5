"""The tokenizer of a Marian directory: `source.spm`, `target.spm` and `vocab.json`, which numbers the pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.errors import CheckpointError
from headwise.interop.huggingface.fields import MOST_BYTES, Fields, SymbolKeys
from headwise.interop.pieces import make_subwords
from headwise.parsing.json_text import read_json
from headwise.text.tokens.numbering import SPECIAL_PIECES
from headwise.text.tokens.subwords import BOS, EOS, PAD, SPECIAL, UNK, Subwords, read_file

_PADDING, _UNKNOWN = SPECIAL_PIECES[PAD], SPECIAL_PIECES[UNK]


@dataclass(frozen=True)
class Rows:
    """For each of Headwise's ids the row of the original's embeddings.

    The symbol that begins a translation often is padding there, or a piece, whose row two ids have then: `copy` is the
    target id that never is an output.
    """

    source: list[int]
    target: list[int]
    copy: int | None

    @classmethod
    def of(cls, source: list[int], target: list[int]) -> Rows:
        """Find the target id that never is an output."""
        copy = PAD if target[PAD] == target[BOS] else BOS if target[BOS] in target[len(SPECIAL) :] else None
        return cls(source, target, copy)


def read_text(source: Path, fields: Fields) -> tuple[Subwords, Rows]:
    """Read the tokenizer; raises `CheckpointError` where a file is missing or damaged."""
    settings = _settings(source)
    separate = settings.get("separate_vocabs") is True
    sizes = fields.vocab_size, fields.decoder_vocab_size or fields.vocab_size
    names = ("vocab.json", "target_vocab.json") if separate else ("vocab.json",)
    lists: list[tuple[str, ...]] = []
    rows: list[list[int]] = []
    for name, size in zip(names, sizes, strict=False):
        pieces, order = numbered(_vocabulary(source / name, size), fields, source / name)
        lists.append(pieces)
        rows.append(order)
    if not separate and sizes[0] != sizes[1]:
        raise CheckpointError(
            f"{source / 'config.json'}: expected one size of one vocabulary, "
            f"found vocab_size {sizes[0]} and decoder_vocab_size {sizes[1]}"
        )
    models = read_file(source / "source.spm"), read_file(source / "target.spm")
    target = rows[-1]
    _check_banned(fields, target, source)
    return make_subwords(models, lists, str(source), codes=True), Rows.of(rows[0], target)


def languages(source: Path) -> tuple[str | None, str | None]:
    """Return the languages that the tokenizer's settings name; raises `CheckpointError` for a damaged file."""
    settings = _settings(source)
    named = settings.get("source_lang"), settings.get("target_lang")
    return named[0] if isinstance(named[0], str) else None, named[1] if isinstance(named[1], str) else None


def _settings(source: Path) -> dict[str, Any]:
    file = source / "tokenizer_config.json"
    return _object(file) if file.is_file() else {}


def _start(fields: SymbolKeys) -> int:
    return fields.pad_token_id if fields.decoder_start_token_id is None else fields.decoder_start_token_id


def _object(file: Path) -> dict[str, Any]:
    content = read_json(file, error=CheckpointError, finite=False, most=MOST_BYTES)
    if not isinstance(content, dict):
        raise CheckpointError(f"{file}: expected a JSON object, found a {type(content).__name__}")
    return content


def _vocabulary(file: Path, size: int) -> list[str]:
    """Return the piece of each id; ids without a piece, which pad the matrix, get a name of their own."""
    content = _object(file)
    pieces = [""] * size
    for piece, number in content.items():
        if (
            isinstance(number, bool)
            or not isinstance(number, int)
            or not 0 <= number < size
            or pieces[number]
        ):
            raise CheckpointError(
                f"{file}: expected a different id from 0 to {size - 1} for each piece, "
                f"found {str(number)[:40]} for {piece[:40]!r}"
            )
        pieces[number] = piece
    return [piece or f"<unused {number}>" for number, piece in enumerate(pieces)]


def numbered(pieces: Sequence[str], fields: SymbolKeys, file: Path) -> tuple[tuple[str, ...], list[int]]:
    """Return the pieces in Headwise's order and the rows that they have in the original; raises `CheckpointError`."""
    if _UNKNOWN not in pieces:
        raise CheckpointError(f"{file}: expected the piece {_UNKNOWN}, found none")
    padding = pieces.index(_PADDING) if _PADDING in pieces else fields.pad_token_id
    special = [padding, pieces.index(_UNKNOWN), _start(fields), fields.eos_token_id]
    if max(special) >= len(pieces) or len({special[PAD], special[UNK], special[EOS]}) < 3:
        raise CheckpointError(
            f"{file}: expected different ids below {len(pieces)} for padding, unknown, begin and end, "
            f"found {', '.join(map(str, special))}"
        )
    begins = pieces[special[BOS]] in SPECIAL_PIECES  # otherwise it is also a piece of texts
    used = {*special} if begins else {special[PAD], special[UNK], special[EOS]}
    rows = [*special, *(number for number in range(len(pieces)) if number not in used)]
    rest = [
        f"<unused {number}>" if pieces[number] in SPECIAL_PIECES else pieces[number] for number in rows[4:]
    ]
    return (*SPECIAL_PIECES, *rest), rows


def _check_banned(fields: Fields, target: list[int], source: Path) -> None:
    """Raise `CheckpointError` for pieces that the model may not generate, besides the special ones."""
    allowed = {target[PAD], target[UNK], target[BOS], fields.pad_token_id}
    for word in fields.bad_words_ids or []:
        if len(word) != 1 or word[0] not in allowed:
            raise CheckpointError(
                f"{source}: bad_words_ids: expected the special symbols alone, found {word[:10]}"
            )
    if fields.forced_bos_token_id is not None:
        raise CheckpointError(
            f"{source}: forced_bos_token_id: expected none, found {fields.forced_bos_token_id}"
        )
