"""Characters that a vocabulary lacks: what is read in their place, and what is written for it in a translation."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.analysis.translation_tracer import TranslationTracer
from headwise.config import SubwordConfig
from headwise.engine.outputs import Output, Translation
from headwise.engine.readings.line_reader import LineReader
from headwise.engine.readings.spelling import Speller, unlearned
from headwise.engine.translator import Translator
from headwise.text.reading.glossary import Entry, Glossary
from headwise.text.tokens.subwords import Subwords
from headwise.weights import Weights, saved
from translator_run import ENGLISH, make_run

# All letters of the alphabet, some with marks, the names and symbols that stand in for others, and a word of kana.
TEXT = [
    "The quick brown fox jumps over the lazy dog .",
    "Zanuko , Tarupi , Xuvo , Qadir and Jelka ← ★ • → ✓ ☺",
    "He said ê in Noël , and °C of course ; THE QUICK BROWN FOX JUMPS OVER LAZY DOGS : さ ! ? ÷ 0 1 2 5 + - \" ' https://",
] * 9


@functools.cache
def speller(*text: str, size: int = 142) -> Speller:
    lines = [*text] * 9 or TEXT
    return Speller(Subwords.train(lines, lines, SubwordConfig(size=size)))


@pytest.mark.parametrize(
    ("line", "read", "translation", "written"),
    [
        ("Nguyễn sleeps.", "Nguyên sleeps.", "Nguyên schläft.", "Nguyễn schläft."),  # ê is known
        ("Łódź is old.", "Lodz is old.", "Lodz ist alt.", "Łódź ist alt."),
        ("Œdipe's dog", "Oedipe's dog", "Oedipes Hund", "Œdipes Hund"),
        ("Jiří’s fox", "Jiri's fox", "jiris Fuchs, Jirin", "Jiřís Fuchs, Jirin"),
        ("It – is… «Noël»", 'It - is... "Noël"', 'Es - ist... "Noël"', 'Es - ist... "Noël"'),
        ("It is 20 ℃.", "It is 20 °C.", "Es sind 20 °C.", "Es sind 20 ℃."),
        ("5 m² of 12 m²", "5 m2 of 12 m2", "12 m2 und 5 m2", "12 m² und 5 m²"),
        ("2 + ₂", "2 + 2", "2 + 2", "2 + 2"),
        ("5 + ₂", "5 + 2", "5 + 2", "5 + ₂"),
        ("It´s", "It's", "It's", "It's"),
        ("a 🦖", "a ←", "← und ←", "🦖 und 🦖"),
        ("田中, 山田, 田中", "Zanuko, Tarupi, Zanuko", "Zanuko und Tarupi, Zanuko", "田中 und 山田, 田中"),
        ("Zanuko knows 田中", "Zanuko knows Tarupi", "Zanuko kennt Tarupi", "Zanuko kennt 田中"),
        ("a 🦖🦕!", "a ←!", "ein ←!", "ein 🦖🦕!"),
        ("👨\u200d👩\u200d👧 ÷👍🏽÷", "← ÷★÷", "← ÷★÷", "👨\u200d👩\u200d👧 ÷👍🏽÷"),
        # Of emoji side by side, the first; ☺ is known.
        ("Zap ☺☺🏽 🦖!", "Zap ☺!", "Zap ☺!", "Zap ☺☺🏽 🦖!"),
        ("☺☺ and ☺", "☺ and ☺", "☺ und ☺", "☺☺ und ☺"),
        ("☺☺ and ☺", "☺ and ☺", "Und ☺", "Und ☺"),
        ("👍👍 of 👍🦖", "← of ★", "★ von ←", "👍🦖 von 👍👍"),
        ("1️⃣2️⃣ 5", "← 5", "← 5", "1️⃣2️⃣ 5"),
        ("No ☺, 2 ↔️ 5", "No ☺, 2 ← 5", "Kein ☺, 2 ← 5", "Kein ☺, 2 ↔️ 5"),
        ("☺", None, "", ""),
        ("No!!! So?", "No! So?", "Nein! So?", "Nein!!! So?"),
        ('He said "No! No!!"?!', 'He said "No! No!"?', '"Nein! Nein!", sagte er?', '"Nein! Nein!!", sagte er?!'),
        ("No!! No!", "No! No!", "Nein!", "Nein!"),
        ("No! Is it? ☺", None, "", ""),
        ("a ← 🦖", "a ← ★", "ein ← ★", "ein ← 🦖"),
        ('fox "/ˈfɒks/", [ʃ ʒ]', 'fox "Zanuko", Tarupi', "Tarupi, Zanuko", "[ʃ ʒ], /ˈfɒks/"),
        ("/the fox/ ʃ", "/the fox/ Zanuko", "/der/ Zanuko", "/der/ ʃ"),
        ("https://例.jp", "https://Zanuko.jp", "https://Zanuko.jp", "https://例.jp"),
        # Ranges of numbers.
        ("1939–1945, 1–5", "1939-1945, 1-5", "1-5, 1939-1945", "1–5, 1939–1945"),
        ("9am–5pm.", "9am-5pm.", "9am-5pm", "9am–5pm"),
        ("1,000–1,500 dogs", "1,000-1,500 dogs", "1.000-1.500 Hunde", "1.000–1.500 Hunde"),
        ("1–2 and 0-5", "1-2 and 0-5", "1-2 und 0-5", "1–2 und 0-5"),
        ("1–2–5", "1-2-5", "1-2-5", "1–2–5"),
        ("1‒2 🦖", "1-2 ←", "1-2 ← 1-5", "1–2 🦖 1-5"),
        ("1 – 2", "1 - 2", "1 - 2", "1 - 2"),
        ("–1.5, –2 and -5", "-1.5, -2 and -5", "-1,5, -2 und -5", "–1,5, –2 und -5"),
        ("–1, 2–5", "-1, 2-5", "2-5, 0-1, -1", "2–5, 0-1, –1"),
        # Two names that become one: in their order, if the translation has as many.
        ("Jiří, Jiři", "Jiri, Jiri", "Jiri und Jiri", "Jiří und Jiři"),
        ("Jiří, Jiři", "Jiri, Jiri", "Beide heißen Jiri", "Beide heißen Jiri"),
        ("Jiri, Jiří", "Jiri, Jiri", "Jiri und Jiri", "Jiri und Jiří"),
        # A word of which some letters are known may be a sentence without spaces.
        ("田さ", None, "", ""),
        ("a\u0335", None, "", ""),  # a mark that no letter has
        ("The fox", None, "", ""),
        ("", None, "", ""),
    ],
)  # fmt: skip
def test_what_is_read_and_written(line: str, read: str | None, translation: str, written: str) -> None:
    found = speller().respelled(line)
    assert (None if found is None else found.text) == read
    if found is not None:
        assert found.restored(Translation("", (), (Output(translation),))).text == written


@pytest.mark.parametrize(
    ("line", "read", "translation", "written"),
    [
        ("$12,500.00 of 1.250", "$46 of 82", "82 von $46, 46.", "1.250 von $12,500.00, 12,500.00."),
        ("12500, 12500; 105.25", "46, 46; 82", "46, 46,00, 46,5 und 82 0", "12500, 12500, 46,5 und 105.25 0"),
        ("$5.25, 5.25 €, 5.25", "$46, 46 €, 5.25", "$46, 46 €, 5.25", "$5.25, 5.25 €, 5.25"),
        ("15.000 in 2001, 46", "82 in 2001, 46", "46 in 2001, 82", "46 in 2001, 15.000"),
        ("1–2 🦖 10,000", "1-2 ← 46", "1-2 ← 46", "1–2 🦖 10,000"),
        ("10000 20000 30000 40000 50000 60000", "46 82 38 97 72 60000", "72 60000", "50000 60000"),
        ("2001, 1.5, 1.0.15, 1:0, 12.10.2001, 15/10000, 10000/15, A10000, 10000th", None, "", ""),
    ],
)
def test_a_short_number_stands_in_for_a_long_one(line: str, read: str | None, translation: str, written: str) -> None:
    known = speller("1 2 3 4 5 6 7 8 9 0 . , : / $ € in of ← - 1-2 A th ;", size=34)
    found = known.respelled(line, shortened=True)
    assert (None if found is None else found.text) == read
    if found is not None:
        assert found.restore(translation) == written
        assert found.restore(found.text) == line


@pytest.mark.parametrize(
    ("line", "read", "translation", "written"),
    [
        ("Open photos.zip.", "Open X20.", "X20. öffnen: X20-Datei, X205", "photos.zip. öffnen: photos.zip-Datei, X205"),
        ("a@b.de, a@b.de: c@d.de", "X20, X20: RX8", "rx8 x20 MX5", "c@d.de a@b.de MX5"),
        ("(see www.a.de/b-2, /etc/hosts)", "(see X20, RX8)", "(RX8, X20)", "(/etc/hosts, www.a.de/b-2)"),
        ("RX8 in a.txt", "RX8 in X20", "X20 in RX8", "a.txt in RX8"),
        ("x20 in ~/see", "x20 in RX8", "RX8 in x20", "~/see in x20"),
        ("X20 in a.txt", "X20 in RX8", "RX8 in X20", "a.txt in X20"),
        ("DE89370400440532013000 of A320", "X20 of A320", "X20 of A320", "DE89370400440532013000 of A320"),
        ("a.py b.py c.py d.py e.py f.py", "X20 RX8 QK7 MX5 XP3 f.py", "XP3 f.py", "e.py f.py"),
        ("+49 (0)89 1234-5678, a.py", "X20, RX8", "RX8: X20", "a.py: +49 (0)89 1234-5678"),
        ("(0800 123 4567) 302-1234567-8901234", "(X20) RX8", "RX8 (X20)", "302-1234567-8901234 (0800 123 4567)"),
        ("DE89 3704 0044 0532 0130 00.", "X20.", "X20.", "DE89 3704 0044 0532 0130 00."),
        ("1939-1945, 02/03/2024, 2023-12-25, 1 2 3 4 5 6 7", None, "", ""),
        ("{{ a.b }}: {% if a %}Open {b} {{ a.b }}", "X20: {% if a %}Open {b} X20", "X20 X20", "{{ a.b }} {{ a.b }}"),
        ("Open `see 5`.", "Open X20.", "X20: `see`", "`see 5`: `see`"),
        ("12,500.00 in a.txt", "46 in X20", "X20: 46", "a.txt: 12,500.00"),
        ("Open it, e.g. here: a. Then b.", None, "", ""),
    ],
)
def test_a_code_stands_in_for_an_address_or_a_file(line: str, read: str | None, translation: str, written: str) -> None:
    known = speller(
        "X20 RX8 QK7 MX5 XP3 46 82 ( ) . , : - / @ _ 1 3 4 5 6 7 8 9 Open see photos zip etc hosts www", size=60
    )
    found = known.respelled(line, shortened=True)
    assert (None if found is None else found.text) == read
    if found is not None:
        assert found.restore(translation) == written
        assert found.restore(found.text) == line


NEVER_READ = "−·¿‰†‡¶¤¦¬∈"


def embedding(subwords: Subwords, alike: str) -> np.ndarray:
    """Return random rows, of which those of the characters have nearly one direction, as where no text has them."""
    random = np.random.default_rng(1)
    rows = random.normal(size=(subwords.source_size, 64)).astype(np.float32)
    for character in alike:
        (number,) = [n for n in subwords.encode_source(f"a{character}a") if subwords.source_pieces([n]) == [character]]
        rows[number] = random.uniform(0.5, 2) * (1 + random.normal(size=64) / 20)
    return rows


@pytest.mark.parametrize("size", [1, 1e30])
@pytest.mark.parametrize(("alike", "found"), [(NEVER_READ, NEVER_READ), (NEVER_READ[:4], ""), ("", "")])
def test_characters_without_training_are_found_by_their_rows(
    alike: str, found: str, size: float, tmp_path: Path
) -> None:
    lines = [*TEXT, *[f"a{character}a {character}" for character in NEVER_READ] * 9]
    subwords = Subwords.train(lines, lines, SubwordConfig(size=170))
    path = tmp_path / "model.safetensors"
    path.write_bytes(saved({"source_embedding.weight": embedding(subwords, alike) * np.float32(size)}))
    ids = unlearned(Weights(path), 64, subwords)
    assert sorted(subwords.source_pieces(sorted(ids))) == sorted(found)
    read = Speller(subwords, ids).respelled("−5 °C·2‰: «¿a!»")
    assert read is not None
    assert read.text == ('-5 °C•2←: "★a!"' if found else '−5 °C·2‰: "¿a!"')
    translation = "Es sind -5 °C•2 ←: „★A!“"
    assert read.restore(translation) == ("Es sind −5 °C·2 ‰: „¿A!“" if found else translation)


@pytest.mark.parametrize(("line", "read"), [("fox+1 🦖", "fox+1 ←"), ("fox+a 🦖", "fox+a ←"), ("+. 🦖", "+← ★")])
def test_a_symbol_is_known_beside_what_is_not(line: str, read: str) -> None:
    found = speller("fox + ← ★ ;", size=15).respelled(line)  # a, digits and the full stop are lacking
    assert found is not None
    assert found.text == read


def test_a_large_embedding_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(saved({"source_embedding.weight": np.full((2, 2), np.nan, np.float32)}))
    assert unlearned(Weights(path), 2**30, speller()._subwords) == frozenset()


def test_there_are_as_many_names_as_are_known() -> None:
    found = speller().respelled("一 二 三 四 五 六 七")
    assert found is not None
    assert found.text == "Zanuko Tarupi Xuvo Qadir Jelka 六 七"
    assert speller("a b c", size=10).respelled("a 一 🦖") is None


@given(
    st.lists(
        st.sampled_from(
            ["fox", "Nguyễn", "田中", "山田", "🦖", "☺", "☺☺", "!", "?!", "1️⃣", "É", "Ł", "℃", "'x'", "Jiří"]
        ),
        max_size=8,
    )
)
def test_what_is_repeated_is_what_was_written(words: list[str]) -> None:
    line = " ".join(words)
    found = speller().respelled(line)
    if found is None:
        assert not set(words) - {"fox", "'x'", "☺", "!"}
    else:
        assert speller().respelled(found.text) is None
        assert found.restore(found.text) == line


def test_every_interface_reads_them_so(tmp_path: Path) -> None:
    translator = Translator.load(make_run(tmp_path / "run"), engine="pytorch", device="cpu")
    line = ENGLISH[0].replace("a", "ā", 1)
    (plain, marked) = translator.translate([ENGLISH[0], line])
    assert marked.source == line
    assert marked.source_pieces == plain.source_pieces
    assert marked.text == plain.text
    changed = next(word for word in line.split() if "ā" in word)
    assert marked.unknown == (changed,)  # which isn't in the translation
    glossary = Glossary([Entry(changed, ("Katze",))])
    (found,) = translator.translate([line], glossary=glossary)
    assert "Katze" in found.text
    tracer = TranslationTracer(translator)
    assert tracer.trace(line).source == tracer.trace(ENGLISH[0]).source
    assert f"read as: {ENGLISH[0]}" in tracer.trace(line).notes


def test_a_term_of_a_glossary_in_an_address_is_read() -> None:
    lines = ["a dog in Node.js", "a dog in main.py"]
    subwords = Subwords.train(*[[*lines, "X20"] * 9] * 2, SubwordConfig(size=40))
    reader = LineReader(subwords, Speller(subwords))
    glossary = Glossary([Entry("Node.js", ("Node.js",)), Entry("dog", ("Hund",))])

    def read(glossary: Glossary | None) -> dict[int, str]:
        found = reader.readings(lines, recase=False, shortened=True, glossary=glossary)[-1]
        return {number: each.text for number, each in found.items()}

    assert read(None) == {0: "a dog in X20", 1: "a dog in X20"}
    assert read(glossary) == {1: "a dog in X20"}
    assert read(Glossary([Entry("in main.py", ("hier",))])) == {0: "a dog in X20"}
