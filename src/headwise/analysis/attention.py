"""Cross-attention of a translation, per layer and head, over words.

At step i the decoder reads target token i-1 and predicts token i; row i of its cross-attention is what it looked at
while it predicted token i. That is the convention here: a target word belongs to the rows that predict its subwords.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.decoding.engine import padded
from headwise.models.base import Seq2Seq
from headwise.nn.multihead import recording
from headwise.text.subword import BOS, EOS, PAD, Subwords

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
    sum to 1; the target's end symbol has no row.
    """

    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    weights: NDArray[np.float32]


@torch.inference_mode()
def cross_attention(
    model: Seq2Seq,
    subwords: Subwords,
    sources: Sequence[Sentence],
    targets: Sequence[Sentence],
    *,
    batch: int = 64,
) -> list[CrossAttention]:
    """Force-decode each target over its source and return the cross-attention of both.

    Works for every model whose cross-attention is a `MultiHeadAttention`.
    """
    results: list[CrossAttention] = []
    for start in range(0, len(sources), batch):
        pairs = list(zip(sources[start : start + batch], targets[start : start + batch], strict=True))
        results += _batch(model, subwords, pairs)
    return results


def _batch(
    model: Seq2Seq, subwords: Subwords, pairs: Sequence[tuple[Sentence, Sentence]]
) -> list[CrossAttention]:
    device = next(model.parameters()).device
    source_ids = [subwords.encode_source(source.text) for source, _ in pairs]
    target_ids = [subwords.encode_target(target.text) for _, target in pairs]
    source, mask = padded([[*ids, EOS] for ids in source_ids], PAD, device)
    target, _ = padded([[BOS, *ids] for ids in target_ids], PAD, device)
    with recording(model) as records:
        model(source, mask, target)
    layers = [entries[0] for name, entries in records.items() if "cross" in name]
    stacked = torch.stack(layers, dim=1).float().cpu().numpy()  # (batch, layers, heads, target, source)
    results = []
    for row, (source, target) in enumerate(pairs):
        columns = _overlap(source.words, subwords.source_pieces(source_ids[row]))  # (words, pieces)
        rows = _overlap(target.words, subwords.target_pieces(target_ids[row]))
        pieces = stacked[row][:, :, : rows.shape[1], : columns.shape[1]]
        end = stacked[row][:, :, : rows.shape[1], columns.shape[1], None]
        by_word = pieces @ (columns / np.maximum(columns.sum(axis=0), 1)).T
        weights = (rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)) @ np.concatenate(
            [by_word, end], axis=3
        )
        results.append(CrossAttention((*source.words, "</s>"), target.words, weights.astype(np.float32)))
    return results


def _overlap(words: Sequence[str], pieces: Sequence[str]) -> NDArray[np.float64]:
    """Count the bytes that each word and each subword share, (words, pieces)."""
    word_ends = np.cumsum([len(word.encode()) for word in words])
    piece_ends = np.cumsum([_width(piece) for piece in pieces])
    word_starts, piece_starts = np.r_[0, word_ends[:-1]], np.r_[0, piece_ends[:-1]]
    starts = np.maximum(word_starts[:, None], piece_starts)
    ends = np.minimum(word_ends[:, None], piece_ends)
    return np.maximum(ends - starts, 0).astype(np.float64)


def _width(piece: str) -> int:
    """Bytes of text that a subword stands for: `▁` is a space, `<0xE2>` a single byte."""
    return 1 if _BYTE.fullmatch(piece) else len(piece.replace("▁", "").encode())
