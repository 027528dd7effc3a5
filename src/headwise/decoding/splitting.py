"""Cutting a line that is too long for the model, and putting the translated parts together again."""

from __future__ import annotations

import re
from collections.abc import Callable

# Where to cut, the best places first: after a sentence, after a clause, between words, anywhere.
_PLACES = (
    re.compile(r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[。！？｡])"),
    re.compile(r"(?<=[,;:–—])\s+|(?<=[、，；：])"),
    re.compile(r"\s+"),
    re.compile(r"(?<=.)(?=.)", re.DOTALL),
)

# Scripts written without spaces between words: Thai, Lao, Burmese, Khmer, kana, Chinese, full-width signs.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]"
)


def split_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Cut `text` into the fewest parts that `fits` accepts, preferably where a sentence ends.

    Sentences are packed into parts from left to right; one that doesn't fit alone is cut at its commas, then
    between words, then between characters. A single character is taken as it is.
    """
    return _split(text.strip(), fits, _PLACES)


def join_texts(parts: list[str]) -> str:
    """Put translated parts together, with a space between them unless their script is written without."""
    joined = ""
    for part in filter(None, parts):
        space = joined and not (_UNSPACED.match(joined[-1]) or _UNSPACED.match(part[0]))
        joined += (" " if space else "") + part
    return joined


def _split(text: str, fits: Callable[[str], bool], places: tuple[re.Pattern[str], ...]) -> list[str]:
    if fits(text) or not places or len(text) < 2:
        return [text] if text else []
    ends = [match.end() for match in places[0].finditer(text)]
    parts = []
    start = 0
    for piece_start, piece_end in zip([0, *ends], [*ends, len(text)], strict=True):
        if piece_start > start and not fits(text[start:piece_end].strip()):
            parts.append(text[start:piece_start].strip())
            start = piece_start
    parts.append(text[start:].strip())
    return [small for part in parts for small in _split(part, fits, places[1:])]
