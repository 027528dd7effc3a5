"""Word alignment from cross-attention.

The cross-attention weights of a given output (`Engine.cross_attention`) are averaged over all heads of one layer and
summed from subwords to words. Each target word is aligned to the source word that it attends to most (Garg et al. 2019,
"Jointly learning to align and translate with Transformer models", section 3, which takes the last but one layer).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.engine.hypotheses import Hypothesis

Link = tuple[int, int]
_WORD_START = "▁"


def word_links(
    weights: NDArray[np.float32], source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> tuple[Link, ...]:
    """Return one (source word, target word) link for each target word; indices start at 0.

    `weights` is (layers, heads, target, source) over subwords; rows and columns of end symbols are ignored. Words
    are separated by spaces.
    """
    if not source_pieces or not target_pieces:
        return ()
    target_words, source_words = word_numbers(target_pieces), word_numbers(source_pieces)
    heads_mean = weights[max(len(weights) - 2, 0)].mean(0)
    subword_weights = heads_mean[: len(target_pieces), : len(source_pieces)]
    by_target_word = np.zeros((target_words[-1] + 1, len(source_pieces)), dtype=np.float32)
    np.add.at(by_target_word, target_words, subword_weights)
    by_word = np.zeros((len(by_target_word), source_words[-1] + 1), dtype=np.float32)
    np.add.at(by_word.T, source_words, by_target_word.T)
    return tuple((source, target) for target, source in enumerate(by_word.argmax(1).tolist()))


def word_numbers(pieces: Sequence[str]) -> list[int]:
    """Return the index of the word, from 0, that each subword belongs to."""
    numbers, number = [], 0
    for position, piece in enumerate(pieces):
        number += position > 0 and piece.startswith(_WORD_START)
        numbers.append(number)
    return numbers


def each_links(
    align: Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], Sequence[tuple[Link, ...]]],
    sources: Sequence[Sequence[int]],
    hypotheses_by_source: Sequence[Sequence[Hypothesis]],
) -> Iterator[list[tuple[Link, ...]]]:
    """Yield the word alignments of each source's hypotheses; `align` returns those of sources and targets."""
    repeated = [ids for ids, found in zip(sources, hypotheses_by_source, strict=True) for _ in found]
    targets = [hypothesis.tokens for found in hypotheses_by_source for hypothesis in found]
    links = iter(align(repeated, targets))
    for found in hypotheses_by_source:
        yield list(itertools.islice(links, len(found)))
