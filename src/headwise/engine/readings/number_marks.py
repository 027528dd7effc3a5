"""The marks in numbers: 1,250.5 in English is 1.250,5 in German. A small model repeats a number as it is written.

What may be no amount stays: versions, sections and times, as in Python 3.11. The marks are those of Unicode's Common
Locale Data Repository (https://cldr.unicode.org). In English, an hour that is repeated on a clock that hasn't it, as in
21:30 a.m., is put right, as is the wrong half of the day behind another: 7:45 Uhr is a.m., 8 Uhr abends p.m.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping

from headwise.config.languages import base_code, short_code
from headwise.documents.pieces import CURRENCY_CODES, CURRENCY_SIGNS, UNITS
from headwise.engine.readings.reading import Reading

_SPACES = "\u00a0\u202f"  # between digits; the first is written
# What groups digits by three, and what comes before decimals, by language.
LANGUAGES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("en", "he", "ja", "ko", "th", "zh"), (",", ".")),
    **dict.fromkeys(("da", "de", "el", "es", "hr", "id", "it", "nl", "pt", "ro", "sl", "sr", "tr", "vi"), (".", ",")),
    **dict.fromkeys(
        ("bg", "cs", "et", "fi", "fr", "hu", "lt", "lv", "no", "pl", "ru", "sk", "sv", "uk"),
        (_SPACES[0], ","),
    ),
}
_REGIONAL = ("de", "es")  # some regions have other marks than the language, such as Switzerland and Mexico
_BEGIN, _END = r"(?<![\w.,:/=#&])", r"(?![0-9]|/(?![^\W\d_])|[.,:][0-9])"
# What tells an amount from a version, a section or a time of day, where decimals come behind a point.
_AFTER_CURRENCY = rf"(?:(?<=[{CURRENCY_SIGNS}])|(?<=[{CURRENCY_SIGNS}][ \u00a0])|(?<=(?:{CURRENCY_CODES})[ \u00a0]))"
_BEFORE_UNIT = (
    rf"(?=[ \u00a0]?(?:{UNITS})(?!\w)|[ \u00a0-](?:thousand|[mb]illion|trillion|percent|per cent|degree|dollar|euro|"
    r"pound|kilomet(?:er|re)|met(?:er|re)|mile|hour|minute|second|year|time|point|magnitude)s?\b)"
)
# What English names by a number with a point, which a model may write with a comma.
_NAMED = re.compile(
    r"\b(?:[Vv]ersion|[Rr]elease|[Ss]ection|[Cc]hapter|[Ff]ig(?:ure)?|[Tt]able|[Aa]ppendix|[Ee]xercise|[Ee]quation)s?\.?"
    rf"[ \u00a0]([0-9]++\.[0-9]++){_END}"
)
_ANY = re.compile(f"{_BEGIN}[0-9]++(?:[.,{_SPACES}][0-9]++)++{_END}")
NOON = 12  # o'clock
CLOCK = r"(?P<hour>[01]?[0-9]|2[0-3])(?P<minute>(?:[:.][0-5][0-9])?)"
_TIME = re.compile(rf"{_BEGIN}{CLOCK}(?P<german>[ \u00a0]Uhr\b)?{_END}")
_HALVED_TIME = re.compile(rf"{_BEGIN}{CLOCK}(?P<space>[ \u00a0]?)(?P<half>[aApP])(?=\.?[ \u00a0]?[mM]\b)")
_MORNING = re.compile(r"\b(?:[Ff]rüh|[Mm]orgens|[Vv]ormittags?|[Aa]m Morgen)\b")
_EVENING = re.compile(r"\b(?:[Aa]bends?|[Nn]achmittags?)\b")
_NEITHER = re.compile(r"\b(?:[Nn]achts?|[Mm]ittags?|Mitternacht)\b")
_NO_DIGIT = re.compile(r"[^0-9]")


@functools.cache
def number_marks(source: str | None, target: str | None) -> NumberMarks | None:
    """Return what changes the marks of two languages, given by their codes; None if they are alike or not known."""
    read, written = _marks(source), _marks(target)
    if read is None or written is None or read == written:
        return None
    return NumberMarks(read, written, english=target is not None and base_code(target) == "en")


def number_writer(source: str | None, target: str | None) -> Callable[[str], str]:
    """Return what writes the numbers of a text without words as the target language does, as many characters."""
    marks = number_marks(source, target)
    return str if marks is None else marks.write


def _marks(code: str | None) -> tuple[str, str] | None:
    if code is None:
        return None
    language, *more = short_code(code).split("-")
    of_region = language in _REGIONAL and any(len(part) < len("Latn") for part in more)
    return None if of_region else LANGUAGES.get(base_code(code))


class NumberMarks:
    """What writes the numbers of a text with the marks of the target language in its translations."""

    def __init__(self, source: tuple[str, str], target: tuple[str, str], *, english: bool) -> None:
        """Both have what groups digits and the decimal mark; `english` is the target, where am is no preposition."""
        groups = _SPACES if source[0] in _SPACES else source[0]
        group, decimal = f"[{groups}]", re.escape(source[1])
        grouped = rf"[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})++(?:{decimal}[0-9]++)?+"
        plain = rf"[0-9]++{decimal}[0-9]++"
        self._point = source[1] == "."
        if self._point:
            plain = f"{_AFTER_CURRENCY}{plain}|{plain}{_BEFORE_UNIT}"
        self._number = re.compile(f"{_BEGIN}(?:{grouped}|{plain}){_END}")
        self._english = english
        self._marks = str.maketrans({**dict.fromkeys(groups, target[0]), source[1]: target[1]})

    def write(self, text: str) -> str:
        """Return a text without words with its numbers in their form, as many characters."""
        return self._number.sub(lambda found: found[0].translate(self._marks), text)

    def read(self, text: str) -> Reading | None:
        """Return a text, and what makes a translation of it have its numbers in their form; None without any."""
        named = _NAMED.findall(text) if self._point else ()
        written = {found[0]: found[0].translate(self._marks) for found in self._number.finditer(text)}
        written.update(zip(named, named, strict=True))
        by_digits = {_NO_DIGIT.sub("", number): to for number, to in written.items()}
        times = _times(text) if self._english else {}
        if not written and not times:
            return None

        def marked(number: re.Match[str]) -> str:
            digits = number[0] if len(by_digits) < len(written) else _NO_DIGIT.sub("", number[0])
            return written.get(number[0], by_digits.get(digits, number[0]))

        def halved(time: re.Match[str]) -> str:
            hour, half = times.get(_clock(time), (0, ""))
            half = half.upper() if time["half"].isupper() else half
            return f"{hour}{time['minute']}{time['space']}{half}" if hour else time[0]

        return Reading(text, lambda translation: _HALVED_TIME.sub(halved, _ANY.sub(marked, translation)))


def _times(text: str) -> dict[tuple[int, str], tuple[int, str]]:
    """Return the times of a text whose half of the day is known: the hour and the half by the hour and the minute.

    From 1 p.m. on, a clock with 24 hours says it; before it, what a German text says does, or its minutes if it says
    nothing: few say 7:45 Uhr of an evening.
    """
    times: dict[tuple[int, str], tuple[int, str]] = {}
    morning, evening, neither = (bool(words.search(text)) for words in (_MORNING, _EVENING, _NEITHER))
    half = "p" if evening else "a"
    told = morning != evening and not neither
    for time in _TIME.finditer(text):
        hour, minute = _clock(time)
        if hour > NOON:
            times[hour, minute] = hour - NOON, "p"
        elif time["german"] and 0 < hour < NOON and (told or (minute and not (morning or neither))):
            times[hour, minute] = hour, half
    return times


def _clock(time: re.Match[str]) -> tuple[int, str]:
    return int(time["hour"]), time["minute"][1:]
