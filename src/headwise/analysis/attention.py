"""Cross-attention of a translation, per layer and head, over words.

At step i the decoder reads target token i-1 and predicts token i; row i of its cross-attention is what it looked at
while it predicted token i. That is the convention here: a target word belongs to the rows that predict its subwords.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.decoding.alignment import cross_attention as forced_attention
from headwise.decoding.translator import SYMBOLS, Translator
from headwise.text.tokens.subwords import EOS

UNKNOWN = "<unk>"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class Sentence:
    """A text and its words in order; words may touch, as a word and its comma do."""

    text: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Sentence:
        """Take what stands between spaces as words."""
        return cls(text, tuple(text.split()))


@dataclass(frozen=True)
class CrossAttention:
    """What one translation attended to.

    weights: (layers, heads, target words, source words) float32; a target word's row is the mean over its subwords,
    a source word's column the sum over its subwords. The source's end symbol is its last "word" (`</s>`), so rows
    sum to 1; the target's end symbol has no row. A row is the step that predicts the word; `reading` has, in the
    same shape, the step after it, at which the decoder reads the word.
    """

    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    weights: NDArray[np.float32]
    reading: NDArray[np.float32] | None = None


def cross_attention(
    translator: Translator, sources: Sequence[Sentence], targets: Sequence[Sentence]
) -> list[CrossAttention]:
    """Force-decode each target over its source and return the cross-attention of both, word by word."""
    subwords = translator.subwords
    source_ids = [subwords.encode_source(source.text) for source in sources]
    target_ids = [subwords.encode_target(target.text) for target in targets]
    recorded = forced_attention(translator.model, [[*ids, EOS] for ids in source_ids], target_ids, SYMBOLS)
    return [
        _by_words(weights.numpy(), source, target, subwords.source_pieces(read), subwords.target_pieces(said))
        for weights, source, target, read, said in zip(
            recorded, sources, targets, source_ids, target_ids, strict=True
        )
    ]


def _by_words(
    weights: NDArray[np.float32],
    source: Sentence,
    target: Sentence,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
) -> CrossAttention:
    """Go from subwords to words; weights (layers, heads, target, source) have end symbols on both sides."""
    columns = overlap(source, source_pieces)  # (words, pieces)
    rows = (overlap(target, target_pieces) > 0).astype(np.float64)
    columns = columns / np.maximum(columns.sum(axis=0), 1)
    rows = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)

    def joined(steps: NDArray[np.float32]) -> NDArray[np.float32]:
        by_word = np.concatenate([steps[..., :-1] @ columns.T, steps[..., -1:]], axis=3)
        return (rows @ by_word).astype(np.float32)

    return CrossAttention(
        (*source.words, "</s>"), target.words, joined(weights[:, :, :-1]), joined(weights[:, :, 1:])
    )


def overlap(sentence: Sentence, pieces: Sequence[str]) -> NDArray[np.float64]:
    """Count the bytes that each word and each subword share, (words, pieces); a space belongs to the word after it."""
    text = " " + " ".join(sentence.text.split())
    ends, place = [], 0
    for word in sentence.words:
        place = text.index(word, place) + len(word)
        ends.append(len(text[:place].encode()))
    word_ends, piece_ends = (
        np.array(ends, np.int64),
        np.cumsum(_widths(pieces, text.encode()), dtype=np.int64),
    )
    word_starts, piece_starts = np.r_[0, word_ends[:-1]], np.r_[0, piece_ends[:-1]]
    first = np.maximum(word_starts[:, None], piece_starts)
    last = np.minimum(word_ends[:, None], piece_ends)
    return np.maximum(last - first, 0).astype(np.float64)


def _widths(pieces: Sequence[str], text: bytes) -> list[int]:
    """Count the bytes of the text that each subword stands for: `▁` is a space, `<0xE2>` a single byte.

    `<unk>` stands for a run of characters that no subword has, so it reaches to the first character of the next one.
    """
    written = [b"?" if _BYTE.fullmatch(piece) else piece.replace("▁", " ").encode() for piece in pieces]
    widths: list[int] = []
    place = 0
    for number, piece in enumerate(pieces):
        width = len(written[number])
        if piece == UNKNOWN:
            following = written[number + 1].decode()[:1].encode() if number + 1 < len(pieces) else b""
            found = text.find(following, place + 1) if following else -1
            width = (found if found >= 0 else len(text)) - place
        widths.append(width)
        place += width
    return widths
