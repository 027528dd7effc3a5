"""The marker of a list's item at the beginning of a line, as in "- Eggs" and "2) Eggs": a model reads the line without.

To a small model, what comes behind a marker begins no sentence, and "Eggs" is a name there.
"""

from __future__ import annotations

import re
import unicodedata

from headwise.characters import has_letters_or_digits
from headwise.config.languages import base_code
from headwise.engine.readings.reading import Reading

# In these languages what has a full stop is no ordinal, as is "3. Oktober", and seldom an abbreviation, as "s. Anhang".
_POINTED = ("en", "es", "fr", "it", "nl", "pt")
_LETTER = r"(?:[a-z]|[ivx]{2,5}|[IVX]{1,5})\.(?=[ \u00a0]+[A-Z][a-z])"
_NUMBERED = rf"\(?(?:[0-9]{{1,3}}|[A-Za-z]|[ivxIVX]{{1,5}})\)|(?P<pointed>[0-9]{{1,3}}\.|{_LETTER})|\[[ xX]?\]"
_MARKER = re.compile(rf"(?:{_NUMBERED}|(?P<symbols>[^\w\s]{{1,4}}))[ \u00a0]+(?=\S)")
_BULLETS = frozenset("-–—*+>#·•‣⁃→⇒")
_SYMBOLS = ("So", "Mn", "Cf")  # categories of further bullets, as ✓ and ✅, and of what selects how one is drawn
_FIRST_SYMBOL = "\u2000"  # those before, as ©, begin no list


def without_markers(text: str, language: str | None) -> Reading | None:
    """Return a line without the markers at its beginning; None without any, and where no word is behind them.

    `language` is the code of its language, if it is known.
    """
    end = 0
    while (found := _MARKER.match(text, end)) is not None and _are_bullets(found["symbols"] or ""):
        if found["pointed"] and (language is None or base_code(language) not in _POINTED):
            break
        end = found.end()
    if not end or not has_letters_or_digits(text[end:]):
        return None
    return Reading(text[end:], lambda translation: text[:end] + translation)


def _are_bullets(symbols: str) -> bool:
    return all(
        each in _BULLETS or (each >= _FIRST_SYMBOL and unicodedata.category(each) in _SYMBOLS) for each in symbols
    )
