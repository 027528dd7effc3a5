"""The guard finds numbers and addresses of a source that an output lacks, and places them in a second search."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.engine.guards.numbers import SourceNumbers
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.text.reading.glossary import Entry, Glossary
from headwise.text.tokens.subwords import Subwords
from native_engines import compiled
from translator_run import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "de", text=["0 1 2 3 4 5 6 7 8 9 . , :"])


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Subwords:
    run = make_run(tmp_path_factory.mktemp("runs") / "de", text=["0 1 2 3 4 5 6 7 8 9 . , : - A B Z @ / _ ( ) %"])
    return Subwords.load(run)


def lacking(subwords: Subwords, source: str, output: str) -> list[str]:
    numbers = SourceNumbers.of(source, subwords, 30)
    return [] if numbers is None else sorted(numbers.lacking(subwords.encode_target(output)).elements())


@pytest.mark.parametrize(
    ("source", "output", "found"),
    [
        ("Page 42", "Seite 4222", ["42"]),
        ("Page 42", "Seite 42.", []),
        ("Page 42 of 42", "Seite 42", ["42"]),
        ("1,000 men", "1.000 Mann", []),
        ("1,000 men", "1000 Mann", []),
        ("7.1", "7,1", []),
        ("7.1", "7,2", ["7.1"]),
        ("at 5:30", "um 17.30", []),
        ("at 12:05", "um 12.05", []),
        ("at 00:05", "um 12.05", []),
        ("um 17.30", "at 5:30", ["17.30"]),
        ("um 17.30", "at 6:30", ["17.30"]),
        ("12.30:15", "12", ["12.30:15"]),
        ("9" * 5000 + ":30", "9", ["9" * 5000 + ":30"]),
        ("at 7:55", "um 7:555", ["7:55"]),
        ("the 8 men", "die acht Mann", []),
        ("the 2 men", "die 22 Mann", ["2"]),
        ("the 2 men of 22", "die zwei von 22", []),
        ("the 8 men", "die 20 Mann", []),  # it may be a time
        ("by 8%", "um 8 %", []),
        ("by 8%", "um 20 %", ["8%"]),
        ("by 14\u00a0%", "um 2%", ["14\u00a0%"]),
        ("by 8%", "um acht Prozent", []),
        ("the 7 men", "die 12 Mann", ["7"]),
        ("to a.b@host.com.", "an a.b@host.com.", []),
        ("to a.b@host.com.", "an ab@host.com.", ["a.b@host.com"]),
        ("to a.b@host.com.", "an A.B@host.com.", ["a.b@host.com"]),
        ("at www.host.com", "bei www,host,com", ["www.host.com"]),
        ("(see https://host.com/a_(1)).", "(siehe https://host.com/a_(1)).", []),
        ("(see https://host.com/a_(1)).", "(siehe host.com/a (1)).", ["https://host.com/a_(1)"]),
        ("at host.com/a.", "bei hst.com/a.", ["host.com/a"]),
        ("at Host.co.uk and host.de.", "bei Host.co.uk und host.de.", []),
        ("the file my_list_v2.docx", "die Datei my_list_V2.docx", ["my_list_v2.docx"]),
        (r"save D:\Old files\a.zip.", r"D:\Old files\a.zip.zip sichern", [r"D:\Old files\a.zip"]),
        ("in /etc/hosts, and/or me", "in /etc/host, und/oder mir", ["/etc/hosts"]),
        ("what #dogs by @anna, C#", "was Hunde von @Anna", ["#dogs", "@anna"]),
        ("file:my_list.docx", "Datei:my_List.docx", ["my_list.docx"]),
        ("ok.it was a.comma", "OK", []),
        ("from 9am to 5pm", "von 9 bis 6 Uhr", ["5pm"]),
        ("from 9am to 5pm", "von 9 bis 17 Uhr", []),
        ("ten men", "10 Mann", []),
        ("code 1Z99AA784", "Code 1Z99A784", ["1Z99AA784"]),
        ("code 1Z99AA784.", "Code 1Z99AA784.", []),
        ("code AB12345", "Code AB-12345", ["AB12345"]),
        ("9AM and 10PM", "9 und 22 Uhr", []),
        ("um 11 Uhr", "at 11:00", []),
        ("um 6 Uhr", "at 600", ["6"]),
        ("um 06:00", "at 6:00", []),
        ("um 18 Uhr", "at 6:00", ["18"]),
        ("at 6:00", "um 18 Uhr", []),
        ("um 14 Uhr am 2.", "at 2:00 on 14", []),
        ("at 7:30 pm", "um 7:30", ["7:30 pm"]),
        ("at 7:30 p.m. on 5", "um 19.30 am 5", []),
        ("at 7:30 p.m.", "a las 7:30 p. m.", []),
        ("um 19:30", "at 7:30 p.m.", []),
        ("um 18 Uhr", "at 6 p.m.", []),
        ("von 8:00 bis 20:00", "from 8:00 to 8:00", ["20:00"]),
        ("die 18 Mann", "the 6 men", ["18"]),
        ("at 6pm", "um 6", ["6pm"]),
        ("at 6 pm", "um 18", []),
        ("at 6 p.m.", "um 18:00", []),
        ("at 12:15 p.m.", "um 12.15", []),
        ("at 12:15 p.m.", "um 0.15", ["12:15 p.m"]),
        ("um 12:30", "at 12:30 a.m.", ["12:30"]),
        ("um 12:30", "at 12:30 p.m.", []),
        ("um 0:30", "at 12:30 a.m.", []),
        ("at 12:30 a.m.", "um 0.30", []),
        ("at 8 a.m.", "um 20", ["8 a.m"]),
        ("at 8 a.m.", "um 8", []),
        ("um 16:30", "at 16:30 a.m.", []),
        ("am 7 am 5", "on 7 on 5", []),
        ("in 2019 PM A", "in 2019 PM A", []),
        ("3 am 7. ", "3 on 7", []),
        ("at 5:30, at 5:30", "um 17.30", ["5:30"]),
        ("50 g of 200 g", "50 von 200 g", ["50 g"]),
        ("2.5 kg", "2,5 kg", []),
        ("2.5 kg", "2,5\u00a0Kg", ["2.5 kg"]),
        ("12 kilos", "12 kg", []),
        ("12 kilos and 12 kg", "12 kg", ["12"]),
        ("a 500-ml bottle", "eine 500 ml Flasche", []),
        ("120 cm long", "120 Uhr lang", ["120 cm"]),
        ("30 m", "30 Mann", ["30 m"]),
        ("5 m", "5", ["5 m"]),
        ("5m people", "5 Mann", []),
        ("2 lb", "2 Pfund", []),
        ("60 Watt, 20 men", "60 Watt, 20 Mann", []),
        ("gate B7, the A4, vitamin B12", "Tor B7, die Autobahn, Vitamin B12", ["A4"]),
        ("an A7-sized map", "eine Karte in A7", []),
        ("Call getName() with user_id", "Ruf getname() mit user_id auf", ["getName()"]),
        ("main() of {user_id}", "Haupt() von {user_id}", ["main()"]),
        ("jede_r, liebe_r kund_in, mitarbeiter_innen, e_mail", "alle", ["e_mail"]),
        ("my iPhone, macOS, PHP_EOL, -is_it, $is_it, is_it-b", "mein", []),
        ("", "1", []),
    ],
)
def test_which_numbers_an_output_lacks(subwords: Subwords, source: str, output: str, found: list[str]) -> None:
    assert lacking(subwords, source, output) == found


@given(numbers=st.lists(st.integers(0, 99_999), max_size=5, unique=True))
def test_an_output_with_all_numbers_lacks_none(subwords: Subwords, numbers: list[int]) -> None:
    written = [str(number) for number in numbers]
    assert lacking(subwords, " ".join(written), " ".join(sorted(written))) == []
    if written and len(written[0]) > 1:
        assert lacking(subwords, " ".join(written), " ".join(written[1:])) == [written[0]]


@pytest.mark.parametrize("engine", ["pytorch", pytest.param("native", marks=compiled)])
@pytest.mark.parametrize(
    ("number", "line"),
    [
        ("42", "Two dogs are playing 42 times in the snow."),
        ("42,000", "42,000 dogs are playing in the snow."),  # which is read as a short one
    ],
)
def test_a_number_that_is_lacking_is_placed(run: Path, engine: str, number: str, line: str) -> None:
    translator = Translator.load(run, engine=engine, device="cpu")
    plain, guarded = (translator.translate([line], guard=guard)[0] for guard in (False, True))
    assert number not in plain.text
    assert Counter(guarded.text.split())[number] == 1
    assert guarded.warnings == (f"guard: a first output that lacks {number}, searched again with it",)
    assert len(guarded.outputs) == len(plain.outputs)
    (with_term,) = translator.translate([line], guard=True, glossary=Glossary([Entry("dogs", ("Hunde",))]))
    assert "Hunde" in with_term.text
    assert not any(number in warning for warning in with_term.warnings)


@pytest.mark.parametrize("longest", [1, 3, 6])
def test_what_is_placed_leaves_an_output_within_its_bound(longest: int, run: Path) -> None:
    translator = Translator.load(run, device="cpu")
    for line in ("There are 4711 dogs.", "1234567890"):
        (found,) = translator.translate([line], guard=True, max_length=longest)
        assert len(found.outputs[0].tokens) <= longest


def test_a_run_that_is_guarded_samples_unguarded(run: Path) -> None:
    translator = Translator.load(run, engine="pytorch", device="cpu")
    translator.options = translator.options_with(guard=True)
    assert not translator.options_with(sample=True).guard
    with pytest.raises(ConfigError, match="guard: expected it together with beam search, found sampling"):
        translator.options_with(sample=True, guard=True)
