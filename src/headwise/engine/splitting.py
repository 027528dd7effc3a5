"""Splitting of lines that are too long for the model, and joining of the translated parts."""

from __future__ import annotations

import re
from collections.abc import Callable

from headwise.characters import UNSPACED

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


def join_texts(parts: list[str]) -> str:
    """Join translated parts with a space, or without one where the script has no spaces between words."""
    joined = ""
    for part in filter(None, parts):
        space = joined and not (UNSPACED.match(joined[-1]) or UNSPACED.match(part[0]))
        joined += (" " if space else "") + part
    return joined


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
