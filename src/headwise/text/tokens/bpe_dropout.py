"""BPE-dropout (Provilkov et al. 2020, section 3): segmentation with merges dropped at random.

At every step each possible merge is dropped with probability p, and the best of the others is applied, until none is
left. SentencePiece samples too, but its random generator can't be seeded across processes, which exact resumption
needs; so this module applies the merges itself, with the pieces and scores of the SentencePiece model. Without dropout
the result equals SentencePiece's own. A user-defined symbol (`subwords.symbols`) is found before any merge, and is no
part of one.

Since drops are independent, the applied merge is the k-th best of n with probability p^k (1 - p), and there is none
with p^n: one geometric sample per step. The successors of each segmentation are cached, so that frequent words cost
only a few samples and look-ups each.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import sentencepiece

from headwise.text.tokens.sentencepiece_file import USER_DEFINED, piece_types
from headwise.text.tokens.splitting import SPACE, symbol_pattern

_WORD = re.compile(f"{SPACE}[^{SPACE}]*|[^{SPACE}]+")
_LONGEST_CACHED = 32  # characters; longer words (sentences without spaces) rarely recur
_MAX_CACHED = 500_000  # segmentations in the cache before it is cleared


@dataclass(slots=True)
class _Segmentation:
    """A segmentation of a word, its possible merges, best first, and the segmentation after each."""

    pieces: tuple[str, ...]
    merges: list[int]  # merge `index` joins pieces[index] and pieces[index + 1]
    successors: list[_Segmentation | None]
    ids: list[int] | None = None  # computed on first use


class DropoutSegmenter:
    """Segmenter with BPE-dropout, based on the merges of a SentencePiece BPE model."""

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, dropout: float) -> None:
        """Use the pieces of `processor`; each merge is dropped with probability `dropout` (0 to 1)."""
        self.dropout = dropout
        self._processor = processor
        self._unknown = processor.unk_id()
        self._ids: dict[str, int] = {}
        self._scores: dict[str, float] = {}
        self._bytes: list[int] = []
        symbols: list[str] = []
        for index, kind in enumerate(piece_types(processor.serialized_model_proto())):
            piece = processor.id_to_piece(index)
            if processor.is_byte(index):
                self._bytes.append(index)
            elif not (processor.is_control(index) or processor.is_unknown(index)):
                self._ids[piece] = index
                if kind == USER_DEFINED:
                    symbols.append(piece)
                else:
                    self._scores[piece] = processor.get_score(index)
        self._symbols = symbol_pattern(symbols)
        self._cache: dict[tuple[str, ...], _Segmentation] = {}

    def encode_batch(self, texts: Sequence[str], random: np.random.Generator) -> list[list[int]]:
        """Segment sentences; the result depends on the texts and the generator's state alone."""
        draws = self._draws(random)
        return [self._encode(self._processor.normalize(text), draws) for text in texts]

    def segment(self, word: str) -> list[int]:
        """Segment a word as it is, without dropout; a space in front of it is a `▁`."""
        return self._segment(tuple(word), itertools.repeat(0))

    def _encode(self, text: str, draws: Iterator[int]) -> list[int]:
        ids: list[int] = []
        for word in self._words(text):
            word_ids = self._segment(word, draws)
            if ids and word_ids and ids[-1] == word_ids[0] == self._unknown:
                word_ids = word_ids[1:]  # adjacent unknown characters share one id
            ids += word_ids
        return ids

    def _words(self, text: str) -> Iterator[tuple[str, ...]]:
        """Yield the characters of each word and, in between, each symbol as one piece."""
        for number, part in enumerate([text] if self._symbols is None else self._symbols.split(text)):
            yield from [(part,)] if number % 2 else map(tuple, _WORD.findall(part))

    def _draws(self, random: np.random.Generator) -> Iterator[int]:
        """Yield the number of best merges that are dropped before the first that isn't."""
        if not self.dropout:
            return itertools.repeat(0)
        blocks = (random.geometric(1.0 - self.dropout, 1 << 14) - 1 for _ in itertools.count())
        return itertools.chain.from_iterable(block.tolist() for block in blocks)

    def _segment(self, pieces: tuple[str, ...], draws: Iterator[int]) -> list[int]:
        cacheable = len(pieces) <= _LONGEST_CACHED
        state = self._state(pieces, cacheable)
        while state.merges:
            rank = next(draws)
            if rank >= len(state.merges):
                break
            successor = state.successors[rank]
            if successor is None:
                index = state.merges[rank]
                parts = state.pieces
                joined = (*parts[:index], parts[index] + parts[index + 1], *parts[index + 2 :])
                successor = self._state(joined, cacheable)
                if cacheable:
                    state.successors[rank] = successor
            state = successor
        if state.ids is None:
            state.ids = self._to_ids(state.pieces)
        return state.ids

    def _state(self, pieces: tuple[str, ...], cacheable: bool) -> _Segmentation:
        segmentation = self._cache.get(pieces)
        if segmentation is None:
            scores, pairs = self._scores, enumerate(map(str.__add__, pieces, pieces[1:]))
            ranked = sorted((-scores[pair], index) for index, pair in pairs if pair in scores)
            segmentation = _Segmentation(pieces, [index for _, index in ranked], [None] * len(ranked))
            if cacheable:
                if len(self._cache) >= _MAX_CACHED:
                    self._cache.clear()
                self._cache[pieces] = segmentation
        return segmentation

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
