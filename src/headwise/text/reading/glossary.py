"""Glossaries: source terms with the translations that a text must have for them, in a file or given as entries.

A file has one entry in each line: the source term, a tab, its translation, and after further tabs other translations or
inflected forms, any one of which will do. Empty lines and lines that begin with `#` are skipped. Of a `.csv` file the
first two comma-separated columns are these, and of a `.tbx` file the terms of each concept in the two languages.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headwise.characters import UNSPACED, as_seen, check_characters
from headwise.errors import DataError
from headwise.text.reading.bilingual import read_terms
from headwise.text.reading.compression import suffix
from headwise.text.reading.lines import one_line
from headwise.text.reading.records import read_lines_of

MOST_ENTRIES = 100_000
MOST_FORMS = 32  # translations of an entry
LONGEST = 500  # characters of a term
MOST_WORDS = 32  # of a source term: a text is searched for every length at every word
_SHOWN = 60  # characters of a term in a message
_WORDS = re.compile(rf"{UNSPACED.pattern}|(?:(?!{UNSPACED.pattern})\w)+|[^\w\s]")


@dataclass(frozen=True)
class Entry:
    """A source term and its translations, of which any one will do."""

    source: str
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Match:
    """An entry whose source term a text contains, so many times."""

    entry: Entry
    count: int

    def missing(self, translation: str, *, lowercase: bool = False) -> int:
        """Return how many times none of the translations is in a text, which may be in lower case."""
        forms = [form.lower() for form in self.entry.targets] if lowercase else self.entry.targets
        return max(0, self.count - _occurrences(words(translation), forms))


class Glossary:
    """Entries, found in a text as whole words, the longest first."""

    def __init__(
        self, entries: Iterable[Entry], *, ignore_case: bool = False, places: Sequence[str] | None = None
    ) -> None:
        """Index the entries; `ignore_case` finds source terms in any case.

        `places` name the entries in messages, by default by their numbers from 1. Raises `DataError` for an entry that
        is empty, too long, given twice, or has no letter or digit, and beyond `MOST_ENTRIES`.
        """
        self.entries = tuple(entries)
        self.ignore_case = ignore_case
        if not 1 <= len(self.entries) <= MOST_ENTRIES:
            raise DataError(f"glossary: expected from 1 to {MOST_ENTRIES:,} entries, found {len(self.entries):,}")
        self._by_words: dict[tuple[str, ...], Entry] = {}
        self._lengths: dict[str, set[int]] = defaultdict(set)  # of the terms with a first word
        first_places: dict[tuple[str, ...], str] = {}
        for number, entry in enumerate(self.entries):
            place = f"glossary entry {number + 1}" if places is None else places[number]
            key = self._key(_checked(entry, place).source)
            if len(key) > MOST_WORDS:
                raise DataError(f"{place}: expected source terms of at most {MOST_WORDS} words, found {len(key)}")
            if key in self._by_words:
                raise DataError(
                    f"{place}: expected each source term once, found {entry.source[:_SHOWN]!r} again, "
                    f"after {first_places[key]}; other translations of a term belong in the same entry"
                )
            self._by_words[key] = replace(entry, targets=tuple(map(_composed, entry.targets)))
            self._lengths[key[0]].add(len(key))
            first_places[key] = place

    def find(self, text: str) -> list[Match]:
        """Return the entries that occur in a text, in the order of their first occurrences, without overlaps."""
        key, counts, place = self._key(text), dict[Entry, int](), 0
        while place < len(key):
            for length in sorted(self._lengths.get(key[place], ()), reverse=True):
                entry = self._by_words.get(key[place : place + length])
                if entry is not None and place + length <= len(key):
                    counts[entry] = counts.get(entry, 0) + 1
                    place += length
                    break
            else:
                place += 1
        return [Match(entry, count) for entry, count in counts.items()]

    def _key(self, text: str) -> tuple[str, ...]:
        text = as_seen(text)
        return tuple(words(text.casefold() if self.ignore_case else text))


def read_glossary(
    path: Path, languages: tuple[str | None, str | None] = (None, None), *, ignore_case: bool = False
) -> Glossary:
    """Read a file, plain or compressed, as the end of its name says.

    `languages` are those of source and target, for a file with others. Raises `DataError` with the number of the first
    invalid line.
    """
    if suffix(path) == ".tbx":
        return _read_concepts(path, languages, ignore_case)
    lines = _read_lines(path)
    if suffix(path) == ".csv":
        return parse_lines(csv_lines(lines, comments=True), ignore_case=ignore_case, comments=False)
    return parse_lines(lines, ignore_case=ignore_case)


def _read_lines(path: Path) -> Iterator[tuple[str, str]]:
    for line, number in read_lines_of(path):
        if number > 2 * MOST_ENTRIES:
            raise DataError(f"{path}: expected at most {MOST_ENTRIES:,} entries, found more")
        yield f"{path} line {number}", line


def _read_concepts(path: Path, languages: tuple[str | None, str | None], ignore_case: bool) -> Glossary:
    """Read a TBX file; a source term of several concepts has the translations of all, as a line has several."""
    forms: dict[str, dict[str, str]] = {}  # of each source term, with the place of its first concept
    places: dict[str, str] = {}
    for terms, translations, line in read_terms(path, *languages):
        targets = [one_line(term).strip() for term in translations]
        for term in (one_line(each).strip() for each in terms if translations):
            place = places.setdefault(term, f"{path} line {line}")
            found = forms.setdefault(term, {})
            found.update(dict.fromkeys(targets, term))
            if len(found) > MOST_FORMS:
                raise DataError(f"{place}: expected from 1 to {MOST_FORMS} translations, found more")
            if len(forms) > MOST_ENTRIES:
                raise DataError(f"{path}: expected at most {MOST_ENTRIES:,} entries, found more")
    entries = [Entry(term, tuple(targets)) for term, targets in forms.items()]
    return Glossary(entries, ignore_case=ignore_case, places=[*places.values()])


def csv_lines(lines: Iterable[tuple[str, str]], *, comments: bool = False) -> Iterator[tuple[str, str]]:
    """Yield lines of comma-separated columns, each with its place, as lines of tab-separated ones.

    The first two columns are read, because DeepL's others are languages, and no heading `source,target`. With
    `comments`, lines that begin with # are left out; a term in quotation marks may begin with it. Raises `DataError`
    for a line that isn't comma-separated values.
    """
    place, begins = "", True  # the place of the row that the reader returns next, and whether it begins

    def texts() -> Iterator[str]:
        nonlocal place, begins
        for place, line in lines:  # noqa: B007 - read where the row arrives
            if not (comments and begins and line.startswith("#")):
                begins = False
                yield f"{line}\n"

    try:
        for number, row in enumerate(csv.reader(texts(), strict=True)):
            begins = True
            columns = [" ".join(column.split()) for column in row[:2]]
            if number or [column.lower() for column in columns] != ["source", "target"]:
                yield place, "\t".join(columns)
    except csv.Error:
        raise DataError(f"{place}: expected comma-separated values, found other text") from None


def parse_lines(lines: Iterable[tuple[str, str]], *, ignore_case: bool = False, comments: bool = True) -> Glossary:
    """Return the glossary of lines, each with its place for messages; raises `DataError`.

    With `comments`, lines that begin with # are left out.
    """
    entries, places = [], []
    for place, line in lines:
        if not line.strip() or (comments and line.startswith("#")):
            continue
        source, *targets = (column.strip() for column in line.split("\t"))
        while targets and not targets[-1]:
            targets.pop()
        if not targets:
            raise DataError(f"{place}: expected a term, a tab and its translation, found {line[:_SHOWN]!r}")
        entries.append(Entry(one_line(source), tuple(map(one_line, targets))))
        places.append(place)
    return Glossary(entries, ignore_case=ignore_case, places=places)


def words(text: str) -> list[str]:
    """Return the words and punctuation marks of a text; in scripts without spaces, its characters."""
    return _WORDS.findall(text)


def _checked(entry: Entry, place: str) -> Entry:
    """Return the entry; raises `DataError` where it isn't valid."""
    if not 1 <= len(entry.targets) <= MOST_FORMS:
        raise DataError(f"{place}: expected from 1 to {MOST_FORMS} translations, found {len(entry.targets)}")
    for term in (entry.source, *entry.targets):
        if len(term) > LONGEST:
            raise DataError(f"{place}: expected terms of at most {LONGEST} characters, found {len(term)}")
        if not words(as_seen(check_characters(term, place))):
            raise DataError(f"{place}: expected a term and its translation, found an empty one")
    return entry


def _composed(text: str) -> str:
    """Return a translation with composed letters, as models write them, where Unicode has these."""
    composed = unicodedata.normalize("NFC", text)
    return composed if len(composed) < len(text) else text


def _occurrences(text: Sequence[str], forms: Sequence[str]) -> int:
    """Return at how many places of a text's words one of some forms ends."""
    ends = set()
    for form in map(words, forms):
        ends |= {end for end in range(len(form), len(text) + 1) if list(text[end - len(form) : end]) == form}
    return len(ends)
