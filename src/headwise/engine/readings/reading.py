"""What a model reads of a line that it can't translate as it is written, and what undoes that in the translation."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwise.documents.pieces import find_pieces
from headwise.engine.outputs import Translation


@dataclass(frozen=True)
class Reading:
    """What is read in place of a line, and what makes a translation of it one of the line."""

    text: str
    restore: Callable[[str], str]

    def within(self, outer: Reading) -> Reading:
        """Return what is read of a line, if this is read of what the `outer` one reads of it."""
        return Reading(self.text, lambda translation: outer.restore(self.restore(translation)))

    def restored(self, translation: Translation) -> Translation:
        """Return the translation with its texts restored; its subwords are those that the model gave."""
        outputs = [dataclasses.replace(output, text=self.restore(output.text)) for output in translation.outputs]
        return dataclasses.replace(translation, outputs=tuple(outputs))


def read_in_turn(text: str, steps: Iterable[Callable[[str], Reading | None]]) -> Reading | None:
    """Return what is read of a line where each step reads what those before it made of it; None for the line itself."""
    reading = Reading(text, str)
    for step in steps:
        if (found := step(reading.text)) is not None:
            reading = found.within(reading)
    return None if reading.text == text else reading


def readings(texts: Sequence[str], read: Callable[[str], Reading | None]) -> dict[int, Reading]:
    """Return what is read of the lines that aren't read as they are written, by their numbers."""
    found = ((number, read(text)) for number, text in enumerate(texts))
    return {number: each for number, each in found if each is not None}


def read_texts(texts: Sequence[str], found: Mapping[int, Reading]) -> list[str]:
    """Return the lines as they are read."""
    return [found[number].text if number in found else text for number, text in enumerate(texts)]


def outside_pieces(text: str, change: Callable[[str], str]) -> str:
    """Return the text with what lies between its protected pieces changed."""
    parts = parts_and_pieces(text)
    parts[::2] = map(change, parts[::2])
    return "".join(parts)


def parts_and_pieces(text: str) -> list[str]:
    """Return what lies between the protected pieces of a text, in the even places, and the pieces in the odd ones."""
    bounds = [0, *(place for start, end, _ in find_pieces(text) for place in (start, end)), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(bounds)]
