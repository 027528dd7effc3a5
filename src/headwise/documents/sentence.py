"""A sentence with tags and with pieces that must not change, and its words, by their positions.

Words and punctuation marks are the places between which tags can stand.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headwise.characters import UNSPACED

Range = tuple[int, int]  # of characters: start, end
Weights = NDArray[np.float32]  # of an alignment, shape (target words, source words)
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


def piece_ranges(text: str, pieces: Sequence[str]) -> list[Range]:
    """Return the range in a text of each of its subwords; empty where a subword isn't in it as it is written."""
    lower = text.lower()
    readings = [(text, str), (lower, str.lower)] if len(lower) == len(text) else [(text, str)]
    ranges: list[Range] = []
    position, reach = 0, _REACH
    for piece in pieces:
        surface = piece.replace("▁", " ").strip()
        while piece and position < len(text) and text[position].isspace():  # a space belongs to the next word
            position += 1
        ends = position + len(surface) + reach
        found = (one.find(case(surface), position, ends) for one, case in readings if surface)
        start = max(found, default=-1)
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


@dataclass(frozen=True)
class SentencePair:
    """A sentence and one of its translations, whose words are to be aligned.

    Attributes:
        sentence: its number among those that were encoded.
        rank: which of its translations.
        source: the sentence.
        target: the translation.
        source_words: ranges of characters of its words.
        target_words: those of the translation.
    """

    sentence: int
    rank: int
    source: str
    target: str
    source_words: Sequence[Range]
    target_words: Sequence[Range]


@dataclass(frozen=True)
class Mark:
    """What stands between two characters of a text: a tag, or something else that has no text.

    Attributes:
        kind: `open` and `close` for tags, `point` for what has no content.
        raw: its source.
        element: a number that the two tags of an element share; 0 for a point.
        spaces: for a piece that was taken out of the text: whether there was a space before and after it; None for a
            letter, to which it is joined.
    """

    kind: Literal["open", "close", "point"]
    raw: str
    element: int = 0
    spaces: tuple[bool | None, bool | None] | None = None


@dataclass(frozen=True)
class ProtectedPiece:
    """A part of a text that must not change.

    Attributes:
        text: what the model reads of it, if it isn't `hidden`.
        raw: its source, which stands in the translation.
        kind: why it must not change.
        hidden: whether the model never reads it.
    """

    text: str
    raw: str
    kind: str = "markup"
    hidden: bool = False


@dataclass(frozen=True)
class Found:
    """A piece in a translation: where it is, and its number among the sentence's pieces."""

    start: int
    end: int
    piece: int


Item = str | Mark | ProtectedPiece


@dataclass(frozen=True)
class Sentence:
    """A sentence: text, marks and pieces in their order.

    The tags around the whole of it aren't among them. `markup` says whether its translation is the source of a
    document, where `&` and `<` are written as references. Of a `strict` one, no translation is taken whose placeholders
    aren't those of the sentence.
    """

    items: tuple[Item, ...]
    markup: bool = False
    strict: bool = False

    @cached_property
    def text(self) -> str:
        """What the model reads."""
        return "".join(_text(item) for item in self.items)

    @property
    def source(self) -> str:
        """Its source."""
        return "".join(item if isinstance(item, str) else item.raw for item in self.items)

    @property
    def pieces(self) -> list[ProtectedPiece]:
        """What must not change."""
        return [item for item in self.items if isinstance(item, ProtectedPiece)]

    @property
    def has_marks(self) -> bool:
        """Whether something has to be placed in the translation."""
        return any(isinstance(item, Mark) for item in self.items)

    def piece_ranges(self) -> list[Range]:
        """Return where the pieces are in the text."""
        ranges: list[Range] = []
        position = 0
        for item in self.items:
            length = len(_text(item))
            if isinstance(item, ProtectedPiece):
                ranges.append((position, position + length))
            position += length
        return ranges

    def without(self, taken: Collection[int]) -> Sentence:
        """Return the sentence without the text of some of its pieces, with marks in their places."""
        items: list[Item] = list(self.items)
        texts: list[int] = []  # the places of items with text before the present one
        chosen, number = set(taken), -1
        for place, item in enumerate(items):
            number += isinstance(item, ProtectedPiece)
            if not isinstance(item, ProtectedPiece) or number not in chosen:
                if _text(item):
                    texts.append(place)
                continue
            before = _text(items[texts[-1]])[-1] if texts else None
            following = next((other for other in range(place + 1, len(items)) if _text(items[other])), None)
            after = None if following is None else _text(items[following])[0]
            joined = number + 1 in chosen and isinstance(items[place + 1], ProtectedPiece)
            spaces = _spaced(before), None if joined else _spaced(after)
            items[place] = Mark("point", item.raw, spaces=spaces)
            if _is_space(before) and (after is None or not after.isalnum()):
                items[texts[-1]] = _text(items[texts[-1]])[:-1]
                if not items[texts[-1]]:
                    texts.pop()
            elif before is None and following is not None and _is_space(after):
                items[following] = _text(items[following])[1:]
        return replace(self, items=tuple(item for item in items if item != ""))


def _text(item: Item) -> str:
    return item if isinstance(item, str) else item.text if isinstance(item, ProtectedPiece) else ""


def _is_space(character: str | None) -> bool:
    return character is not None and character.isspace()


def _spaced(character: str | None) -> bool | None:
    return None if character is not None and character.isalnum() else _is_space(character)
