"""How imported vocabularies split a text into pieces: SentencePiece, byte pairs within words, words or characters.

Byte pairs are those of subword-nmt (Sennrich et al. 2016, "Neural machine translation of rare words with subword
units", section 3.2) and of fastBPE, which applies them in the same way.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from typing import Literal

import sentencepiece

from headwise.bounds import VOCABULARY
from headwise.errors import CheckpointError

Split = Literal["sentencepiece", "subword-nmt", "words", "characters"]
SPLITS: tuple[Split, ...] = ("sentencepiece", "subword-nmt", "words", "characters")
SPACE = "\u2581"  # in pieces of SentencePiece
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_SEPARATOR = "@@"  # ends a piece that the next one continues
_END = "</w>"  # ends a word
_CACHED = 100_000  # words


def symbol_pattern(symbols: Collection[str]) -> re.Pattern[str] | None:
    """Return what finds symbols before a text is split, the longest of those that begin at a place; None for none."""
    listed = "|".join(map(re.escape, sorted(symbols, key=len, reverse=True)))
    return re.compile(f"({listed})") if symbols else None


def make_splitter(
    split: Split, model: bytes, origin: str, *, lowercase: bool, known: Collection[str] | None
) -> Splitter:
    """Return a splitter; `model` is the file of SentencePiece or of the byte pairs.

    With `known`, a piece of byte pairs that isn't among these is split further. Raises `CheckpointError` if the file is
    damaged.
    """
    if split == "sentencepiece":
        return _SentencePiece(model, origin, lowercase=lowercase)
    if split == "subword-nmt":
        return _BytePairs(model, origin, lowercase=lowercase, known=known)
    return Splitter(lowercase=lowercase) if split == "words" else _Characters(lowercase=lowercase)


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


class Splitter:
    """A way to split texts into pieces and to join them; this one is for tokenized text, at white space."""

    def __init__(self, *, lowercase: bool) -> None:
        self._lowercase = lowercase

    def split(self, texts: Sequence[str], num_threads: int) -> list[list[str]]:
        """Split each text."""
        return [self._pieces(self.normalize(text)) for text in texts]

    def _pieces(self, text: str) -> list[str]:
        return text.split()

    def join(self, pieces: Sequence[str]) -> str:
        """Invert `split`."""
        return " ".join(pieces)

    def normalize(self, text: str) -> str:
        """Normalize a text as it is before it is split."""
        return text.lower() if self._lowercase else text

    def is_byte(self, piece: str) -> bool:
        """Whether a piece is one byte."""
        return False


class _Characters(Splitter):
    """Each character is a piece, and a space is `▁`."""

    def _pieces(self, text: str) -> list[str]:
        return list(text.replace(" ", SPACE))

    def join(self, pieces: Sequence[str]) -> str:
        return "".join(pieces).replace(SPACE, " ")


class _SentencePiece(Splitter):
    def __init__(self, model: bytes, origin: str, *, lowercase: bool) -> None:
        super().__init__(lowercase=lowercase)
        self._processor = open_processor(model, origin)

    def split(self, texts: Sequence[str], num_threads: int) -> list[list[str]]:
        lines = [super(_SentencePiece, self).normalize(text) for text in texts]
        return self._processor.encode(lines, out_type=str, num_threads=num_threads)

    def join(self, pieces: Sequence[str]) -> str:
        text: str = self._processor.decode(list(pieces))
        return text.replace(SPACE, " ").strip()

    def normalize(self, text: str) -> str:
        return self._processor.normalize(super().normalize(text))

    def is_byte(self, piece: str) -> bool:
        return bool(_BYTE.fullmatch(piece)) and self._processor.is_byte(self._processor.piece_to_id(piece))


class _BytePairs(Splitter):
    """Pairs of neighbours are joined within each word, the most frequent of training first."""

    def __init__(self, model: bytes, origin: str, *, lowercase: bool, known: Collection[str] | None) -> None:
        super().__init__(lowercase=lowercase)
        self._ranks = _read_pairs(model, origin)
        self._parts = {first + second: (first, second) for first, second in reversed(self._ranks)}
        self._known = None if known is None else frozenset(known)
        self._cache: dict[str, list[str]] = {}

    def _pieces(self, text: str) -> list[str]:
        return [piece for word in text.split() for piece in self._word(word)]

    def _word(self, word: str) -> list[str]:
        """Return the pieces of a word, all but the last marked as continued."""
        if word not in self._cache:
            if len(self._cache) >= _CACHED:
                self._cache.clear()
            parts = self._merged([*word[:-1], word[-1] + _END])
            if self._known is not None:
                last = len(parts) - 1
                parts = [p for n, part in enumerate(parts) for p in self._split_unknown(part, n == last)]
            self._cache[word] = [*(part + _SEPARATOR for part in parts[:-1]), parts[-1].removesuffix(_END)]
        return self._cache[word]

    def _merged(self, parts: list[str]) -> list[str]:
        while len(parts) > 1:
            best = min(itertools.pairwise(parts), key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if best not in self._ranks:
                break
            place = 0
            while place < len(parts) - 1:
                if (parts[place], parts[place + 1]) == best:
                    parts[place : place + 2] = ["".join(best)]
                place += 1
        return parts

    def _split_unknown(self, part: str, last: bool) -> list[str]:
        """Undo merges of a part until each piece is known, or is a character."""
        assert self._known is not None
        pieces: list[str] = []
        waiting = [(part, last)]
        while waiting:
            part, last = waiting.pop()
            shown = part.removesuffix(_END) if last else part + _SEPARATOR
            if shown in self._known or part not in self._parts:
                pieces.append(part)
            else:
                first, second = self._parts[part]
                waiting += [(second, last), (first, False)]
        return pieces

    def join(self, pieces: Sequence[str]) -> str:
        return " ".join(pieces).replace(_SEPARATOR + " ", "").removesuffix(_SEPARATOR)


def _read_pairs(model: bytes, origin: str) -> dict[tuple[str, str], int]:
    """Return the rank of each pair; raises `CheckpointError` naming the line at fault.

    subword-nmt writes a line with its version and two fields, fastBPE a third field with the frequency.
    """
    try:
        lines = model.decode("utf-8-sig").rstrip("\n").split("\n")
    except UnicodeDecodeError:
        raise CheckpointError(f"{origin}: expected byte pairs in UTF-8, found other bytes") from None
    first = 0
    if lines[0].startswith("#version:"):
        if lines[0].split(":")[1].strip() != "0.2":
            raise CheckpointError(f"{origin}: expected #version: 0.2, found {lines[0][:40]!r}")
        first = 1
    ranks: dict[tuple[str, str], int] = {}
    if len(lines) > VOCABULARY:
        raise CheckpointError(f"{origin}: expected at most {VOCABULARY} byte pairs, found {len(lines)}")
    for number, line in enumerate(lines[first:], start=first + 1):
        fields = line.rstrip("\r ").split(" ")
        if len(fields) not in ((2,) if first else (3,)) or not all(fields):
            expected = "two pieces" if first else "two pieces and a frequency, or #version: 0.2 in the first line"
            raise CheckpointError(f"{origin} line {number}: expected {expected}, found {line[:60]!r}")
        ranks.setdefault((fields[0], fields[1]), len(ranks))
    return ranks
