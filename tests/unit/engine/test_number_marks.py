"""The numbers of a translation have the marks of its language; Babel says which, from Unicode's CLDR."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from babel.numbers import format_decimal
from hypothesis import given
from hypothesis import strategies as st

from headwise.engine.readings.number_marks import LANGUAGES, number_marks
from headwise.engine.translator import Translator
from translator_run import make_run

UNLIKE = [(source, target) for source in LANGUAGES for target in LANGUAGES if number_marks(source, target) is not None]


def restored(source: str, target: str, text: str, translation: str) -> str:
    """Return what becomes of a translation of the text."""
    marks = number_marks(source, target)
    reading = None if marks is None else marks.read(text)
    if reading is None:
        return translation
    assert reading.text == text
    return reading.restore(translation)


def repeated(source: str, target: str, text: str) -> str:
    """Return what becomes of a translation that repeats the text."""
    return restored(source, target, text, text)


def in_language(number: Decimal, language: str) -> str:
    return re.sub("[\u00a0\u202f]", "\u00a0", format_decimal(number, locale=language, decimal_quantization=False))


@given(
    pair=st.sampled_from(UNLIKE),
    number=st.decimals(min_value=10_000, max_value=10**12, places=2, allow_nan=False, allow_infinity=False),
)
def test_repeated_amounts_are_written_as_cldr_has_them(pair: tuple[str, str], number: Decimal) -> None:
    source, target = pair
    text = f"({in_language(number, source)} €), $ {in_language(number, source)}."
    assert repeated(source, target, text) == text.replace(in_language(number, source), in_language(number, target))


@pytest.mark.parametrize(
    ("source", "target", "text", "expected"),
    [
        ("en", "de", "$1,250.50 or £2.75.", "$1.250,50 or £2,75."),
        ("en", "de", "3.5 million, 3.4%, 42.195 km, 2.5-mile", "3,5 million, 3,4%, 42,195 km, 2,5-mile"),
        ("en", "de", "3,400,000 and 1,000", "3.400.000 and 1.000"),
        ("en", "de", "$19.99/month, 1,000/day, 1,000/2", "$19,99/month, 1.000/day, 1,000/2"),
        ("en", "de", "Python 3.11 is version 2.4, section 3.2.", None),
        ("en", "de", "at 5.30pm, 5.30 p.m., 12.5.2025, 192.168.0.1, 1,2,3, 0.1.2", None),
        ("en", "de", "http://a.b/1,000 and ?a=1,000 and a1,000", None),
        ("en", "de", "1,0000", None),
        ("de", "en", "1.000 und 2,5 und 1.249,50 €", "1,000 und 2.5 und 1,249.50 €"),
        ("de", "en", "um 13.00 Uhr am 12.03.2025, 1,2,3", None),
        ("deu_Latn", "eng_Latn", "2,5", "2.5"),
        ("fr", "en", "16\u202f700,5 et 16\u00a0700 et 16 700", "16,700.5 et 16,700 et 16 700"),
        ("en", "fr", "16,700", "16\u00a0700"),
        ("de", "nl", "1.000", None),
        ("en", "xx", "1,000", None),
        ("en", "de-CH", "1,000", None),
        ("en-US", "es-419", "1,000", None),
        ("en-US", "pt_BR", "1,000", "1.000"),
    ],
)
def test_what_becomes_of_a_repeated_number(source: str, target: str, text: str, expected: str | None) -> None:
    assert repeated(source, target, text) == (text if expected is None else expected)
    marks = number_marks(source, target)
    assert (marks.write(text) if marks else text) == (text if expected is None else expected)


def test_a_number_that_the_source_has_not_stays() -> None:
    marks = number_marks("en", "de")
    assert marks is not None
    reading = marks.read("It costs 1,250 dollars.")
    assert reading is not None
    assert reading.restore("Es kostet 1.250 Dollar, nicht 2,500 oder 11,250 oder 1,2505.").startswith(
        "Es kostet 1.250 Dollar, nicht 2,500 oder 11,250 oder 1,2505"
    )


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        (
            "Es kostet 4.500,50 € oder 1.250.000 Euro.",
            "4,500,50 € or 1.250,000 and 45.005",
            "4,500.50 € or 1,250,000 and 45.005",
        ),
        ("Es kostet 1.250 € oder 12,50 €.", "1.250 € or 12,50 € or 125,0", "1,250 € or 12.50 € or 125,0"),
    ],
)
def test_a_number_with_its_marks_mixed_up_gets_them_right(text: str, translation: str, expected: str) -> None:
    assert restored("de", "en", text, translation) == expected


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("New in version 3.8.", "Neu in Version 3,8.", "Neu in Version 3.8."),
        ("Fig. 4.2 and 1.5 kg", "Abb. 4,2 und 1.5 kg", "Abb. 4.2 und 1,5 kg"),
        ("He has 3.8 of them", "Er hat 3,8 davon", "Er hat 3,8 davon"),
    ],
)
def test_the_number_of_a_version_or_a_section_keeps_its_point(text: str, translation: str, expected: str) -> None:
    assert restored("en", "de", text, translation) == expected


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("Der Zug fährt um 21:30 Uhr.", "The train leaves at 21:30 a.m.", "The train leaves at 9:30 p.m."),
        ("Um 21.30 Uhr!", "At 21:30 PM!", "At 9:30 PM!"),
        ("Um 19 Uhr oder um 20.", "At 19am or 20\u00a0p.m.", "At 7pm or 8\u00a0p.m."),
        ("Um 19 Uhr.", "At 20 a.m., 7 a.m., 19:30 a.m. and 19 amps.", None),
        ("Um 13 Uhr.", "At 13 o'clock.", None),
        ("Um 24 Uhr, 12 Uhr.", "At 24 a.m., 12 a.m.", None),
        ("Um 9.15, 3.15.9.", "At 9:15 p.m., 3.15.9 a.m.", None),
        ("Um 9.15 Uhr, 3.15.9.", "At 9:15 p.m., 3.15.9 a.m.", "At 9:15 a.m., 3.15.9 a.m."),
        ("Der Laden öffnet um 07:30 Uhr.", "The shop opens at 7:30PM.", "The shop opens at 7:30AM."),
        ("Um 8 Uhr.", "At 8 p.m.", None),
        ("Um 8 Uhr abends.", "At 8 a.m. in the evening.", "At 8 p.m. in the evening."),
        ("Heute Abend um 8.15 Uhr.", "Tonight at 8:15 a.m.", "Tonight at 8:15 p.m."),
        ("Am Morgen um 8 Uhr.", "At 8 p.m. in the morning.", "At 8 a.m. in the morning."),
        ("Nachts um 1:30 Uhr.", "At night at 1:30 p.m.", None),
        ("Von morgens 8:30 Uhr bis abends.", "From 8:30 p.m. on.", None),
        ("Um 12:15 Uhr, 0:10 Uhr.", "At 12:15 a.m., 0:10 p.m.", None),
    ],
)
def test_an_hour_stands_on_the_clock_that_has_it(text: str, translation: str, expected: str | None) -> None:
    assert number_marks("de", "en") is not None
    assert restored("de", "en", text, translation) == (expected or translation)


def test_am_is_a_german_word() -> None:
    marks = number_marks("en", "de")
    assert marks is not None
    assert marks.read("At 19:30 on Monday.") is None  # "um 19:30 am Montag"
    reading = marks.read("At 19:30 on Monday, 1,000 came.")
    assert reading is not None
    assert reading.restore("Um 19:30 am Montag kamen 1,000.") == "Um 19:30 am Montag kamen 1.000."


def test_unknown_languages_have_no_marks() -> None:
    assert number_marks(None, "de") is None
    assert number_marks("en", None) is None


def test_a_translation_has_the_marks_of_its_language(tmp_path: Path) -> None:
    run = make_run(tmp_path / "de", text=["0 1 2 3 4 5 6 7 8 9 . , :"])
    translator = Translator.load(run, device="cpu")
    line = "Two dogs are playing 1,234 times in the snow."
    (plain,) = translator.translate([line], prefixes=["1,234 o"])
    translator.reader = replace(translator.reader, languages=("en", "de"))
    (marked,) = translator.translate([line], prefixes=["1,234 o"])
    assert plain.text.startswith("1,234 o")
    assert marked.text == plain.text.replace("1,234", "1.234")
    assert marked.outputs[0].tokens == plain.outputs[0].tokens
