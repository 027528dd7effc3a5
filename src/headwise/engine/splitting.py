"""Splitting of lines that are too long for the model."""

from __future__ import annotations

import re
from collections.abc import Callable

# Split points in order of preference: after a sentence, after a clause, between words, between characters.
_SPLIT_POINTS = (
    re.compile(r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[。！？｡])"),
    re.compile(r"(?<=[,;:–—])\s+|(?<=[、，；：])"),
    re.compile(r"\s+"),
    re.compile(r"(?<=.)(?=.)", re.DOTALL),
)


def split_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split `text` into the fewest parts that `fits` accepts, preferably at sentence ends.

    Sentences are packed into parts from left to right; a sentence that doesn't fit alone is split at its commas, then
    between words, then between characters. A single character is kept even if it doesn't fit.
    """
    return _split(text.strip(), fits, _SPLIT_POINTS)


def _split(text: str, fits: Callable[[str], bool], patterns: tuple[re.Pattern[str], ...]) -> list[str]:
    if fits(text) or not patterns or len(text) < 2:
        return [text] if text else []
    ends = [match.end() for match in patterns[0].finditer(text)]
    parts = []
    start = 0
    for piece_start, piece_end in zip([0, *ends], [*ends, len(text)], strict=True):
        if piece_start > start and not fits(text[start:piece_end].strip()):
            parts.append(text[start:piece_start].strip())
            start = piece_start
    parts.append(text[start:].strip())
    return [subpart for part in parts for subpart in _split(part, fits, patterns[1:])]
