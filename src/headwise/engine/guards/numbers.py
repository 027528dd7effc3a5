"""A guard against wrong numbers, names and addresses: a second search places those of a source that an output lacks.

A small model loses numbers, or doubles digits: the general models in 9 and 11 % of news with digits, by direction. Of
120 cm it makes "120 Uhr": a number with the symbol of a unit must keep it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwise.documents.pieces import CODE, EMAIL, MENTION, PATH, SYMBOLS, URL, address_length
from headwise.engine.readings.number_marks import CLOCK, NOON
from headwise.engine.terms import Terms, sentence_terms
from headwise.text.reading.glossary import Entry, Match
from headwise.text.tokens.subwords import Subwords

_HALF_DAY = r"[ \u00a0]?(?P<half>[pP]\.?[ \u00a0]?[mM]|[aA]\.[mM])\b"  # without points, am is a German word
# 5m may be millions.
_MEASURE = rf"(?P<amount>[0-9]+(?:[.,][0-9]+)*)[ \u00a0-]?(?P<unit>{SYMBOLS}|(?<=[ \u00a0-])m)(?!\w)"
_NAME = r"(?<![\w-])[A-Z]{1,4}[0-9]{1,4}[A-Z]{0,2}(?!\w)"  # of a road, a gate or a quarter, as A4, B12 and Q3
# Of a program, as max_length, getName and main(), but no word for all genders, as jede_r.
_IDENTIFIER = (
    r"(?<![\w.$@#/\\-])(?:[a-z]++(?:_(?!(?:[a-z]|in|innen)\b)[a-z0-9]++)++(?:\(\))?|"
    r"[a-z]{2,}+(?:[A-Z][a-z0-9]++)++(?:\(\))?|[a-z]{2,}+[0-9]*\(\))(?![\w/\\-])"
)
_NUMBER = re.compile(
    rf"(?P<url>{URL})|{EMAIL}|{PATH}|{MENTION}|{_IDENTIFIER}|{_MEASURE}|{CODE}|{_NAME}|"
    rf"[0-9]+(?:[.,:][0-9]+)*(?:[ \u00a0]?%|{_HALF_DAY})?"
)
_MEASURED = re.compile(_MEASURE)
_SEPARATOR = re.compile(r"[.,: \u00a0%]")
_DIGITS = re.compile(r"[0-9.,: \u00a0%]+")
_SWAPPED = str.maketrans(".,", ",.")
_TIME = re.compile(CLOCK)
_MARK = re.compile(f"{_HALF_DAY}$")
_MARKED_TIME = re.compile(f"{CLOCK}{_HALF_DAY}")
_HOUR = re.compile(r"0?([0-9]{1,2}):00")


@dataclass(frozen=True, eq=False)
class SourceNumbers:
    """The numbers, codes, identifiers and addresses of a source, as written.

    `room` bounds the tokens of those that are placed in an output.
    """

    numbers: tuple[str, ...]
    subwords: Subwords
    room: int

    @classmethod
    def of(cls, text: str, subwords: Subwords, room: int) -> SourceNumbers | None:
        """Return the numbers of a source text, None without any."""
        found = tuple(_numbers(text))
        return cls(found, subwords, room) if found else None

    def lacking(self, tokens: Sequence[int]) -> Counter[str]:
        """Return the numbers that an output lacks, as they are written in the source, and how often.

        Separators don't count, 5:30 may be 17.30, and 5 may be 5:00 or 17, but 17 must be 17 or 5 p.m., and 5 p.m. as
        well; 12 may be 12 kg, but 12 kg must be 12 kg. A number of one digit may be written as a word, so it is lacking
        only if the output has one that isn't in the source.
        """
        there = Counter(map(_form, _numbers(self.subwords.decode_target(tokens))))

        def is_missing(forms: Sequence[str]) -> bool:
            form = next((each for each in forms if there[each]), None)
            if form is not None:
                there[form] -= 1
            return form is None

        missing = [number for number in self.numbers if is_missing([_form(number)])]
        amounts = Counter[str]()
        for form, count in there.items():  # 12 may be 12 kg
            amounts[form.partition(" ")[0]] += count
        there = amounts
        missing = [number for number in missing if is_missing([_form(number), *_at_other_clocks(number)])]
        others = any(there.values())
        return Counter(number for number in missing if others or len(_form(number)) > 1)

    def terms(self, lacking: Counter[str]) -> Terms | None:
        """Return numbers as terms that an output must contain; None where the vocabulary can't write them."""
        matches = [Match(Entry(number, _forms(number)), count) for number, count in lacking.items()]
        return sentence_terms(matches, self.subwords, self.room)


def _numbers(text: str) -> Iterator[str]:
    for match in _NUMBER.finditer(text):
        yield match[0][: address_length(match[0])] if match["url"] else match[0]


def _form(number: str) -> str:
    """Return a number without separators and percent sign, a full hour such as 06:00 as 6:00, and all else as it is.

    Between a number and the symbol of its unit is a space.
    """
    if measured := _MEASURED.fullmatch(number):
        return f"{_SEPARATOR.sub('', measured['amount'])} {measured['unit']}"
    number = _in_24_hours(number)
    if hour := _HOUR.fullmatch(number):
        return f"{hour[1]}:00"
    return _SEPARATOR.sub("", number) if _DIGITS.fullmatch(number) else number


def _in_24_hours(number: str) -> str:
    """Return a time with a.m. or p.m. on a clock with 24 hours; what is none on one with twelve, without that."""
    time = _MARKED_TIME.fullmatch(number)
    if time is None or int(time["hour"]) > NOON:
        return _MARK.sub("", number)
    hour = int(time["hour"]) % NOON + (NOON if time["half"][0] in "pP" else 0)
    return f"{hour}:{time['minute'][1:] or '00'}"


def _at_other_clocks(number: str) -> list[str]:
    """Return what a number may be, if it may be a time of day, on a clock with twelve hours and on one with 24."""
    time = _TIME.fullmatch(_in_24_hours(number))
    if time is None:
        return []
    hour = int(time["hour"])
    minute = time["minute"][1:] or "00"
    certain = hour >= NOON or _MARK.search(number) is not None
    hours = (hour,) if certain else (hour, hour + NOON)
    forms = [_form(f"{each}:{minute}") for each in hours]
    return [*forms, *map(str, hours)] if minute == "00" else forms


def _forms(number: str) -> tuple[str, ...]:
    """Return the ways in which a number may be written in another language, without a percent sign."""
    if measured := _MEASURED.fullmatch(number):
        amount, unit = measured["amount"], measured["unit"]
        return f"{amount} {unit}", f"{amount.translate(_SWAPPED)} {unit}"
    written = _in_24_hours(number).rstrip(" \u00a0%")
    if not _DIGITS.fullmatch(written):
        return (written,)
    return written, written.removesuffix(":00"), written.translate(_SWAPPED), written.replace(":", ".")
