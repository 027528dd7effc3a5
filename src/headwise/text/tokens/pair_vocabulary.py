"""Subwords whose ids a vocabulary assigns: SentencePiece or another program splits the text, a list numbers the pieces.

Marian and CTranslate2 keep such a list beside the SentencePiece model, one for both languages or one for each. Pieces
that aren't in it are unknown. `headwise import` brings them into Headwise; the ids 0 to 3 are padding, unknown,
beginning and end of a sentence there, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from headwise.bounds import VOCABULARY
from headwise.config.data import SPECIAL_PIECES
from headwise.config.languages import is_code, short_code
from headwise.errors import CheckpointError, ConfigError
from headwise.parsing import parse_object
from headwise.text.tokens.splitting import SPACE, SPLITS, Split, make_splitter, symbol_pattern

FILE = "vocabulary.json"  # in a run directory, beside the SentencePiece models
_UNK = 1
_FLAGS = ("codes", "lowercase", "limited")
_KEYS = ("source", "target", "split", "symbols", "language", "tagged", *_FLAGS)
_MOST_SYMBOLS = 10_000
_LONGEST_SYMBOL = 64  # characters
_CODE = re.compile(r">>[^<>]+<<")
_NAMED = 8  # codes in a message

Side = Literal["source", "target"]


@dataclass(frozen=True)
class PairVocabulary:
    """The pieces in the order of their ids."""

    source: tuple[str, ...]  # pieces of the source language, or of both
    target: tuple[str, ...] | None = None  # None for one vocabulary of both languages
    codes: bool = False  # whether a text may begin with a language code such as `>>deu<<`, which is one piece
    split: Split = "sentencepiece"  # what splits a text into pieces; `words` and `characters` need no model
    lowercase: bool = False  # whether a text is lower-cased before it is split
    limited: bool = False  # whether byte pairs that aren't in the list are split further where they can be
    symbols: tuple[str, ...] = ()  # found in a text before it is split, such as T5's `<extra_id_0>`
    language: str = ""  # code that is put before every text of one side that has none; empty for none
    tagged: Side = "source"  # side of the texts whose code names the language of the translation

    @property
    def tagged_pieces(self) -> tuple[str, ...]:
        """The pieces of the side whose texts name the language."""
        return self.source if self.tagged == "source" or self.target is None else self.target

    @property
    def languages(self) -> list[str]:
        """The language codes that a text may begin with."""
        codes = [piece for piece in self.tagged_pieces if _CODE.fullmatch(piece)]
        return codes if not self.language or self.language in codes else [self.language, *codes]

    @property
    def languages_by_code(self) -> dict[str, str]:
        """The pieces of `languages` whose names have the form of language codes, by their codes: de for `>>deu<<`."""
        codes = {short_code(piece.strip("<>")): piece for piece in reversed(self.languages)}
        return {code: piece for code, piece in reversed(codes.items()) if is_code(code)}

    @property
    def language_code(self) -> str | None:
        """The code of the chosen language, if it has one in `languages_by_code`."""
        return next((code for code, piece in self.languages_by_code.items() if piece == self.language), None)

    def find_language(self, name: str) -> str:
        """Return the piece of a language, given as a piece or without `>>` and `<<`; raises `ConfigError`.

        Letters alone, such as `de`, are a part of words, unless the piece of the chosen language has no others, either.
        """
        for piece in (f">>{name}<<", name):
            if piece in self.tagged_pieces[len(SPECIAL_PIECES) :] and (not _is_word(piece) or _is_word(self.language)):
                return piece
        known = self.languages
        more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
        expected = f"{', '.join(known[:_NAMED]) or 'it has none'}{more}"
        raise ConfigError(
            f"--target-language: expected a language code of this vocabulary ({expected}), found {name[:60]!r}"
        )

    @classmethod
    def parse(cls, content: bytes, origin: str) -> PairVocabulary:
        """Parse the file; raises `CheckpointError` if it is damaged."""
        fields = parse_object(content, origin, error=CheckpointError)
        flags = {key: fields[key] for key in _FLAGS if key in fields}
        if fields.keys() - {*_KEYS} or not all(isinstance(flag, bool) for flag in flags.values()):
            raise CheckpointError(f"{origin}: expected {', '.join(_KEYS)}, found {', '.join(fields)[:200]}")
        split = fields.get("split", "sentencepiece")
        if split not in SPLITS:
            raise CheckpointError(f"{origin}: split: expected one of {', '.join(SPLITS)}, found {str(split)[:60]!r}")
        if flags.get("limited") and split != "subword-nmt":
            raise CheckpointError(f"{origin}: limited: expected split subword-nmt with it, found {split}")
        source = _pieces(fields.get("source"), f"{origin}: source")
        stored = fields.get("target")
        target = None if stored is None else _pieces(stored, f"{origin}: target")
        lists = [source] if target is None else [source, target]
        symbols = _symbols(fields.get("symbols", []), lists, f"{origin}: symbols")
        tagged, language = fields.get("tagged", "source"), fields.get("language", "")
        if tagged not in ("source", "target"):
            raise CheckpointError(f"{origin}: tagged: expected source or target, found {str(tagged)[:60]!r}")
        vocabulary = cls(source, target, split=split, symbols=symbols, language=language, tagged=tagged, **flags)
        if language != "" and language not in vocabulary.tagged_pieces[len(SPECIAL_PIECES) :]:
            raise CheckpointError(
                f"{origin}: language: expected a piece of the {tagged} side, found {str(language)[:60]!r}"
            )
        return vocabulary

    def content(self) -> bytes:
        """Return the bytes of the file, without the options that have their defaults."""
        fields: dict[str, Any] = {"codes": self.codes, "source": self.source}
        for key in ("target", "split", "lowercase", "limited", "symbols", "language", "tagged"):
            if getattr(self, key) != getattr(type(self), key):
                fields[key] = getattr(self, key)
        return (json.dumps(fields, ensure_ascii=False, indent=0) + "\n").encode()


def _is_word(piece: str) -> bool:
    return piece.strip(SPACE).isalpha()


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


class VocabularyProcessor:
    """A splitter with ids for its pieces; it has the methods of `SentencePieceProcessor` that Headwise uses."""

    def __init__(self, model: bytes, side: Side, vocabulary: PairVocabulary, origin: str) -> None:
        """Read the model of a side; raises `CheckpointError` if it is damaged.

        `given` are the ids of the codes that name the language of a target, the chosen one first.
        """
        pieces = vocabulary.source if side == "source" or vocabulary.target is None else vocabulary.target
        self._pieces = list(pieces)
        self._ids = {piece: number for number, piece in enumerate(pieces)}
        for special in SPECIAL_PIECES:  # the text `</s>` isn't the end of a sentence
            del self._ids[special]
        known = self._ids.keys() if vocabulary.limited else None
        self._splitter = make_splitter(vocabulary.split, model, origin, lowercase=vocabulary.lowercase, known=known)
        self._codes = vocabulary.codes
        self._language = self._ids[vocabulary.language] if vocabulary.language and vocabulary.tagged == side else None
        self._side: Side = side
        self.given: tuple[int, ...] = ()
        if self._language is not None and side == "target":
            others = (self._ids[code] for code in vocabulary.languages if code != vocabulary.language)
            self.given = (self._language, *others)
        self._symbols = symbol_pattern(vocabulary.symbols)

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
            encoded = [self._encode_around(self._symbols, each) for each in text]
        else:
            encoded = self._encode_parts(text, num_threads)
        if self._language is None:
            return encoded
        return [self._with_language(self._language, each, ids) for each, ids in zip(text, encoded, strict=True)]

    def _encode_around(self, symbols: re.Pattern[str], text: str) -> list[int]:
        """Encode a text with symbols, which are every other part of it."""
        parts = symbols.split(text)
        encoded = iter(self._encode_parts(parts[::2], 1))
        return [
            number
            for index, part in enumerate(parts)
            for number in (next(encoded) if index % 2 == 0 else [self._ids[part]])
        ]

    def _with_language(self, language: int, text: str, ids: list[int]) -> list[int]:
        """Put the language code first, unless the text names one; a source without subwords stays empty."""
        if self._without_code(text)[0] or (self._side == "source" and not ids):
            return ids
        return [language, *ids]

    def _encode_parts(self, text: list[str], num_threads: int) -> list[list[int]]:
        parts = [self._without_code(each) for each in text]
        split = self._splitter.split([rest for _, rest in parts], num_threads)
        find = self._ids.get
        return [
            [find(piece, _UNK) for piece in (*code, *pieces)] for (code, _), pieces in zip(parts, split, strict=True)
        ]

    def _without_code(self, text: str) -> tuple[list[str], str]:
        """Split off a language code at the beginning."""
        end = text.find("<<") if self._codes and text.startswith(">>") else -1
        return ([], text) if end < 0 else ([text[: end + 2]], text[end + 2 :])

    def segment(self, texts: Sequence[str]) -> list[list[str]]:
        """Split texts, without their language codes, into pieces, whether these have ids or not."""
        return self._splitter.split([self._without_code(text)[1] for text in texts], num_threads=1)

    def find(self, piece: str) -> int:
        """Return the id of a piece, that of unknown if it has none."""
        return self._ids.get(piece, _UNK)

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids; SentencePiece decodes unknown as ` ⁇ `. The code that encoding puts before a text is left out."""
        return self.decode_pieces([self._pieces[number] for number in self.without_language(ids)])

    def decode_pieces(self, pieces: Sequence[str]) -> str:
        """Return the text of pieces."""
        return self._splitter.join(pieces)

    def without_language(self, ids: Sequence[int]) -> Sequence[int]:
        """Leave out the code that encoding puts before a text."""
        return ids[1:] if ids and (ids[0] in self.given or ids[0] == self._language) else ids

    def normalize(self, text: str) -> str:
        """Normalize a text as before it is split."""
        return self._splitter.normalize(text)

    @overload
    def id_to_piece(self, number: int) -> str: ...
    @overload
    def id_to_piece(self, number: list[int]) -> list[str]: ...
    def id_to_piece(self, number: int | list[int]) -> str | list[str]:
        """Return the piece of an id, or those of a list."""
        return self._pieces[number] if isinstance(number, int) else [self._pieces[n] for n in number]

    def is_byte(self, number: int) -> bool:
        """Whether the piece of an id is one byte."""
        return self._splitter.is_byte(self._pieces[number])
