"""Abbreviations in a text, and what they stand for, as a run's dictionary has them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PART = re.compile(r"[^\W\d_]+\.?")
_MOST_PARTS = 4  # of an abbreviation, as i. d. R.
_JOINED_BEFORE = re.compile(r"(?:[-./\\@_#$&+=<~[]|\w['’])\Z")  # to another word, as in U.S.A. and x-u
_JOINED_BEHIND = re.compile(r"[^\W\d_]|[-/\\@_#$&+=<~({\]]|[.'’]\w")
_INITIAL = re.compile(r"[^\W\d_]\.")
_LOWERED = 4  # characters, with which an abbreviation may lack a capital: "do." is no Donnerstag
_SPACE = re.compile(r"(?<=[.#])\s+|\s+(?=#)")


class Abbreviations:
    """Finder of abbreviations."""

    def __init__(self, stand_for: Mapping[str, str]) -> None:
        """Use what each abbreviation stands for; a # before or behind one is a number in the text.

        Its spaces behind full stops, and beside a number, may be missing in a text.
        """
        self._stand_for = {_SPACE.sub("", short): words for short, words in stand_for.items()}
        parts = (_PART.search(short) for short in stand_for)
        self._beginnings = frozenset(part[0].rstrip(".").lower() for part in parts if part is not None)

    def find(self, text: str) -> list[tuple[int, int, str]]:
        """Return where the abbreviations of a text begin and end, in order, and what they stand for.

        Of several that begin at one place, it is the longest. A full stop that ends the text stays.
        """
        found: list[tuple[int, int, str]] = []
        text = text.rstrip()
        parts = list(_PART.finditer(text))
        for number, part in enumerate(parts):
            start, stop = part.span()
            if part[0].rstrip(".").lower() not in self._beginnings or (found and start < found[-1][1]):
                continue
            ends = [last.end() for last in reversed(parts[number : number + _MOST_PARTS])]
            if part[0].endswith(".") and (stop == len(text) or not _INITIAL.fullmatch(part[0])):
                ends.append(stop - 1)  # the full stop is the sentence's
            for end in ends:
                words = self._stands_for(text[max(0, start - 2) : start], text[start:end], text[end : end + 2])
                if words is not None:
                    found.append((start, end, words))
                    break
        return found

    def _stands_for(self, before: str, written: str, behind: str) -> str | None:
        """Return what a part of a text stands for between the characters beside it; None for other words.

        An abbreviation may begin with a capital that it hasn't in the dictionary, unless it may be an initial, as in
        U. Eco, and then the words do, too; or without the capital that it has there, unless it is short.
        """
        if _JOINED_BEFORE.search(before) or _JOINED_BEHIND.match(behind):
            return None
        short = _SPACE.sub("", written)
        forms = [short]
        if not _INITIAL.fullmatch(short):
            forms.append(short[0].lower() + short[1:])
        if len(short) >= _LOWERED:
            forms.append(short[0].upper() + short[1:])
        if " " in short:
            forms.append(short.lower())
        numbered = [f"#{form}" for form in forms] if before.rstrip()[-1:].isdecimal() else []
        if behind.lstrip()[:1].isdecimal():
            numbered += [f"{form}#" for form in forms]
        if before[-1:].isdecimal() or (behind[:1].isdecimal() and not short.endswith(".")):
            forms = []  # it is a part of another word, as in U2F
        listed = next((form for form in [*numbered, *forms] if form in self._stand_for), None)
        if listed is None:
            return None
        words = self._stand_for[listed]
        capital = short[0].isupper() and (not before or listed.lstrip("#")[0].islower())
        first = words[0].upper() if capital else words[0]
        stop = "." if short.endswith(".") and not behind else ""
        left, right = (" " if beside.isdecimal() else "" for beside in (before[-1:], behind[:1]))
        return f"{left}{first}{words[1:]}{stop}{right}"
