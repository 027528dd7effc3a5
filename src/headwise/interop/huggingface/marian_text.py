"""The tokenizer of a Marian directory, in and out: `source.spm`, `target.spm`, and `vocab.json` with the numbers.

`added_tokens.json` has the numbers of tokens that somebody added to the tokenizer, which are found in a text before it
is split.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwise.config.data import SPECIAL_PIECES
from headwise.errors import CheckpointError
from headwise.files import write_bytes, write_text
from headwise.interop.base import Trained
from headwise.interop.huggingface.keys import SymbolKeys, as_json, read_tree
from headwise.interop.huggingface.tokenizer import ADDED, read_added, read_settings
from headwise.interop.pieces import Rows, arranged, make_subwords
from headwise.text.tokens.subwords import PAD, UNK, Subwords, read_file

_SUPPRESSED = ("suppress_tokens", "begin_suppress_tokens")
_PADDING, _UNKNOWN = SPECIAL_PIECES[PAD], SPECIAL_PIECES[UNK]


def read_text(source: Path, fields: SymbolKeys, sizes: tuple[int, int]) -> tuple[Subwords, list[Rows]]:
    """Read the tokenizer, and the rows of each list of pieces; `sizes` are those of the embeddings.

    Raises `CheckpointError` for a damaged file.
    """
    settings = read_settings(source)
    separate = settings.get("separate_vocabs") is True
    names = ("vocab.json", "target_vocab.json") if separate else ("vocab.json",)
    added = read_added(source)
    contents = [read_tree(source / name) for name in names]
    if not separate:
        contents[0] = added | contents[0]
    elif more := next((piece for piece in added if piece not in contents[0]), None):
        raise CheckpointError(
            f"{source / ADDED}: expected no tokens beside those of two vocabularies, found {more[:60]!r}"
        )
    lists: list[tuple[str, ...]] = []
    rows: list[Rows] = []
    for name, content, size in zip(names, contents, sizes, strict=False):
        pieces, order = numbered(placed(content, [""] * size, source / name), fields, source / name)
        lists.append(pieces)
        rows.append(order)
    if not separate and sizes[0] != sizes[1]:
        raise CheckpointError(
            f"{source / 'config.json'}: expected one size of one vocabulary, "
            f"found vocab_size {sizes[0]} and decoder_vocab_size {sizes[1]}"
        )
    models = read_file(source / "source.spm"), read_file(source / "target.spm")
    check_banned(fields, rows[-1], source)
    language = _target_language(fields, lists[-1], rows[-1], source)
    symbols = () if separate else added_symbols(added, lists[0])
    text = make_subwords(models, lists, str(source), codes=True, symbols=symbols, target_language=language)
    return text, rows


def languages(source: Path) -> tuple[str | None, str | None]:
    """Return the languages that the tokenizer's settings name; raises `CheckpointError` for a damaged file."""
    settings = read_settings(source)
    named = settings.get("source_lang"), settings.get("target_lang")
    return named[0] if isinstance(named[0], str) else None, named[1] if isinstance(named[1], str) else None


def _start(fields: SymbolKeys) -> int:
    return fields.pad_token_id if fields.decoder_start_token_id is None else fields.decoder_start_token_id


def added_symbols(added: Collection[str], pieces: Sequence[str]) -> tuple[str, ...]:
    """Return those of the tokens that are pieces in Headwise's order, and no special ones."""
    return tuple(piece for piece in pieces[len(SPECIAL_PIECES) :] if piece in added)


def placed(content: Mapping[str, Any], before: Sequence[str], file: Path) -> list[str]:
    """Return the piece of each id, given those of `before`, empty for none, and the ids of more in a file's content.

    Ids that still have none, which pad the matrix, get a name of their own. Raises `CheckpointError` for other ids.
    """
    pieces, known = list(before), {*before}
    for piece, number in content.items():
        if piece in known:
            continue
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(pieces) or pieces[number]:
            raise CheckpointError(
                f"{file}: expected a different id from 0 to {len(pieces) - 1} for each piece, "
                f"found {str(number)[:40]} for {piece[:40]!r}"
            )
        pieces[number] = piece
    return [piece or f"<unused {number}>" for number, piece in enumerate(pieces)]


def numbered(pieces: Sequence[str], fields: SymbolKeys, file: Path) -> tuple[tuple[str, ...], Rows]:
    """Return the pieces in Headwise's order and the rows that they have in the original; raises `CheckpointError`."""
    if _UNKNOWN not in pieces:
        raise CheckpointError(f"{file}: expected the piece {_UNKNOWN}, found none")
    padding = pieces.index(_PADDING) if _PADDING in pieces else fields.pad_token_id
    start = _start(fields)
    special = padding, pieces.index(_UNKNOWN), start, fields.eos_token_id
    begin_is_piece = start < len(pieces) and pieces[start] not in SPECIAL_PIECES
    return arranged(pieces, special, str(file), begin_is_piece=begin_is_piece)


def check_banned(fields: SymbolKeys, rows: Rows, source: Path) -> None:
    """Raise `CheckpointError` for pieces that the model may not generate, besides the special ones."""
    allowed = {*rows.order[: len(SPECIAL_PIECES)], fields.pad_token_id} - {fields.eos_token_id}
    suppressed = {key: [[number] for number in getattr(fields, key)] for key in _SUPPRESSED}
    for key, words in ({"bad_words_ids": fields.bad_words_ids} | suppressed).items():
        for word in words:
            if len(word) != 1 or word[0] not in allowed:
                raise CheckpointError(f"{source}: {key}: expected the special symbols alone, found {word[:10]}")


def _target_language(fields: SymbolKeys, pieces: Sequence[str], rows: Rows, source: Path) -> str:
    """Return the piece that is forced to be the first of a translation, as in mBART; empty for none."""
    forced = fields.forced_bos_token_id
    if forced is None:
        return ""
    if forced not in rows.order[len(SPECIAL_PIECES) :]:
        raise CheckpointError(
            f"{source}: forced_bos_token_id: expected the id of a piece that is no special symbol, found {forced}"
        )
    return pieces[rows.order.index(forced, len(SPECIAL_PIECES))]


def write_added(added: Mapping[str, int], folder: Path) -> None:
    """Write the ids of tokens that are found in a text before it is split, if there are some."""
    if added:
        write_text(folder / ADDED, as_json(added))


def write_tokenizer(trained: Trained, folder: Path) -> None:
    """Write the files of `MarianTokenizer`."""
    subwords = trained.subwords
    source, target = subwords.lists()
    write_text(folder / "vocab.json", as_json({piece: n for n, piece in enumerate(source)}))
    if not subwords.joint:
        write_text(folder / "target_vocab.json", as_json({piece: n for n, piece in enumerate(target)}))
    for name, content in zip(("source.spm", "target.spm"), trained.sentencepiece(), strict=True):
        write_bytes(folder / name, content)
    if subwords.vocabulary is not None:
        write_added({piece: source.index(piece) for piece in subwords.vocabulary.symbols}, folder)
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "model_max_length": trained.config.model.max_length,
        "separate_vocabs": not subwords.joint,
        "source_lang": trained.languages[0] or "source",
        "target_lang": trained.languages[1] or "target",
        "clean_up_tokenization_spaces": False,
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "eos_token": "</s>",
    }
    write_text(folder / "tokenizer_config.json", as_json(settings))
