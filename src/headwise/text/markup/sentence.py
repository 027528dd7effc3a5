"""A sentence with tags, and with pieces that must not change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from headwise.text.markup.words import Range


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
class Piece:
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


Item = str | Mark | Piece


@dataclass(frozen=True)
class Sentence:
    """A sentence: text, marks and pieces in their order.

    The tags around the whole of it aren't among them. `markup` says whether its translation is the source of a
    document, where `&` and `<` are written as references.
    """

    items: tuple[Item, ...]
    markup: bool = False

    @cached_property
    def text(self) -> str:
        """What the model reads."""
        return "".join(_text(item) for item in self.items)

    @property
    def pieces(self) -> list[Piece]:
        """What must not change."""
        return [item for item in self.items if isinstance(item, Piece)]

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
            if isinstance(item, Piece):
                ranges.append((position, position + length))
            position += length
        return ranges

    def without(self, taken: Collection[int]) -> Sentence:
        """Return the sentence without the text of some of its pieces, with marks in their places."""
        items: list[Item] = list(self.items)
        places = [place for place, item in enumerate(items) if isinstance(item, Piece)]
        for number in taken:
            place = places[number]
            piece = items[place]
            assert isinstance(piece, Piece)
            before, after = _near(items[:place][::-1], -1), _near(items[place + 1 :], 0)
            items[place] = Mark("point", piece.raw, spaces=(_spaced(before), _spaced(after)))
            if _is_space(before) and (after is None or not after.isalnum()):
                _cut(items, range(place - 1, -1, -1), -1)
            elif before is None and _is_space(after):
                _cut(items, range(place + 1, len(items)), 0)
        return replace(self, items=tuple(item for item in items if item != ""))


def _text(item: Item) -> str:
    return item if isinstance(item, str) else item.text if isinstance(item, Piece) else ""


def _near(items: Sequence[Item], end: int) -> str | None:
    """Return the first character of some items, or the last one of the first with text; None without text."""
    return next((text[end] for text in map(_text, items) if text), None)


def _is_space(character: str | None) -> bool:
    return character is not None and character.isspace()


def _spaced(character: str | None) -> bool | None:
    return None if character is not None and character.isalnum() else _is_space(character)


def _cut(items: list[Item], places: range, end: int) -> None:
    """Remove the space at an end of the first text among some places."""
    for place in places:
        item = items[place]
        if isinstance(item, str) and item:
            items[place] = item[1:] if end == 0 else item[:-1]
            return
