"""A guard against wrong numbers: those of a source that an output lacks are placed in a second search.

A small model loses numbers, or doubles digits: the general models in 5 and 11 % of news with digits, by direction.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.engine.terms import Terms, sentence_terms
from headwise.text.reading.glossary import Entry, Match
from headwise.text.tokens.subwords import Subwords

_NUMBER = re.compile(r"[0-9]+(?:[.,:][0-9]+)*")
_SEPARATOR = re.compile(r"[.,:]")
_SWAPPED = str.maketrans(".,", ",.")
_TIME = re.compile(r"(?P<hour>[01]?[0-9]|2[0-3])[:.](?P<minute>[0-5][0-9])")
_NOON = 12  # o'clock


@dataclass(frozen=True, eq=False)
class SourceNumbers:
    """The numbers of a source, as written; `room` bounds the tokens of those that are placed in an output."""

    numbers: tuple[str, ...]
    subwords: Subwords
    room: int

    @classmethod
    def of(cls, text: str, subwords: Subwords, room: int) -> SourceNumbers | None:
        """Return the numbers of a source text, None without any."""
        found = tuple(_NUMBER.findall(text))
        return cls(found, subwords, room) if found else None

    def lacking(self, tokens: Sequence[int]) -> Counter[str]:
        """Return the numbers that an output lacks, as they are written in the source, and how often.

        Separators don't count, and 5:30 may be 17.30 and the other way round. A number of one digit may be written as a
        word, so it is lacking only if the output has another one that begins with it, as 22 for 2.
        """
        there = Counter(map(_digits, _NUMBER.findall(self.subwords.decode_target(tokens))))
        lacking = Counter[str]()
        single = []
        for number in self.numbers:
            form = next((each for each in map(_digits, _readings(number)) if there[each]), None)
            if form is not None:
                there[form] -= 1
            elif len(_digits(number)) > 1:
                lacking[number] += 1
            else:
                single.append(number)
        lacking.update(
            one for one in single if any(more and other.startswith(one) for other, more in there.items())
        )
        return lacking

    def terms(self, lacking: Counter[str]) -> Terms | None:
        """Return numbers as terms that an output must contain; None where the vocabulary can't write them."""
        matches = [Match(Entry(number, _forms(number)), count) for number, count in lacking.items()]
        return sentence_terms(matches, self.subwords, self.room)


def _digits(number: str) -> str:
    return _SEPARATOR.sub("", number)


def _readings(number: str) -> list[str]:
    """Return a number and, if it may be a time of day, that on a clock with twelve hours and on one with 24."""
    time = _TIME.fullmatch(number)
    if time is None:
        return [number]
    hour = int(time["hour"]) % _NOON
    return [number, *(f"{each}:{time['minute']}" for each in (hour, hour + _NOON))]


def _forms(number: str) -> tuple[str, ...]:
    """Return the ways in which a number may be written in another language."""
    return number, number.translate(_SWAPPED), number.replace(":", ".")
