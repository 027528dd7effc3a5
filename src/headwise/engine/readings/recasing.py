"""Text in capitals or in lower case, which a model that was trained without it can't translate.

It is translated as ordinary text: each word in the case that it mostly had in the training text, and one that isn't
listed there, or any where a model came without such a list, as the vocabulary knows it best, which is in the fewest
pieces. The outcome gets its capitals back. `data.augment` trains a model that needs none of this, at the price of time
for ordinary text.
"""

from __future__ import annotations

import re

from headwise.characters import WORD
from headwise.documents.pieces import positions_in_pieces
from headwise.engine.readings.reading import Reading, outside_pieces, parts_and_pieces
from headwise.text.augmentation import title_case
from headwise.text.tokens.source_words import SourceWords
from headwise.text.tokens.subwords import UNK, Subwords

_START = re.compile(r"(?:^|[.!?…]\s+)[^\w]*(\w)")  # the first letter of a sentence
_END = re.compile(r"[.!?…][^\w]*$")
_RECASED = re.compile(rf"\b[A-Z]{{1,2}}&[A-Z]{{1,2}}\b|{WORD.pattern}")  # AT&T and R&D stay
_CAPITALS = 4  # letters, with which a line in capitals isn't an abbreviation
_TITLE = 3  # words, with which a title isn't a name


def recased(text: str, subwords: Subwords, listed: SourceWords | None = None) -> Reading | None:
    """Return a line in capitals, in title case or in lower case as ordinary text; None for any other line.

    In capitals is a line of which no word of several letters has a small one, with at least 4 capitals; a title one of
    at least 3 words that all begin with a capital, if one of them is usually small; in lower case one without a
    capital, if a word usually has one. Placeholders, addresses and the like don't count, and stay as they are. The
    translation of a line in lower case is ordinary text. `listed` are the words of the model's training text.
    """
    words = _words(text)
    if in_capitals(text):
        restore = str.upper
    elif len(words) >= _TITLE and all(word[0].isupper() for word in words):
        restore = title_case
    elif text.islower():
        restore = str
    else:
        return None

    def usual(word: re.Match[str]) -> str:
        return word[0] if "&" in word[0] else _usual(word[0], subwords, listed)

    ordinary = outside_pieces(text, lambda part: _RECASED.sub(usual, part))
    if restore is not str or (ordinary != text and _END.search(text)):
        pieces = positions_in_pieces(ordinary)
        ordinary = _START.sub(
            lambda match: match[0] if match.start(1) in pieces else match[0][:-1] + match[1].upper(), ordinary
        )
    if ordinary == text:
        return None
    return Reading(ordinary, lambda translation: outside_pieces(translation, restore))


def in_capitals(text: str) -> bool:
    """Whether a line is in capitals, as `recased` defines it."""
    words = _words(text)
    several = [word for word in words if len(word) > 1]
    return bool(several) and all(map(str.isupper, several)) and sum(map(len, words)) >= _CAPITALS


def _words(text: str) -> list[str]:
    return [word for part in parts_and_pieces(text)[::2] for word in WORD.findall(part)]


def _usual(word: str, subwords: Subwords, listed: SourceWords | None) -> str:
    """Return a word in its usual case if it is listed, else in that with the fewest subwords; small rather than not."""
    small = word.lower()
    sharp = small.replace("ss", "ß") if word.isupper() else small  # ß in capitals is SS
    if listed is not None and (found := listed.usual(small, sharp)) is not None:
        return found

    def cost(form: str) -> tuple[int, int]:
        ids = subwords.without_language(subwords.encode_source(form))
        return ids.count(UNK), len(ids)

    forms = (small, small.capitalize(), word, sharp, sharp.capitalize())
    return min(dict.fromkeys(forms), key=cost)
