"""Glossaries: their files, and where their terms occur in a text."""

from __future__ import annotations

import csv
import gzip
import io
import unicodedata
from pathlib import Path
from typing import Literal

import pytest

from headwise.errors import DataError
from headwise.text.reading.glossary import MOST_FORMS, Entry, Glossary, Match, read_glossary


def found(glossary: Glossary, text: str) -> list[tuple[str, int]]:
    return [(match.entry.source, match.count) for match in glossary.find(text)]


@pytest.fixture
def glossary() -> Glossary:
    sources = ["bank", "bank account", "New York", "C++", "取引", "取引先"]
    return Glossary(Entry(source, ("x",)) for source in sources)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A bank.", [("bank", 1)]),
        ("A (bank), a bank; banks, embankment, BANK", [("bank", 2)]),
        ("The bank account at the bank", [("bank account", 1), ("bank", 1)]),
        ("bank accounts", [("bank", 1)]),
        ("in New  York or new York", [("New York", 1)]),
        ("C++ and C", [("C++", 1)]),
        ("新しい取引先と取引", [("取引先", 1), ("取引", 1)]),
        ("", []),
    ],
)
def test_whole_words_the_longest_first(glossary: Glossary, text: str, expected: list[tuple[str, int]]) -> None:
    assert found(glossary, text) == expected


def test_any_case_where_it_is_ignored() -> None:
    glossary = Glossary([Entry("Straße", ("x",)), Entry("bank", ("y",))], ignore_case=True)
    assert found(glossary, "STRASSE, straße; Bank") == [("Straße", 2), ("bank", 1)]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_terms_are_found_however_their_letters_are_written(form: Literal["NFC", "NFD"]) -> None:
    glossary = Glossary([Entry(unicodedata.normalize(form, "schöne Straße"), ("x",))])
    for text in ("schöne Straße", unicodedata.normalize("NFD", "schöne Straße"), "schö\u00adne\u00a0Straße"):
        assert [match.count for match in glossary.find(text)] == [1]


def test_translations_have_the_letters_that_models_write() -> None:
    written = "Köter", "\u0958"  # the second has no composed form in NFC
    glossary = Glossary([Entry("dog", (unicodedata.normalize("NFD", written[0]), written[1]))])
    (match,) = glossary.find("a dog")
    assert match.entry.targets == written
    assert [match.missing(f"der {each} {each}!") for each in written] == [0, 0]


def test_what_a_translation_lacks() -> None:
    match = Match(Entry("bank", ("Bank", "Banken")), 2)
    assert match.missing("Die Bank und die Banken.") == 0
    assert match.missing("Die Bank und die Bankkonten.") == 1
    assert match.missing("die bank") == 2
    assert match.missing("die bank", lowercase=True) == 1


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_bytes("\ufeff# bank terms\r\nbank\tBank\tBanken\t\r\n\r\n cat \t Katze\r\n".encode())
    entries = read_glossary(file).entries
    assert entries == (Entry("bank", ("Bank", "Banken")), Entry("cat", ("Katze",)))


def test_comma_separated_columns(tmp_path: Path) -> None:
    file = tmp_path / "terms.csv"
    file.write_bytes(b'source,target\r\n"bank, central",Zentralbank,en,de\r\n\r\n"a ""b""",c\r\n')
    expected = (Entry("bank, central", ("Zentralbank",)), Entry('a "b"', ("c",)))
    assert read_glossary(file).entries == expected
    packed = tmp_path / "terms.CSV.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert read_glossary(packed).entries == expected


def test_a_term_in_quotation_marks_may_begin_like_a_comment(tmp_path: Path) -> None:
    cells = io.StringIO()
    terms = [["source", "target"], ["#topic", "#Thema"], ["a\n#b", "c"]]
    csv.writer(cells, quoting=csv.QUOTE_ALL).writerows(terms)
    (tmp_path / "terms.csv").write_text(f"# of our posts, and others\n{cells.getvalue()}#x,y\n", newline="")
    found = [[entry.source, *entry.targets] for entry in read_glossary(tmp_path / "terms.csv").entries]
    assert found == [["#topic", "#Thema"], ["a #b", "c"]]


TBX_2008 = """<?xml version="1.0"?><!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX" xml:lang="en"><martifHeader/><text><body>
<termEntry id="1"><descrip type="definition">of money</descrip>
 <langSet xml:lang="de-DE"><tig><term>Bank</term></tig><tig><term>Geldinstitut</term></tig></langSet>
 <langSet xml:lang="en"><ntig><termGrp><term>bank</term></termGrp></ntig>
 <tig><term>bank &amp; trust</term></tig></langSet>
 <langSet xml:lang="fr"><tig><term>banque</term></tig></langSet></termEntry>
<termEntry id="2"><langSet xml:lang="en"><tig><term>untranslated</term></tig></langSet></termEntry>
</body></text></martif>"""
TBX_2019 = """<tbx style="dca" type="TBX-Basic" xml:lang="en" xmlns="urn:iso:std:iso:30042:ed-2"><text><body>
<conceptEntry id="1"><langSec xml:lang="en"><termSec><term>bank</term>
<termNote type="partOfSpeech">noun</termNote></termSec></langSec>
<langSec xml:lang="de"><termSec><term>Bank</term></termSec></langSec></conceptEntry>
<conceptEntry id="2"><langSec xml:lang="en"><termSec><term>bank</term></termSec></langSec>
<langSec xml:lang="de"><termSec><term>Ufer</term></termSec></langSec></conceptEntry></body></text></tbx>"""


def concept(source: str, target: str) -> bytes:
    languages = f'<langSet xml:lang="en">{source}</langSet><langSet xml:lang="de">{target}</langSet>'
    return f"<tbx><conceptEntry>{languages}</conceptEntry></tbx>".encode()


def test_term_bases(tmp_path: Path) -> None:
    old, new = tmp_path / "old.tbx", tmp_path / "new.tbx"
    old.write_text(TBX_2008)
    new.write_text(TBX_2019)
    packed = tmp_path / "new.tbx.gz"
    packed.write_bytes(gzip.compress(TBX_2019.encode()))
    assert read_glossary(packed).entries == read_glossary(new).entries
    german = ("Bank", "Geldinstitut")
    expected = (Entry("bank", german), Entry("bank & trust", german))
    assert read_glossary(old, ("en", "de")).entries == expected
    for languages in (("en", "de"), (None, None)):  # the file's first language, and its other one
        assert read_glossary(new, languages).entries == (Entry("bank", ("Bank", "Ufer")),)
    with pytest.raises(DataError, match="line 7: expected two languages, found de-DE, en, fr"):
        read_glossary(old)


@pytest.mark.parametrize(
    "status",
    [
        '<termNote type="administrativeStatus">{}-admn-sts</termNote>',
        '<min:administrativeStatus xmlns:min="http://www.tbxinfo.net/ns/min">{}-admn-sts</min:administrativeStatus>',
    ],
)  # fmt: skip
def test_a_term_that_must_not_be_used_is_left_out(status: str, tmp_path: Path) -> None:
    terms = "".join(
        f"<termSec><term>{word}</term><termNote type='partOfSpeech'>noun</termNote>{status.format(kind)}</termSec>"
        for word, kind in (
            ("Bank", "preferredTerm"),
            ("Kasse", "deprecatedTerm"),
            ("Institut", "admittedTerm"),
            ("Banco", "supersededTerm"),
        )
    )
    (tmp_path / "a.tbx").write_bytes(concept("<termSec><term>bank</term></termSec>", terms))
    assert read_glossary(tmp_path / "a.tbx").entries == (Entry("bank", ("Bank", "Institut")),)


def test_a_term_base_of_another_program(tmp_path: Path) -> None:
    tbx = pytest.importorskip("translate.storage.tbx", reason="needs pip install translate-toolkit")
    base = tbx.tbxfile()
    base.addsourceunit("bank").target = "Bank"
    (tmp_path / "a.tbx").write_bytes(bytes(base))
    assert read_glossary(tmp_path / "a.tbx").entries == (Entry("bank", ("Bank",)),)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", b'a,b\n"c,d\n', "a.csv line 2: expected comma-separated values, found other text"),
        ("a.csv", b"a,b\nc\n", "a.csv line 2: expected a term, a tab and its translation, found 'c'"),
        ("a.tbx", b"<tmx/>", "a.tbx line 1: expected an element tbx or martif, found tmx"),
        ("a.tbx", b"<tbx/>", "expected from 1 to 100,000 entries, found 0"),
        ("a.tbx", b"<!DOCTYPE a [<!ENTITY b 'c'>]><tbx/>", "expected a document without entity declarations"),
        ("a.tbx", b"<tbx>" + b"<a>" * 300, "expected elements nested at most 256 deep"),
        (
            "a.tbx",
            b"<tbx><termEntry><langSet>" + b"<term>a</term>" * 1_001,
            "expected at most 1,000 terms of a concept, found more",
        ),
        (
            "a.tbx",
            b"<tbx><termEntry><langSet><term>" + b"x" * 2**21,
            "expected segments of at most 1,048,576 characters",
        ),
        ("a.tbx", TBX_2019.encode()[:-9], "expected well-formed XML"),
        (
            "a.tbx",
            concept("<term>a</term>" * 1_000, "".join(f"<term>{number}</term>" for number in range(1_000))),
            "a.tbx line 1: expected from 1 to 32 translations, found more",
        ),
        ("terms.tsv", b"", "expected lines of text, found an empty file"),
        ("terms.tsv", b"# nothing\n", "expected from 1 to 100,000 entries, found 0"),
        ("terms.tsv", b"a\tb\nbank Bank\n", "line 2: expected a term, a tab and its translation, found 'bank Bank'"),
        ("terms.tsv", b"a\tb\nbank\t\n", "line 2: expected a term, a tab and its translation"),
        ("terms.tsv", b"\tBank\n", "line 1: expected a term and its translation, found an empty one"),
        ("terms.tsv", "\u200b\tBank\n".encode(), "line 1: expected a term and its translation, found an empty one"),
        ("terms.tsv", "bank\t\u00ad\n".encode(), "line 1: expected a term and its translation, found an empty one"),
        ("terms.tsv", b"a\tb\t\tc\n", "line 1: expected a term and its translation, found an empty one"),
        ("terms.tsv", b"a\tb\na\tc\n", "line 2: expected each source term once, found 'a' again, after .* line 1"),
        ("terms.tsv", b"a\t" + b"b" * 501 + b"\n", "line 1: expected terms of at most 500 characters, found 501"),
        ("terms.tsv", b"a" + b"\tb" * (MOST_FORMS + 1) + b"\n", "line 1: expected from 1 to 32 translations, found 33"),
        ("terms.tsv", b"a " * 33 + b"\tb\n", "line 1: expected source terms of at most 32 words, found 33"),
        ("terms.tsv", b"a\t\xff\n", "line 1: expected UTF-8 text, found other bytes"),
        ("terms.tsv", b"a\t\xed\xa0\x80\n", "line 1: expected UTF-8"),
    ],
)  # fmt: skip
def test_files_that_are_no_glossaries(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(DataError, match=sentence) as error:
        read_glossary(file)
    assert "\n" not in str(error.value)


def test_entries_of_a_request_are_checked_like_a_file() -> None:
    with pytest.raises(DataError, match=r"glossary entry 2: expected whole characters, found half of one"):
        Glossary([Entry("a", ("b",)), Entry("c", ("\ud800",))])
