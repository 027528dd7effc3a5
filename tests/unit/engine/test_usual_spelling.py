"""Words in an unusual spelling are read as the training text spelled them; names get their own letters back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.engine.readings.usual_spelling import usually_spelled
from headwise.engine.translator import Translator
from headwise.text.tokens.source_words import FILE, SourceWords
from translator_run import make_run

OFTEN = "der für dass weiß München schön Müller Schlüssel Straße muss Gewässer Fluss aktuell neue Michael Israel so gut"
PERSONS = "Kunden Kunde jeder jede Lehrer Berater Studenten Kollege Ärzte eine einen ein"
# Between these and the others are so many words that they count as rare.
RARE = "strasse muß Masse Maße weiss"


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> SourceWords:
    letters = "abcdefghijklmnopqrst"
    between = [f"{a}{b}{c}" for a in letters for b in letters for c in letters][:200]
    folder = tmp_path_factory.mktemp("words")
    (folder / FILE).write_text("\n".join([*OFTEN.split(), *PERSONS.split(), *between, *RARE.split()]) + "\n", "utf-8")
    found = SourceWords.of_run(folder)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("Fuer Muenchen.", "Für München."),
        ("schoene, schoen", "schoene, schön"),  # only what is listed
        ("ein schluessel, SCHLUESSEL", "ein Schlüssel, SCHLÜSSEL"),
        ("Die Strasse, die strasse", "Die Straße, die Straße"),
        ("Ich weiss, daß ich muß.", "Ich weiß, dass ich muss."),
        ("FLUSS, Fluß, Fluße", "FLUSS, Fluss, Fluße"),  # no short vowel is before ß between vowels
        ("Gewaesser", "Gewässer"),  # only one of its places has other letters
        ("Mueller@host.de {fuer} www.fuer.de fuer", "Mueller@host.de {fuer} www.fuer.de für"),
        ("In Massen, Michael: neue aktuelle aus Israel", None),  # nearly as frequent, or as it is listed
        ("Maße", None),
        ("Es ist sooo guuut, SOOO, ooo, XIII, Kaffeee", "Es ist so gut, SO, ooo, XIII, Kaffeee"),
        ("so gut,neue!Für jede.Michael muss", "so gut, neue! Für jede. Michael muss"),
        ("1,2 (x,y) a.B Org.Net {a,b} ab,cd=ef", "1,2 (x,y) a.B Org.Net {a,b} ab, cd=ef"),
        ("Kund*innen, Kund:in, Kund/-in, Student_innen", "Kunden, Kunde, Kunde, Studenten"),
        ("LehrerInnen, Lehrer(in), Lehrer(innen), Lehrer/innen", "Lehrer, Lehrer, Lehrer, Lehrer"),
        ("Ärzt*innen, Kolleg:in, Programmierer*innen", "Ärzte, Kollege, Programmierer*innen"),  # is it listed?
        ("jede*r, eine/n, ein:e, die/der, Die*der, den:die", "jeder, einen, ein, der, Der, den"),
        ("LogIn, 3:in, a/b, er:innert, Kund*innenrat", None),
        ("https://host.de/Kunde/in, /srv/Lehrer/in/ein/e, `Kund*innen`, {Kund:in}", None),
        ("", None),
    ],
)
def test_what_is_read(line: str, read: str | None, listed: SourceWords) -> None:
    found = usually_spelled(line, listed)
    assert (None if found is None else found.text) == read


def test_repeated_names_get_their_letters_back(listed: SourceWords) -> None:
    found = usually_spelled("Herr Mueller aus Muenchen", listed)
    assert found is not None
    assert found.restore("Mr. Müller from Munich, Müllers") == "Mr. Mueller from Munich, Müllers"


@given(words=st.lists(st.sampled_from(["Fuer", "fuer", "Müller", "Mueller", "daß", "Haus", "aeoeuess", "ß", "_", "1"])))
def test_a_repeated_line_is_the_line_but_for_a_name_in_both_spellings(words: list[str], listed: SourceWords) -> None:
    line = " ".join(words)
    found = usually_spelled(line, listed)
    if found is None:
        assert not {"Fuer", "fuer", "Mueller", "daß"} & {*words}
    else:
        both = {"Mueller", "Müller"} <= {*words}  # which of them a translation repeats, nothing says
        assert found.restore(found.text) == (line.replace("Mueller", "Müller") if both else line)
        assert usually_spelled(found.text, listed) is None


def test_only_german_has_forms_for_all_genders(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("the\nKunden\n", "utf-8")
    listed = SourceWords.of_run(tmp_path)
    assert listed is not None
    assert usually_spelled("Kund*innen", listed) is None


def test_a_translator_reads_it_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / FILE).write_text("dog\nfür\n", "utf-8")
    translator = Translator.load(run, device="cpu")
    other, usual = translator.translate(["A dog fuer a dog.", "A dog für a dog."])
    assert other.outputs[0].tokens == usual.outputs[0].tokens
    assert other.source == "A dog fuer a dog."
