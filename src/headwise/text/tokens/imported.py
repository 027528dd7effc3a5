"""Vocabularies of other toolkits for single texts: `tokenizer.json` of the `tokenizers` library, with Headwise's ids.

The file in a run directory is one of that library, renumbered: padding, unknown, beginning and end of a text are the
ids 0 to 3, then come `<mask>`, if the model knows it, the line end, if it is a piece of its own, and the other pieces.
A symbol that the model lacks is there under a name that begins with `<no `, so that ids 0 to 3 always are special.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from headwise.config.data import SPECIAL_PIECES
from headwise.errors import CheckpointError
from headwise.extras import needed_by
from headwise.parsing import read_bounded
from headwise.text.tokens.splitting import SPACE
from headwise.text.tokens.subwords import BOS, EOS, SPECIAL, UNK
from headwise.text.tokens.tokenizer_json import MOST_BYTES, opening_piece, parse_tokenizer, parts_of
from headwise.text.tokens.vocabulary import LINE_END, MASK, TOKENIZER_FILE, Vocabulary

MISSING = tuple(f"<no {piece[1:]}" for piece in SPECIAL_PIECES)  # names of symbols that a model lacks
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_CONTINUATION = "##"


class ImportedVocabulary(Vocabulary):
    """The vocabulary of a tokenizer.json with Headwise's ids.

    A text can't contain the special symbols or `<mask>`, whatever it says. White space is lost where the tokenizer
    drops it, as WordPiece does.
    """

    def __init__(self, content: bytes, *, origin: str = TOKENIZER_FILE) -> None:
        """Parse a file; raises `CheckpointError` if it is damaged, or `ConfigError` without the library."""
        self._content = content
        tree = parse_tokenizer(content, origin)
        vocabulary = tree["model"]["vocab"]
        self.size = len(vocabulary)
        self._pieces = sorted(vocabulary, key=vocabulary.__getitem__)
        if max(vocabulary.values()) >= self.size or self.size <= len(SPECIAL):
            raise CheckpointError(f"{origin}: expected the ids 0 to {self.size - 1}, found {max(vocabulary.values())}")
        special = {token["id"] for token in tree["added_tokens"] if token.get("special") is True}
        self.symbols = (MASK,) if len(SPECIAL) in special else ()
        self.missing = tuple(i for i in SPECIAL if self._pieces[i] == MISSING[i])
        opening = opening_piece(tree)
        if opening is not None and opening not in vocabulary:
            raise CheckpointError(
                f"{origin}: post_processor: expected a piece of the vocabulary, found {opening[:40]!r}"
            )
        self.opens = opening is not None
        self.begin = EOS if BOS in self.missing else BOS
        self.begin = self.begin if opening is None else vocabulary[opening]
        self.spelling = spelling_of(tree, origin)
        self.leads = self.spelling == "spaces"
        ordinary = [token for token in tree["added_tokens"] if token["id"] >= self.ordinary]
        bare = tree | {"added_tokens": ordinary, "post_processor": None, "decoder": None}
        self._tokenizer = _guarded(lambda: library().from_str(json.dumps(bare)), origin)
        self._added = {token["content"] for token in ordinary}
        self._origin = origin

    @classmethod
    def load(cls, file: Path) -> ImportedVocabulary:
        """Read a file; raises `CheckpointError` and `ConfigError`."""
        content = read_bounded(file, MOST_BYTES, CheckpointError, "a tokenizer of the library tokenizers")
        return cls(content, origin=str(file))

    @property
    def line_end(self) -> int:
        """Return the id of the line end, or of the end of a text if line ends aren't pieces."""
        return self.ordinary if self.spelled(self.ordinary) == LINE_END.encode() else EOS

    @property
    def lowercases(self) -> bool:
        """Whether it lower-cases what it encodes."""
        normalizer = self._tokenizer.normalizer
        return normalizer is not None and normalizer.normalize_str("A") == "a"

    def outside(self, documents: bool) -> list[int]:
        """Return the ids that aren't outputs of the model, and the end of a text where lines aren't documents."""
        return [*self.missing, *([] if documents else [EOS])]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:  # noqa: D102
        encoded = _guarded(lambda: self._tokenizer.encode_batch(list(texts), add_special_tokens=False), self._origin)
        first = self.ordinary
        return [[i if i >= first else UNK for i in each.ids] for each in encoded]

    def piece(self, number: int) -> str:  # noqa: D102
        if number < self.ordinary:
            return (*SPECIAL_PIECES, *self.symbols)[number]
        return self._pieces[number]

    def _spelled(self, number: int) -> bytes:
        piece = self._pieces[number]
        if piece in self._added:
            return piece.encode()
        return spell(piece, self.spelling)

    def decode(self, ids: Iterable[int]) -> str:
        """Decode ids to text; invalid UTF-8 becomes U+FFFD. A text of words begins without a space."""
        text = super().decode(ids)
        return text.removeprefix(" ") if self.spelling == "words" else text

    def appended(self, text: str, number: int) -> str:
        """Return a text with that of an id after it, without a space before the continuation of a word."""
        if self.spelling == "words" and self._pieces[number].startswith(_CONTINUATION):
            text = text.removesuffix(" ")
        return super().appended(text, number)

    def content(self) -> tuple[str, bytes]:  # noqa: D102
        return TOKENIZER_FILE, self._content


def spelling_of(tree: Mapping[str, Any], origin: str) -> str:
    """Return how pieces spell text: `words` (WordPiece), `bytes` (byte-level), `spaces` (with U+2581) or `plain`."""
    kinds = [part.get("type") for part in parts_of(tree, "decoder")]
    if tree["model"]["type"] == "WordPiece":
        prefix = tree["model"].get("continuing_subword_prefix", _CONTINUATION)
        if prefix != _CONTINUATION:
            raise CheckpointError(
                f"{origin}: model.continuing_subword_prefix: expected {_CONTINUATION!r}, found {str(prefix)[:60]!r}"
            )
        return "words"
    if "ByteLevel" in kinds:
        return "bytes"
    if {"Metaspace", "ByteFallback", "Replace"} & set(kinds):
        return "spaces"
    if tree["model"]["type"] == "WordLevel":
        return "plain"
    raise CheckpointError(
        f"{origin}: decoder: expected ByteLevel, Metaspace or ByteFallback, "
        f"found {', '.join(map(str, kinds)) or 'none'}"
    )


def spell(piece: str, spelling: str) -> bytes:
    """Return the bytes of a piece, given `spelling_of` its tokenizer."""
    if spelling == "bytes":
        table = _byte_of()
        return bytes(table[c] for c in piece) if all(c in table for c in piece) else piece.encode()
    if spelling == "words":
        word = piece.removeprefix(_CONTINUATION)
        return (word if word != piece else f" {piece}").encode()
    if spelling == "spaces":
        byte = _BYTE.fullmatch(piece)
        return bytes([int(byte[1], 16)]) if byte else piece.replace(SPACE, " ").encode()
    return piece.encode()


@cache
def _byte_of() -> dict[str, int]:
    """Return the byte of each character of byte-level pieces (Radford et al. 2019).

    A byte that is a visible character of Latin-1 is that character; the others are the characters from U+0100 on.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + i): byte for i, byte in enumerate(hidden)}


def library() -> Any:
    """Return the class `tokenizers.Tokenizer`; raises `ConfigError` if the library isn't installed."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # one thread, as everywhere
    with needed_by("tokenizer.json"):
        from tokenizers import Tokenizer
    return Tokenizer


def _guarded(call: Callable[[], Any], origin: str) -> Any:
    """Call the library; its plain exceptions, and the panics of its Rust code, become `CheckpointError`."""
    try:
        return call()
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{origin}: expected a tokenizer.json, found a damaged one ({reason})") from None
