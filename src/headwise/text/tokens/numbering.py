"""Subwords whose ids a vocabulary assigns: SentencePiece splits the text, and a list numbers the pieces.

Marian, fairseq, JoeyNMT and CTranslate2 keep such a list beside the SentencePiece model, one for both languages or one
for each. Pieces that aren't in it are unknown. `headwise import` brings them into Headwise; the ids 0 to 3 are padding,
unknown, beginning and end of a sentence there, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import sentencepiece

from headwise.bounds import VOCABULARY
from headwise.errors import CheckpointError
from headwise.parsing.json_text import parse_object

FILE = "vocabulary.json"  # in a run directory, beside the SentencePiece models
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")  # pieces of the ids 0 to 3
_UNK = 1
_MOST_SYMBOLS = 10_000
_LONGEST_SYMBOL = 64  # characters
_SPACE = "\u2581"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class Numbering:
    """The pieces in the order of their ids.

    Attributes:
        source: pieces of the source language, or of both.
        target: pieces of the target language; None for one vocabulary of both languages.
        codes: whether a text may begin with a language code such as `>>deu<<`, which is one piece.
        symbols: pieces that are found in a text before it is split, such as T5's `<extra_id_0>`.
    """

    source: tuple[str, ...]
    target: tuple[str, ...] | None = None
    codes: bool = False
    symbols: tuple[str, ...] = ()

    @classmethod
    def parse(cls, content: bytes, origin: str) -> Numbering:
        """Parse the file; raises `CheckpointError` if it is damaged."""
        fields = parse_object(content, origin, error=CheckpointError)
        known = {"source", "target", "codes", "symbols"}
        if fields.keys() - known or not isinstance(fields.get("codes", False), bool):
            raise CheckpointError(
                f"{origin}: expected source, target, codes and symbols, found {', '.join(fields)}"
            )
        lists = [_pieces(fields.get("source"), f"{origin}: source")]
        if fields.get("target") is not None:
            lists.append(_pieces(fields["target"], f"{origin}: target"))
        symbols = _symbols(fields.get("symbols", []), lists, f"{origin}: symbols")
        return cls(*lists, codes=fields.get("codes", False), symbols=symbols)

    def content(self) -> bytes:
        """Return the bytes of the file."""
        fields: dict[str, Any] = {"codes": self.codes, "source": self.source}
        if self.target is not None:
            fields["target"] = self.target
        if self.symbols:
            fields["symbols"] = self.symbols
        return (json.dumps(fields, ensure_ascii=False, indent=0) + "\n").encode()


def _pieces(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(piece, str) for piece in value):
        raise CheckpointError(f"{place}: expected a list of pieces, found another value")
    if not len(SPECIAL_PIECES) < len(value) <= VOCABULARY or len(set(value)) != len(value):
        raise CheckpointError(
            f"{place}: expected {len(SPECIAL_PIECES) + 1} to {VOCABULARY} different pieces, "
            f"found {len(value)}, {len(set(value))} of them different"
        )
    if tuple(value[: len(SPECIAL_PIECES)]) != SPECIAL_PIECES:
        raise CheckpointError(f"{place}: expected the first pieces to be {', '.join(SPECIAL_PIECES)}")
    return tuple(value)


def _symbols(value: Any, lists: Sequence[tuple[str, ...]], place: str) -> tuple[str, ...]:
    ordinary = set.intersection(*(set(pieces[len(SPECIAL_PIECES) :]) for pieces in lists))
    if not isinstance(value, list) or not all(isinstance(s, str) and s in ordinary for s in value):
        raise CheckpointError(f"{place}: expected a list of pieces, found another value")
    if len(value) > _MOST_SYMBOLS or any(len(symbol) > _LONGEST_SYMBOL for symbol in value):
        raise CheckpointError(
            f"{place}: expected at most {_MOST_SYMBOLS} of at most {_LONGEST_SYMBOL} characters, found more"
        )
    return tuple(value)


class NumberedProcessor:
    """A SentencePiece model with other ids; it has the methods of `SentencePieceProcessor` that Headwise uses."""

    def __init__(
        self, model: bytes, pieces: Sequence[str], *, codes: bool, symbols: Sequence[str], origin: str
    ) -> None:
        """Read a serialized model; raises `CheckpointError` if it is damaged."""
        self._processor = open_processor(model, origin)
        self._pieces = list(pieces)
        self._ids = {piece: number for number, piece in enumerate(pieces)}
        for special in SPECIAL_PIECES:  # the text `</s>` isn't the end of a sentence
            del self._ids[special]
        self._codes = codes
        self._symbols = re.compile(f"({'|'.join(map(re.escape, symbols))})") if symbols else None

    def vocab_size(self) -> int:
        """Return the number of ids."""
        return len(self._pieces)

    @overload
    def encode(self, text: str, num_threads: int = 1) -> list[int]: ...
    @overload
    def encode(self, text: list[str], num_threads: int = 1) -> list[list[int]]: ...
    def encode(self, text: str | list[str], num_threads: int = 1) -> list[int] | list[list[int]]:
        """Encode a text, or each of a list; a piece that has no id is unknown."""
        if isinstance(text, str):
            return self.encode([text], num_threads)[0]
        if self._symbols is not None:
            return [self._encode_around(self._symbols, each) for each in text]
        return self._encode_parts(text, num_threads)

    def _encode_around(self, symbols: re.Pattern[str], text: str) -> list[int]:
        """Encode a text with symbols, which are every other part of it."""
        parts = symbols.split(text)
        encoded = iter(self._encode_parts(parts[::2], 1))
        return [
            number
            for index, part in enumerate(parts)
            for number in (next(encoded) if index % 2 == 0 else [self._ids[part]])
        ]

    def _encode_parts(self, text: list[str], num_threads: int) -> list[list[int]]:
        parts = [self._without_code(each) for each in text]
        split = self._processor.encode([rest for _, rest in parts], out_type=str, num_threads=num_threads)
        find = self._ids.get
        return [
            [find(piece, _UNK) for piece in (*code, *pieces)]
            for (code, _), pieces in zip(parts, split, strict=True)
        ]

    def _without_code(self, text: str) -> tuple[list[str], str]:
        """Split off a language code at the beginning."""
        end = text.find("<<") if self._codes and text.startswith(">>") else -1
        return ([], text) if end < 0 else ([text[: end + 2]], text[end + 2 :])

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids; unknown becomes ` ⁇ `."""
        text: str = self._processor.decode([self._pieces[number] for number in ids])
        return text.replace(_SPACE, " ").strip()

    def normalize(self, text: str) -> str:
        """Normalize a text as the model does before it splits it."""
        return self._processor.normalize(text)

    @overload
    def id_to_piece(self, number: int) -> str: ...
    @overload
    def id_to_piece(self, number: list[int]) -> list[str]: ...
    def id_to_piece(self, number: int | list[int]) -> str | list[str]:
        """Return the piece of an id, or those of a list."""
        return self._pieces[number] if isinstance(number, int) else [self._pieces[n] for n in number]

    def is_byte(self, number: int) -> bool:
        """Whether the piece of an id is one byte."""
        piece = self._pieces[number]
        return bool(_BYTE.fullmatch(piece)) and self._processor.is_byte(self._processor.piece_to_id(piece))


def open_processor(model: bytes, origin: str) -> sentencepiece.SentencePieceProcessor:
    """Parse a serialized SentencePiece model; raises `CheckpointError` if it is damaged."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        if not model:
            raise RuntimeError("it is empty")
        processor.LoadFromSerializedProto(model)
        processor.id_to_piece(list(range(processor.get_piece_size())))
    except RuntimeError:
        raise CheckpointError(f"{origin}: expected a SentencePiece model, found a damaged file") from None
    except UnicodeDecodeError:
        raise CheckpointError(f"{origin}: expected subwords in UTF-8, found a damaged file") from None
    return processor
