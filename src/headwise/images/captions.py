"""Captions of digits, generated: pictures with a digit on a canvas, and sentences that say what is to be seen.

A picture is drawn from a digit by placing it and by dimming it. What a caption says is measured on the picture itself
(`Facts.of`), but for the digit's name, which is its label. Some pairs of digit and place are kept for testing: training
has seen the digit and the place, but never together.
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
_DIM = 0.45  # of a pixel's full value, in a faint picture
_FAINT = 0.7  # brightest pixel below which a picture is faint
_BOLD, _THIN = 0.325, 0.285  # ink, as a share of a full square, above and below
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
    """What is true of a picture."""

    digit: int
    place: int  # in PLACES
    stroke: str  # thin, medium or bold
    light: str  # bright or faint

    @classmethod
    def of(cls, picture: NDArray[np.float32], digit: int, side: int) -> Facts:
        """Measure a picture (height, width), from 0 to 1, of a digit that was `side` pixels wide and high.

        Its place is where the middle of its ink is, in thirds of where the middle of a digit can be; its stroke is
        its ink over that of a full square of `side` pixels as bright as its brightest pixel.
        """
        brightest = float(picture.max())
        thirds = []
        for axis, size in zip((1, 0), picture.shape, strict=True):
            inked = np.flatnonzero(picture.any(axis=axis))
            middle = (inked[0] + inked[-1] + 1) / 2
            share = (middle - side / 2) / max(size - side, 1)
            thirds.append(min(2, max(0, int(3 * share))))
        weight = float(picture.sum()) / (brightest * side**2)
        stroke = "bold" if weight > _BOLD else "thin" if weight < _THIN else "medium"
        light = "faint" if brightest < _FAINT else "bright"
        return cls(digit, 3 * thirds[0] + thirds[1], stroke, light)

    @property
    def held_out(self) -> bool:
        """Whether digit and place are a pair that is kept for testing: one place in nine for every digit."""
        return (2 * self.digit + 1) % len(PLACES) == self.place

    def words(self) -> dict[str, str]:
        """What the phrasings are filled with."""
        parity = "odd" if self.digit % 2 else "even"
        return {
            "name": NAMES[self.digit],
            "place": PLACES[self.place],
            "stroke": self.stroke,
            "light": self.light,
            "parity": parity,
        }

    def caption(self, phrasing: int) -> str:
        """Say it in one of `len(PHRASINGS)` ways; words and marks stand between spaces."""
        return _PHRASINGS[phrasing].format(**self.words())


PHRASINGS = range(len(_PHRASINGS))


def paint(
    digit: NDArray[np.float32], canvas: int, *, top: int, left: int, faint: bool
) -> NDArray[np.float32]:
    """Put a digit (side, side), from 0 to 1, on an empty canvas (canvas, canvas)."""
    side = len(digit)
    picture = np.zeros((canvas, canvas), np.float32)
    picture[top : top + side, left : left + side] = digit * (_DIM if faint else 1.0)
    return picture


def draw_picture(
    digit: NDArray[np.float32], label: int, canvas: int, random: np.random.Generator, *, held_out: bool | None
) -> tuple[NDArray[np.float32], Facts]:
    """Draw a picture of a digit, and what is true of it.

    `held_out` says whether digit and place are to be a pair that is kept for testing; None: either.
    """
    while True:
        top, left = random.integers(0, canvas - len(digit) + 1, 2)
        picture = paint(digit, canvas, top=int(top), left=int(left), faint=bool(random.random() < 0.5))
        facts = Facts.of(picture, label, len(digit))
        if held_out is None or facts.held_out == held_out:
            return picture, facts


class CaptionWords:
    """The words that captions are made of, by number; 0 to 3 are the special symbols."""

    def __init__(self) -> None:
        every = [Facts(digit, place, stroke, light).caption(phrasing).split()
                 for digit in range(10) for place in range(len(PLACES))
                 for stroke in ("thin", "medium", "bold") for light in ("bright", "faint")
                 for phrasing in PHRASINGS]  # fmt: skip
        self.words = sorted({word for caption in every for word in caption})
        self.longest = 1 + max(map(len, every))  # words, EOS included
        self._numbers = {word: number for number, word in enumerate(self.words, start=len(SPECIAL))}

    def __len__(self) -> int:
        return len(SPECIAL) + len(self.words)

    def encode(self, caption: str) -> list[int]:
        """Number the words of a caption; EOS is last. Commas and colons may touch words."""
        spaced = caption.lower().replace(",", " , ").replace(":", " : ")
        return [*(self._numbers.get(word, UNK) for word in spaced.split()), EOS]

    def name(self, number: int) -> str:
        """Return the word with a number."""
        return "</s>" if number < len(SPECIAL) else self.words[number - len(SPECIAL)]

    def unknown(self, caption: str) -> Sequence[str]:
        """Words of a caption that no caption has."""
        spaced = caption.lower().replace(",", " , ").replace(":", " : ")
        return [word for word in spaced.split() if word not in self._numbers]
