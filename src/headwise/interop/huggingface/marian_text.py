"""The tokenizer of a Marian directory: `source.spm`, `target.spm` and `vocab.json`, which numbers the pieces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.errors import CheckpointError
from headwise.interop.huggingface.fields import MOST_BYTES, Fields
from headwise.parsing.json_text import read_json
from headwise.text.tokens.numbering import SPECIAL_PIECES, Numbering, open_processor
from headwise.text.tokens.subwords import SPECIAL, Subwords, read_file

_UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Rows:
    """For each of Headwise's ids the row of the original's embeddings.

    With `starts_with_padding`, the symbol that begins a translation is padding there, and two ids have its row.
    """

    source: list[int]
    target: list[int]
    starts_with_padding: bool


def read_text(source: Path, fields: Fields) -> tuple[Subwords, Rows]:
    """Read the tokenizer; raises `CheckpointError` where a file is missing or damaged."""
    settings = (
        _object(source / "tokenizer_config.json") if (source / "tokenizer_config.json").is_file() else {}
    )
    separate = settings.get("separate_vocabs") is True
    sizes = fields.vocab_size, fields.decoder_vocab_size or fields.vocab_size
    names = ("vocab.json", "target_vocab.json") if separate else ("vocab.json",)
    lists, rows = [], []
    for name, size in zip(names, sizes, strict=False):
        pieces, order = _numbered(_vocabulary(source / name, size), fields, source / name)
        lists.append(pieces)
        rows.append(order)
    if not separate and sizes[0] != sizes[1]:
        raise CheckpointError(
            f"{source / 'config.json'}: expected one size of one vocabulary, "
            f"found vocab_size {sizes[0]} and decoder_vocab_size {sizes[1]}"
        )
    models = read_file(source / "source.spm"), read_file(source / "target.spm")
    _check_banned(fields, source)
    start = _start(fields)
    text = _subwords(models, lists, str(source))
    return text, Rows(rows[0], rows[-1], start == fields.pad_token_id)


def _start(fields: Fields) -> int:
    return fields.pad_token_id if fields.decoder_start_token_id is None else fields.decoder_start_token_id


def _subwords(models: tuple[bytes, bytes], lists: list[tuple[str, ...]], origin: str) -> Subwords:
    """Return the subwords, without a numbering if the models number their pieces alike."""
    own = [_own_pieces(model, origin) for model in models]
    has_codes = any(piece.startswith(">>") and piece.endswith("<<") for piece in lists[0])
    if len(lists) == 1 and models[0] == models[1] and own[0] == lists[0] and not has_codes:
        return Subwords(models[0], origin=origin)
    if len(lists) == 2 and own == lists and not has_codes:
        return Subwords(*models, origin=origin)
    numbering = Numbering(lists[0], lists[1] if len(lists) == 2 else None, codes=True)
    return Subwords(*models, numbering, origin=origin)


def _own_pieces(model: bytes, origin: str) -> tuple[str, ...]:
    """Return the pieces of a SentencePiece model with Headwise's special ids; none for another model."""
    processor = open_processor(model, origin)
    ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    return tuple(processor.id_to_piece(list(range(processor.vocab_size())))) if ids == SPECIAL else ()


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


def _numbered(pieces: list[str], fields: Fields, file: Path) -> tuple[tuple[str, ...], list[int]]:
    """Return the pieces in Headwise's order and the rows that they have in the original."""
    if _UNKNOWN not in pieces:
        raise CheckpointError(f"{file}: expected the piece {_UNKNOWN}, found none")
    special = [fields.pad_token_id, pieces.index(_UNKNOWN), _start(fields), fields.eos_token_id]
    if max(special) >= len(pieces) or len(set(special)) < 4 - (special[0] == special[2]):
        raise CheckpointError(
            f"{file}: expected different ids below {len(pieces)} for padding, unknown, begin and end, "
            f"found {', '.join(map(str, special))}"
        )
    rows = [*special, *(number for number in range(len(pieces)) if number not in special)]
    rest = [
        f"<unused {number}>" if pieces[number] in SPECIAL_PIECES else pieces[number] for number in rows[4:]
    ]
    return (*SPECIAL_PIECES, *rest), rows


def _check_banned(fields: Fields, source: Path) -> None:
    """Raise `CheckpointError` for pieces that the model may not generate, besides the special ones."""
    allowed = ([fields.pad_token_id], [_start(fields)])
    for word in fields.bad_words_ids or []:
        if word not in allowed:
            raise CheckpointError(
                f"{source}: bad_words_ids: expected the padding and begin symbols alone, found {word[:10]}"
            )
    if fields.forced_bos_token_id is not None:
        raise CheckpointError(
            f"{source}: forced_bos_token_id: expected none, found {fields.forced_bos_token_id}"
        )
