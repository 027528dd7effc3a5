"""Word-level cross-attention of a translation, per layer and head.

At step i the decoder's input is target token i-1 and it predicts token i; row i of its cross-attention holds the
weights used to predict token i. By this convention a target word owns the rows that predict its subwords.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.decoding.engine import pytorch_engine
from headwise.engine.translator import Translator
from headwise.errors import DataError
from headwise.text.tokens.subwords import EOS

UNKNOWN = "<unk>"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class SentenceWords:
    """A text and its words in order; words needn't be separated by spaces, as in a word and its comma."""

    text: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> SentenceWords:
        """Split the text into words at whitespace."""
        return cls(text, tuple(text.split()))


@dataclass(frozen=True)
class CrossAttention:
    """Word-level cross-attention weights of one sentence pair.

    weights: (layers, heads, target words, source words) float32; a target word's row is the mean over its subwords,
    a source word's column the sum over its subwords. The source's end symbol is its last "word" (`</s>`), so rows
    sum to 1, less the weight on a language code before the source; the target's end symbol has no row. A row is the
    step that predicts the word; `reading` holds, in the same shape, the step after it, whose input is the word.
    """

    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    weights: NDArray[np.float32]
    reading: NDArray[np.float32]


def cross_attention(
    translator: Translator, sources: Sequence[SentenceWords], targets: Sequence[SentenceWords]
) -> list[CrossAttention]:
    """Return the word-level cross-attention of each sentence pair, by forced decoding of the targets.

    Raises `DataError` with the line number of a sentence that is too long for the model.
    """
    subwords = translator.subwords
    source_ids = [subwords.encode_source(source.text) for source in sources]
    target_ids = [subwords.encode_target(target.text) for target in targets]
    longest = translator.engine.max_length - 1
    for line, pair in enumerate(zip(source_ids, target_ids, strict=True), start=1):
        if (found := max(map(len, pair))) > longest:
            raise DataError(f"line {line}: expected sentences of at most {longest} subwords, found {found}")
    recorded = pytorch_engine(translator.engine).cross_attention(
        [[*ids, EOS] for ids in source_ids], target_ids, translator.symbols
    )
    return [
        _by_words(weights, source, target, subwords.source_pieces(s), subwords.target_pieces(t), subwords.codes)
        for weights, source, target, s, t in zip(recorded, sources, targets, source_ids, target_ids, strict=True)
    ]


def _by_words(
    weights: NDArray[np.float32],
    source: SentenceWords,
    target: SentenceWords,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    codes: Collection[str] = (),
) -> CrossAttention:
    """Aggregate subword weights (layers, heads, target, source), end symbols on both sides, into words."""
    _, columns = joining(overlap(source, source_pieces, codes))
    rows, _ = joining(overlap(target, target_pieces, codes))

    def aggregate(steps: NDArray[np.float32]) -> NDArray[np.float32]:
        by_source_word = np.concatenate([steps[..., :-1] @ columns.T, steps[..., -1:]], axis=3)
        return (rows @ by_source_word).astype(np.float32)

    return CrossAttention(
        (*source.words, "</s>"), target.words, aggregate(weights[:, :, :-1]), aggregate(weights[:, :, 1:])
    )


def joining(shared: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return matrices (words, pieces) that make words of pieces, as means of rows and as sums of columns.

    `shared` is `overlap`: a piece that several words share counts for each by its bytes.
    """
    covered = shared > 0
    rows = covered / np.maximum(covered.sum(axis=1, keepdims=True), 1)
    return rows, shared / np.maximum(shared.sum(axis=0), 1)


def spaced(text: str) -> str:
    """Return a text without spaces around it or twice within it, as subwords have it; no other white space changes."""
    return " ".join(filter(None, text.split(" ")))


def overlap(sentence: SentenceWords, pieces: Sequence[str], codes: Collection[str] = ()) -> NDArray[np.float64]:
    """Return how many bytes each word shares with each subword, (words, pieces); a space belongs to the next word.

    A first subword that is one of the language `codes` shares none, unless the text names it itself.
    """
    text = " " + spaced(sentence.text)
    if pieces and pieces[0] in codes:
        named = f" {pieces[0]}" if text.startswith(f" {pieces[0]}") and pieces[0].startswith(">>") else ""
        rest = _byte_lengths(pieces[1:], text.removeprefix(named).encode())
        return shared_bytes(sentence, [len(named.encode()), *rest])
    return shared_bytes(sentence, _byte_lengths(pieces, text.encode()))


def shared_bytes(sentence: SentenceWords, lengths: Sequence[int]) -> NDArray[np.float64]:
    """Return `overlap` with units that cover these numbers of bytes of the text, in which a space is before it."""
    text = " " + spaced(sentence.text)
    ends, end = [], 0
    for word in sentence.words:
        end = text.index(word, end) + len(word)
        ends.append(len(text[:end].encode()))
    word_ends, piece_ends = np.array(ends, np.int64), np.cumsum(lengths, dtype=np.int64)
    word_starts, piece_starts = np.r_[0, word_ends[:-1]], np.r_[0, piece_ends[:-1]]
    first = np.maximum(word_starts[:, None], piece_starts)
    last = np.minimum(word_ends[:, None], piece_ends)
    return np.maximum(last - first, 0).astype(np.float64)


def _byte_lengths(pieces: Sequence[str], text: bytes) -> list[int]:
    """Return how many bytes of the text each subword covers: `▁` is a space, `<0xE2>` a single byte.

    `<unk>` covers a run of characters outside the vocabulary, up to the first character of the next subword.
    """
    encoded = [b"?" if _BYTE.fullmatch(piece) else piece.replace("▁", " ").encode() for piece in pieces]
    lengths: list[int] = []
    start = 0
    for index, piece in enumerate(pieces):
        length = len(encoded[index])
        if piece == UNKNOWN:
            following = encoded[index + 1].decode()[:1].encode() if index + 1 < len(pieces) else b""
            end = text.find(following, start + 1) if following else -1
            length = (end if end >= 0 else len(text)) - start
        lengths.append(length)
        start += length
    return lengths
