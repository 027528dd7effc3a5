"""Synthetic image-caption pairs: pictures of a digit on a canvas, and sentences that describe them.

A picture is made from a digit by placing it on the canvas and dimming it. The attributes in a caption are measured on
the picture (`Facts.of`), except the digit's name, which is its label. Some combinations of digit and place are held out
for testing: the training data has the digit and the place, but never together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.text.tokens.subwords import EOS, SPECIAL, UNK

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ROWS, COLUMNS = ("top", "middle", "bottom"), ("left", "center", "right")
PLACES = tuple(f"{row} {column}" for row in ROWS for column in COLUMNS)
LEAST_CANVAS = 12  # pixels; on smaller ones there are digits, wider on one side, that can't be at some place
_DIM = 0.45  # factor on the pixels of a faint picture
_FAINT = 0.7  # a picture is faint if its brightest pixel is below this value
_BOLD, _THIN = 0.325, 0.285  # a stroke is bold above, thin below this ink, as a fraction of a full square
_PHRASINGS = (
    "a {stroke} {light} {name} at the {place}",
    "the digit {name} , {light} and {stroke} , at the {place}",
    "at the {place} there is a {light} {name} in {stroke} strokes",
    "{name} , an {parity} number , {stroke} and {light} , at the {place}",
    "a picture of the {parity} digit {name} : {place} , {stroke} , {light}",
    "{stroke} {light} {name} , {place}",
)


@dataclass(frozen=True)
class Facts:
    """Attributes of a picture, which a caption describes."""

    digit: int
    place: int  # index into PLACES
    stroke: str  # thin, medium or bold
    light: str  # bright or faint

    @classmethod
    def of(cls, picture: NDArray[np.float32], digit: int, side: int) -> Facts:
        """Measure a picture (height, width), from 0 to 1, of a digit that is `side` pixels wide and high.

        The place is the center of the ink, in thirds of the range of possible centers; the stroke is the ink, divided
        by that of a full square of `side` pixels with the brightness of the brightest pixel.
        """
        brightest = float(picture.max())
        thirds = []
        for axis, size in zip((1, 0), picture.shape, strict=True):
            inked = np.flatnonzero(picture.any(axis=axis))
            center = (inked[0] + inked[-1] + 1) / 2
            fraction = (center - side / 2) / max(size - side, 1)
            thirds.append(min(2, max(0, int(3 * fraction))))
        ink = float(picture.sum()) / (brightest * side**2)
        stroke = "bold" if ink > _BOLD else "thin" if ink < _THIN else "medium"
        light = "faint" if brightest < _FAINT else "bright"
        return cls(digit, 3 * thirds[0] + thirds[1], stroke, light)

    @property
    def held_out(self) -> bool:
        """Whether the combination of digit and place is held out for testing: one of nine places for every digit."""
        return (2 * self.digit + 1) % len(PLACES) == self.place

    def caption(self, phrasing: int) -> str:
        """Return the caption in one of `len(PHRASINGS)` phrasings; words and punctuation are separated by spaces."""
        return _PHRASINGS[phrasing].format(
            name=NAMES[self.digit],
            place=PLACES[self.place],
            stroke=self.stroke,
            light=self.light,
            parity="odd" if self.digit % 2 else "even",
        )


PHRASINGS = range(len(_PHRASINGS))


def paint(digit: NDArray[np.float32], canvas: int, *, top: int, left: int, faint: bool) -> NDArray[np.float32]:
    """Return a picture (canvas, canvas) with a digit (side, side), from 0 to 1, on an empty canvas."""
    side = len(digit)
    picture = np.zeros((canvas, canvas), np.float32)
    picture[top : top + side, left : left + side] = digit * (_DIM if faint else 1.0)
    return picture


def draw_picture(
    digit: NDArray[np.float32], label: int, canvas: int, random: np.random.Generator, *, held_out: bool | None
) -> tuple[NDArray[np.float32], Facts]:
    """Draw a random picture of a digit; returns the picture and its facts.

    `held_out` is whether the combination of digit and place must be a held-out one; None: either.
    """
    while True:
        top, left = random.integers(0, canvas - len(digit) + 1, 2)
        picture = paint(digit, canvas, top=int(top), left=int(left), faint=bool(random.random() < 0.5))
        facts = Facts.of(picture, label, len(digit))
        if held_out is None or facts.held_out == held_out:
            return picture, facts


class CaptionWords:
    """Word vocabulary of the captions; ids 0 to 3 are the special tokens."""

    def __init__(self) -> None:
        captions = [Facts(digit, place, stroke, light).caption(phrasing).split()
                 for digit in range(10) for place in range(len(PLACES))
                 for stroke in ("thin", "medium", "bold") for light in ("bright", "faint")
                 for phrasing in PHRASINGS]  # fmt: skip
        self.words = sorted({word for caption in captions for word in caption})
        self.longest = 1 + max(map(len, captions))  # words of the longest caption, EOS included
        self._ids = {word: word_id for word_id, word in enumerate(self.words, start=len(SPECIAL))}

    def __len__(self) -> int:
        return len(SPECIAL) + len(self.words)

    def encode(self, caption: str) -> list[int]:
        """Return the ids of the words of a caption, and EOS. Commas and colons needn't be separated by spaces."""
        return [*(self._ids.get(word, UNK) for word in _words(caption)), EOS]

    def name(self, number: int) -> str:
        """Return the word with the id `number`; `</s>` for every special token."""
        return "</s>" if number < len(SPECIAL) else self.words[number - len(SPECIAL)]

    def unknown(self, caption: str) -> Sequence[str]:
        """Return the words of a caption that aren't in the vocabulary."""
        return [word for word in _words(caption) if word not in self._ids]


def _words(caption: str) -> list[str]:
    return caption.lower().replace(",", " , ").replace(":", " : ").split()
