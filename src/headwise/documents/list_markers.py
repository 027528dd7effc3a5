"""The markers of a list's item at the beginning of a line, as in "- Eggs" and "2) Eggs"."""

from __future__ import annotations

import re
import unicodedata

from headwise.config.languages import base_code

# In these languages what has a full stop is no ordinal, as is "3. Oktober", and seldom an abbreviation, as "s. Anhang".
_POINTED = ("en", "es", "fr", "it", "nl", "pt")
_LETTER = r"(?:[a-z]|[ivx]{2,5}|[IVX]{1,5})\.(?=\s+[A-Z][a-z])"
_NUMBERED = rf"\(?(?:[0-9]{{1,3}}|[A-Za-z]|[ivxIVX]{{1,5}})\)|(?P<pointed>[0-9]{{1,3}}\.|{_LETTER})|\[[ xX]?\]"
_MARKER = re.compile(rf"\s*(?:{_NUMBERED}|(?P<symbols>[^\w\s]{{1,4}}))\s+(?=\S)")
_BULLETS = frozenset("-–—*+>#·•‣⁃→⇒")
_SYMBOLS = ("So", "Mn", "Cf")  # categories of further bullets, as ✓ and ✅, and of what selects how one is drawn
_FIRST_SYMBOL = "\u2000"  # those before, as ©, begin no list


def markers_end(line: str, language: str | None) -> int:
    """Return where the markers at the beginning of a line end, with the space behind them; 0 without any.

    `language` is the code of its language, if it is known.
    """
    end = 0
    while (found := _MARKER.match(line, end)) is not None and _are_bullets(found["symbols"] or ""):
        if found["pointed"] and (not language or base_code(language) not in _POINTED):
            break
        end = found.end()
    return end


def _are_bullets(symbols: str) -> bool:
    return all(
        each in _BULLETS or (each >= _FIRST_SYMBOL and unicodedata.category(each) in _SYMBOLS) for each in symbols
    )
