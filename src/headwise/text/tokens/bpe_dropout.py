"""BPE-dropout (Provilkov et al. 2020, section 3): segment a word by merges of which some are left out at random.

At every step each possible merge is dropped with probability p, and the best of the rest is done, until none is
left. SentencePiece samples too, but its random generator can't be seeded across processes, which exact resume
needs; so the merging is done here, from the pieces and scores of the SentencePiece model. Without dropout the
result equals SentencePiece's own.

Since drops are independent, the merge done is the k-th best of n with probability p^k (1 - p), and none with
p^n: one geometric draw a step. What can follow a segmentation is remembered, so that frequent words cost only a
few draws and look-ups each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import sentencepiece

_SPACE = "\u2581"
_LONGEST_KEPT = 32  # characters; longer words (sentences without spaces) rarely come back
_MOST_KEPT = 500_000  # segmentations remembered before starting afresh


class _Segmentation:
    """A way to write a word, and what each possible merge, best first, makes of it."""

    __slots__ = ("ids", "merged", "pieces", "places")

    def __init__(self, pieces: tuple[str, ...], places: list[int]) -> None:
        self.pieces = pieces
        self.places = places  # the merge joins pieces[place] and pieces[place + 1]
        self.ids: list[int] | None = None  # found when first asked for
        self.merged: list[_Segmentation | None] = [None] * len(places)


class DropoutSegmenter:
    """Segments text with BPE-dropout, by the merges of a SentencePiece BPE model."""

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, dropout: float) -> None:
        """Take the pieces of `processor`; a merge is left out with probability `dropout` (0 to 1)."""
        self.dropout = dropout
        self._processor = processor
        self._unknown = processor.unk_id()
        self._ids: dict[str, int] = {}
        self._scores: dict[str, float] = {}
        self._bytes: list[int] = []
        for index in range(processor.vocab_size()):
            if processor.is_byte(index):
                self._bytes.append(index)
            elif not (processor.is_control(index) or processor.is_unknown(index)):
                self._ids[processor.id_to_piece(index)] = index
                self._scores[processor.id_to_piece(index)] = processor.get_score(index)
        self._kept: dict[tuple[str, ...], _Segmentation] = {}

    def encode_batch(self, texts: Sequence[str], random: np.random.Generator) -> list[list[int]]:
        """Segment sentences; the result depends on the texts and the generator's state alone."""
        draws = self._draws(random)
        return [self._encode(self._processor.normalize(text), draws) for text in texts]

    def _encode(self, text: str, draws: Iterator[int]) -> list[int]:
        ids: list[int] = []
        for word in text.split(_SPACE)[1:]:
            addition = self._segment((_SPACE, *word), draws)
            if ids and addition and ids[-1] == addition[0] == self._unknown:
                addition = addition[1:]  # neighboring unknown characters share one id
            ids += addition
        return ids

    def _draws(self, random: np.random.Generator) -> Iterator[int]:
        """How many of the best merges are dropped before the first that isn't."""
        if not self.dropout:
            return itertools.repeat(0)
        blocks = (random.geometric(1.0 - self.dropout, 1 << 14) - 1 for _ in itertools.count())
        return itertools.chain.from_iterable(block.tolist() for block in blocks)

    def _segment(self, pieces: tuple[str, ...], draws: Iterator[int]) -> list[int]:
        keep = len(pieces) <= _LONGEST_KEPT
        state = self._state(pieces, keep)
        while state.places:
            choice = next(draws)
            if choice >= len(state.places):
                break
            following = state.merged[choice]
            if following is None:
                place = state.places[choice]
                parts = state.pieces
                joined = (*parts[:place], parts[place] + parts[place + 1], *parts[place + 2 :])
                following = self._state(joined, keep)
                if keep:
                    state.merged[choice] = following
            state = following
        if state.ids is None:
            state.ids = self._to_ids(state.pieces)
        return state.ids

    def _state(self, pieces: tuple[str, ...], keep: bool) -> _Segmentation:
        found = self._kept.get(pieces)
        if found is None:
            scores = self._scores
            ranked = []
            for place, pair in enumerate(map(str.__add__, pieces, pieces[1:])):
                if pair in scores:
                    ranked.append((-scores[pair], place))
            ranked.sort()
            found = _Segmentation(pieces, [place for _, place in ranked])
            if keep:
                if len(self._kept) >= _MOST_KEPT:
                    self._kept.clear()
                self._kept[pieces] = found
        return found

    def _to_ids(self, pieces: tuple[str, ...]) -> list[int]:
        ids: list[int] = []
        for piece in pieces:
            index = self._ids.get(piece)
            if index is not None:
                ids.append(index)
            elif self._bytes:
                ids += [self._bytes[byte] for byte in piece.encode()]
            elif not ids or ids[-1] != self._unknown:
                ids.append(self._unknown)
        return ids
