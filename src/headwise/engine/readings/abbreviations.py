"""Abbreviations: a small model, which has seldom read them, reads the words that they stand for."""

from __future__ import annotations

from headwise.documents.pieces import positions_in_pieces
from headwise.engine.readings.reading import Reading
from headwise.text.reading.dictionary import Dictionary


def written_out(text: str, dictionary: Dictionary) -> Reading | None:
    """Return a line with its abbreviations written out, as a dictionary has them; None without any.

    Those in addresses, placeholders and the like stay. Raises `CheckpointError` for a damaged dictionary.
    """
    found = dictionary.abbreviations.find(text)
    taken = positions_in_pieces(text) if found else set()
    parts: list[str] = []
    position = 0
    for start, end, words in found:
        if taken.isdisjoint(range(start, end)):
            parts += [text[position:start], words]
            position = end
    return Reading("".join([*parts, text[position:]]), str) if parts else None
