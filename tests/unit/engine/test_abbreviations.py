"""Abbreviations that a run's dictionary has are read as the words that they stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.analysis.translation_tracer import TranslationTracer
from headwise.engine.readings.abbreviations import written_out
from headwise.engine.translator import Translator
from headwise.text.reading.dictionary import Dictionary
from headwise.text.reading.glossary import Entry, Glossary
from translator_run import ENGLISH, make_run, write_dictionary

LINES = (
    "Mio.\t= Millionen",
    "inkl.\t= inklusive",
    "i. d. R.\t= in der Regel",
    "i. d.\t= in der",
    "u.\t= und",
    "S. #\t= Seite",
    "# Min.\t= Minuten",
    "mfg\t= mit freundlichen Grüßen",
    "u\t= you",
    "r u\t= are you",
    "ASAP\t= as soon as possible",
    "don\t= Sir",
    "don\tLehrer",  # the abbreviation is read in its place
    "c'mon\t= come on",
    "Hunde\tdogs",
)


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory: pytest.TempPathFactory) -> Dictionary:
    return write_dictionary(tmp_path_factory.mktemp("dictionary"), *LINES)


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("Rund 3 Mio. Hunde inkl. Welpen", "Rund 3 Millionen Hunde inklusive Welpen"),
        ("Inkl. Hund (inkl. Korb)", "Inklusive Hund (inklusive Korb)"),
        ("Es sind 3 Mio.", "Es sind 3 Millionen."),  # the full stop ends the sentence, too
        ("Es sind 3 mio. ", "Es sind 3 Millionen. "),
        ("I.d.R. so, i. d. R. nicht, i. d. Regel", "In der Regel so, in der Regel nicht, in der Regel"),
        ("S. 5, S.5, S. Freud, 5 Min., 5Min. nach Min.", "Seite 5, Seite 5, S. Freud, 5 Minuten, 5 Minuten nach Min."),
        ("Mfg, Tom. Mfg.", "Mit freundlichen Grüßen, Tom. Mit freundlichen Grüßen."),
        ("Bei www.host.com/inkl. {Mio.} und `Mio.`: 2 Mio.", "Bei www.host.com/inkl. {Mio.} und `Mio.`: 2 Millionen."),
        ("Mio, Mios. Dinkl. i.d., id. R. S. Hunde", "Mio, Mios. Dinkl. in der, id. R. S. Hunde"),
        ("R U ok? U know, see u!", "Are you ok? You know, see you!"),
        ("ASAP: asap, ASAP C'mon", "As soon as possible: asap, as soon as possible Come on"),
        ("A don don't", "A Sir don't"),
        ("i., d. R.", None),
        ("U.S. U. S. U. Eco, u/v, \\u{1} ru u=2, x_u f(u-1) [u] U2F B4u", None),
        ("S.i.d.R.A. x.inkl. x-inkl. inkl.ABC U. s. 5", None),
        ("Hunde", None),
        ("", None),
    ],
)
def test_what_is_read(line: str, read: str | None, dictionary: Dictionary) -> None:
    found = written_out(line, dictionary)
    assert (None if found is None else found.text) == read


def test_an_abbreviation_is_no_word_to_translate(dictionary: Dictionary) -> None:
    assert [match.entry.source for match in dictionary.find("mfg Hunde Mio.")] == ["Hunde"]


def test_every_interface_reads_them_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    word = ENGLISH[0].split()[1]
    write_dictionary(run, f"abbr.\t= {word}", "x\ty")
    line = ENGLISH[0].replace(word, "abbr.", 1)
    translator = Translator.load(run, engine="pytorch", device="cpu")
    plain, short = translator.translate([ENGLISH[0], line])
    assert short.source == line
    assert (short.source_pieces, short.text) == (plain.source_pieces, plain.text)
    (found,) = translator.translate([line], glossary=Glossary([Entry("abbr.", ("Katze",))]))
    assert "Katze" in found.text
    tracer = TranslationTracer(translator)
    assert tracer.trace(line).source == tracer.trace(ENGLISH[0]).source
    assert f"read as: {ENGLISH[0]}" in tracer.trace(line).notes
