"""Glossaries: their files, and where their terms occur in a text."""

from __future__ import annotations

from pathlib import Path

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
def test_whole_words_the_longest_first(
    glossary: Glossary, text: str, expected: list[tuple[str, int]]
) -> None:
    assert found(glossary, text) == expected


def test_any_case_where_it_is_ignored() -> None:
    glossary = Glossary([Entry("Straße", ("x",)), Entry("bank", ("y",))], ignore_case=True)
    assert found(glossary, "STRASSE, straße; Bank") == [("Straße", 2), ("bank", 1)]


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


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "expected lines of text, found an empty file"),
        (b"# nothing\n", "expected from 1 to 100,000 entries, found 0"),
        (b"a\tb\nbank Bank\n", "line 2: expected a term, a tab and its translation, found 'bank Bank'"),
        (b"a\tb\nbank\t\n", "line 2: expected a term, a tab and its translation"),
        (b"\tBank\n", "line 1: expected a term and its translation, found an empty one"),
        (b"a\tb\t\tc\n", "line 1: expected a term and its translation, found an empty one"),
        (b"a\tb\na\tc\n", "line 2: expected each source term once, found 'a' again, after .* line 1"),
        (b"a\t" + b"b" * 501 + b"\n", "line 1: expected terms of at most 500 characters, found 501"),
        (b"a" + b"\tb" * (MOST_FORMS + 1) + b"\n", "line 1: expected from 1 to 32 translations, found 33"),
        (b"a " * 33 + b"\tb\n", "line 1: expected source terms of at most 32 words, found 33"),
        (b"a\t\xff\n", "line 1: expected UTF-8, found another byte at 3"),
        (b"a\t\xed\xa0\x80\n", "line 1: expected UTF-8"),
    ],
)
def test_files_that_are_no_glossaries(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "terms.tsv"
    file.write_bytes(content)
    with pytest.raises(DataError, match=sentence) as error:
        read_glossary(file)
    assert "\n" not in str(error.value)


def test_entries_of_a_request_are_checked_like_a_file() -> None:
    with pytest.raises(DataError, match=r"glossary entry 2: expected whole characters, found half of one"):
        Glossary([Entry("a", ("b",)), Entry("c", ("\ud800",))])
