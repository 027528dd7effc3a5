"""Words and punctuation marks of a text, by their positions: the places between which tags can stand."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.characters import UNSPACED

Range = tuple[int, int]  # of characters: start, end
_REACH = 8  # characters after the last subword in which the next one is looked for


def words(text: str, whole: Sequence[Range] = ()) -> list[Range]:
    """Return the ranges of the words of a text, in order, without white space.

    A word is a run of letters, digits and their marks; any other character is one by itself, and so is each character
    of a script without spaces. `whole` are disjoint ranges in order, each of which is one word.
    """
    found: list[Range] = []
    position = 0
    for start, end in [*whole, (len(text), len(text))]:
        found += _words(text, position, start)
        if end > start:
            found.append((start, end))
        position = end
    return found


def _words(text: str, start: int, end: int) -> list[Range]:
    found: list[Range] = []
    open_word = False
    for position in range(start, end):
        character = text[position]
        joins = character.isalnum() or unicodedata.category(character)[0] == "M"
        if character.isspace():
            open_word = False
        elif joins and open_word and not UNSPACED.match(character):
            found[-1] = (found[-1][0], position + 1)
        else:
            found.append((position, position + 1))
            open_word = joins and not UNSPACED.match(character)
    return found


def piece_ranges(text: str, pieces: Sequence[str], space: str = "▁") -> list[Range]:
    """Return the range in a text of each of its subwords; empty where a subword isn't in it as it is written."""
    lower = text.lower()
    readings = [text, lower] if len(lower) == len(text) else [text]
    ranges: list[Range] = []
    position, reach = 0, _REACH
    for piece in pieces:
        surface = piece.replace(space, " ").strip()
        while piece and position < len(text) and text[position].isspace():  # a space belongs to the next word
            position += 1
        ends = position + len(surface) + reach
        start = max((one.find(surface, position, ends) for one in readings if surface), default=-1)
        if start < 0:
            ranges.append((position, position))
            reach = 8 * _REACH  # it is somewhere after what couldn't be found
            continue
        position, reach = start + len(surface), _REACH
        ranges.append((start, position))
    return ranges


def shares(ranges: Sequence[Range], words: Sequence[Range]) -> NDArray[np.float32]:
    """Return the share of each range that lies in each word, shape (ranges, words).

    A range without a letter in any word is assigned to the nearest word.
    """
    result = np.zeros((len(ranges), len(words)), dtype=np.float32)
    if not words:
        return result
    starts = [start for start, _ in words]
    for row, (start, end) in enumerate(ranges):
        first = max(bisect_right(starts, start) - 1, 0)
        for column in range(first, len(words)):
            word_start, word_end = words[column]
            if word_start >= end:
                break
            result[row, column] = max(0, min(end, word_end) - max(start, word_start))
        total = result[row].sum()
        if total:
            result[row] /= total
        else:
            result[row, first] = 1.0
    return result
