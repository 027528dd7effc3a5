"""Word alignment from cross-attention.

The cross-attention weights of a given output (`Engine.cross_attention`) are averaged over heads and layers, without the
first and the last layer where there are more, and aggregated from subwords to words. Words to which everything attends,
such as full stops, are discounted: each weight is multiplied by its share of the weights of its source word. A factor
exp(-4 d) prefers words at about the same place, where d from 0 to 1 is the distance from the diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

Link = tuple[int, int]
# (target, source), and the subwords of both
SubwordWeights = tuple[NDArray[np.float32], list[str], list[str]]
_WORD_START = "▁"
_NEAR = 4.0


def sharpened(words: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return weights of words in which those of an alignment stand out; rows sum to 1, or to 0 without any weight."""
    rows, columns = words.shape
    words = words / np.maximum(words.sum(1, keepdims=True), 1e-9)
    shares = words / np.maximum(words.sum(0, keepdims=True), 1e-9)
    places = np.linspace(0, 1, rows)[:, None] - np.linspace(0, 1, columns)[None]
    words = words * shares * np.exp(-_NEAR * np.abs(places))
    return (words / np.maximum(words.sum(1, keepdims=True), 1e-9)).astype(np.float32)


def word_links(
    weights: NDArray[np.float32], source_pieces: Sequence[str], target_pieces: Sequence[str]
) -> tuple[Link, ...]:
    """Return one (source word, target word) link for each target word, that of the largest weight; indices start at 0.

    `weights` are those of the subwords, (target, source). Words are separated by spaces.
    """
    if not all("".join(pieces).strip(_WORD_START) for pieces in (source_pieces, target_pieces)):
        return ()
    target_words, source_words = word_numbers(target_pieces), word_numbers(source_pieces)
    by_word = np.zeros((target_words[-1] + 1, source_words[-1] + 1), dtype=np.float32)
    np.add.at(by_word, np.ix_(target_words, source_words), weights)
    return tuple((source, target) for target, source in enumerate(sharpened(by_word).argmax(1).tolist()))


def carried_over(links: Sequence[Link], source: tuple[str, str], target: tuple[str, str]) -> tuple[Link, ...]:
    """Return the links between words of two texts as links between those of two others that say the same.

    `source` and `target` are the text of each side that is aligned, and the other one. Words that differ take the
    places of those between the same equal words.
    """
    sources, targets = _places(*source), _places(*target)
    if not sources or not targets:
        return ()
    found = ((min(one, len(sources) - 1), min(other, len(targets) - 1)) for one, other in links)
    return tuple(dict.fromkeys((sources[one], targets[other]) for one, other in found))


def _places(text: str, other: str) -> list[int]:
    """Return for each word of a text the number of the word of the other that stands for it; none without any."""
    words, others = text.lower().split(), other.lower().split()
    if words == others or not others:
        return list(range(len(others)))
    places: list[int] = []
    for _, start, end, first, last in SequenceMatcher(None, words, others).get_opcodes():
        for word in range(end - start):
            place = first + word * (last - first) // (end - start)
            places.append(min(place, len(others) - 1))
    return places


def word_numbers(pieces: Sequence[str]) -> list[int]:
    """Return the index of the word, from 0, that each subword belongs to.

    A space alone belongs to the word behind it, or the last one: several spaces in a row separate two words.
    """
    numbers, number, begun = [], 0, False
    for piece in pieces:
        number += begun and piece.startswith(_WORD_START)
        begun = bool(piece.strip(_WORD_START)) or (begun and not piece.startswith(_WORD_START))
        numbers.append(number)
    last = number if begun else max(number - 1, 0)
    return [min(each, last) for each in numbers]
