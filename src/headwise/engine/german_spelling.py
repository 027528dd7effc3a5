"""German words in the letters of other keyboards, countries and times: Muenchen, gross and daß.

A small model hardly knows them so. It reads each as its training text mostly had it, if that had it: München, groß and
dass. A name that it repeats gets the letters back that it was written with.
"""

from __future__ import annotations

import itertools
import re

from headwise.characters import WORD
from headwise.engine.readings import Reading, outside_pieces
from headwise.text.tokens.source_words import SourceWords

_LETTERS = {"ae": "ä", "oe": "ö", "ue": "ü", "ss": "ß", "ß": "ss"}
_PLACE = re.compile("ae|oe|ue|ss|ß(?![aeiouyäöü])", re.IGNORECASE)  # between vowels, ß is what it was before 1996
_MOST_PLACES = 4  # of a word
_RARER = 10  # times: a word that is so much further down in the list counts as another's spelling


def usually_spelled(text: str, listed: SourceWords) -> Reading | None:
    """Return a line with its words as the training text mostly spelled them; None for a line that has them so.

    Those in addresses, placeholders and the like stay. Raises `CheckpointError` for a damaged list.
    """
    if not _PLACE.search(text):
        return None
    written: dict[str, str] = {}  # by what is read

    def read(word: re.Match[str]) -> str:
        usual = _usual(word[0], listed)
        if usual is None:
            return word[0]
        written[usual] = word[0]
        return usual

    changed = outside_pieces(text, lambda part: WORD.sub(read, part))
    if not written:
        return None
    return Reading(changed, lambda translation: WORD.sub(lambda word: written.get(word[0], word[0]), translation))


def _usual(word: str, listed: SourceWords) -> str | None:
    """Return the usual spelling of a word, with its capitals beside those of the usual one; None if it has that."""
    usual = listed.usual(*_forms(word.lower()))
    if usual is None or listed.rank(usual) * _RARER >= listed.rank(word):
        return None
    if word.isupper() and len(word) > 1:
        return usual.upper()
    return usual[0].upper() + usual[1:] if word[0].isupper() else usual


def _forms(word: str) -> list[str]:
    """Return the other spellings of a word: with other letters in some of the places, or in all."""
    written = [place[0] for place in itertools.islice(_PLACE.finditer(word), _MOST_PLACES)]
    between = _PLACE.split(word, maxsplit=_MOST_PLACES)
    chosen = itertools.islice(itertools.product(*((letters, _LETTERS[letters]) for letters in written)), 1, None)
    return ["".join(itertools.chain(*zip(between, [*letters, ""], strict=True))) for letters in chosen]
