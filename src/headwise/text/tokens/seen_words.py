"""The words of encoded text, as hashes: which words of letters a training text has, whatever their case.

A word here is a run of subwords that consist of letters with upper and lower case; a space, a digit or any other
character ends it. Scripts without case, many of which don't separate words, are left out. Subwords compose words that
the text lacks, so that a word can be new although each of its subwords is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.data.ragged import Ragged
from headwise.text.tokens.subwords import SPECIAL, Processor

MOST_WORDS = 500_000  # different words of a record, 4 MB; a larger text has no record of its words
_BLOCK = 1 << 22  # ids per step
_FACTOR = 0x9E3779B97F4A7C15  # odd, so that no factor of a position is lost modulo 2^64
_LONGEST = 64  # subwords of a word whose order counts


class Spelling:
    """The letters of each subword of a vocabulary, and whether a word can begin with it."""

    def __init__(self, processor: Processor) -> None:
        pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
        self.letters = [piece.replace("\u2581", "") for piece in pieces]
        special = [i in SPECIAL or processor.is_byte(i) for i in range(len(pieces))]
        self.cased = np.array(
            [
                not other and letters != "" and all(c.lower() != c.upper() for c in letters)
                for letters, other in zip(self.letters, special, strict=True)
            ]
        )
        self.begins = np.array([piece.startswith("\u2581") for piece in pieces])

    def words(self, ids: Sequence[int]) -> Iterator[tuple[int, int, str]]:
        """Yield start, stop and text of each word among ids."""
        start = 0
        for stop in range(1, len(ids) + 1):
            ends = stop == len(ids) or self.begins[ids[stop]] or not self.cased[ids[stop]]
            if not self.cased[ids[stop - 1]]:
                start = stop
            elif ends:
                yield start, stop, "".join(self.letters[i] for i in ids[start:stop])
                start = stop


def word_hash(word: str) -> int:
    """Return the hash of a word, whatever its case, in 64 bits."""
    return int.from_bytes(hashlib.blake2b(word.casefold().encode(), digest_size=8).digest(), "little")


def words_of(table: Ragged, spelling: Spelling) -> NDArray[np.uint64] | None:
    """Return the sorted hashes of a text's words; None if it has more than `MOST_WORDS`."""
    values, known, hashes = table.values, set[int](), set[int]()
    start = 0
    while start < len(values):
        stop = min(start + _BLOCK, len(values))
        longest = min(stop + _BLOCK, len(values))
        while stop < longest and not spelling.begins[values[stop]]:
            stop += 1  # a block ends where a word does
        for word, key in _distinct(np.asarray(values[start:stop], dtype=np.int64), spelling, known):
            known.add(key)
            hashes.add(word_hash(word))
        if len(hashes) > MOST_WORDS:
            return None
        start = stop
    return np.sort(np.fromiter(hashes, np.uint64, len(hashes)))


def _distinct(ids: NDArray[np.int64], spelling: Spelling, known: set[int]) -> Iterator[tuple[str, int]]:
    """Yield each different sequence of ids that makes a word, as text, with a key; those in `known` are left out."""
    cased = spelling.cased[ids]
    begins = cased & (spelling.begins[ids] | ~np.concatenate([[False], cased[:-1]]))
    within, starts = ids[cased], np.flatnonzero(begins[cased])
    if not len(starts):
        return
    lengths = np.diff(np.append(starts, len(within)))
    places = np.minimum(np.arange(len(within)) - np.repeat(starts, lengths), _LONGEST - 1)
    factors = np.cumprod(np.full(_LONGEST, _FACTOR, dtype=np.uint64))
    keys = np.add.reduceat((within + 1).astype(np.uint64) * factors[places], starts)
    for key, index in zip(*np.unique(keys, return_index=True), strict=True):
        if int(key) not in known:
            word = within[starts[index] : starts[index] + lengths[index]]
            yield "".join(spelling.letters[i] for i in word), int(key)
