"""Kept glossaries in an SQLite file: each has a name, an owner, and a dictionary for each pair of languages."""

from __future__ import annotations

import datetime
import functools
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.characters import unwritable
from headwise.errors import DataError
from headwise.serve.database import Database
from headwise.text.reading.glossary import Glossary, csv_lines, parse_lines
from headwise.web.errors import ServiceError

MOST_GLOSSARIES = 1_000  # of an owner
MOST_DICTIONARIES = 100  # of a glossary
MOST_NAME = 1_024  # characters
_SCHEMA = """
CREATE TABLE IF NOT EXISTS glossaries (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    created TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS dictionaries (
    revision INTEGER PRIMARY KEY AUTOINCREMENT,
    glossary TEXT NOT NULL REFERENCES glossaries (id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    entries TEXT NOT NULL,
    entry_count INTEGER NOT NULL,
    UNIQUE (glossary, source, target)
) STRICT;
"""


@dataclass(frozen=True)
class Dictionary:
    """The entries of one pair of languages, as lines of tab-separated columns."""

    source: str
    target: str
    count: int
    entries: str = ""


@dataclass(frozen=True)
class KeptGlossary:
    """A kept glossary; its dictionaries are without their entries."""

    identifier: str
    name: str
    created: str
    dictionaries: tuple[Dictionary, ...]


class GlossaryStore(Database):
    """The glossaries of a file."""

    def __init__(self, path: Path) -> None:
        """Open or make the file; raises `DataError` where it is another file."""
        try:
            new = not path.exists()
            super().__init__(path)
            if new:
                path.chmod(0o600)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA foreign_keys = ON")
            self._database.executescript(_SCHEMA)
            self._database.execute("SELECT revision, entry_count FROM dictionaries LIMIT 1")
        except (sqlite3.Error, OSError) as error:
            raise DataError(f"{path}: expected a file of glossaries, found that {error}") from None

    def create(self, owner: str, name: str, dictionaries: Sequence[Dictionary]) -> KeptGlossary:
        """Keep a new glossary; raises `ServiceError` (400) for a name or dictionaries that can't be kept."""
        _check_name(name)
        _check_dictionaries(dictionaries)
        identifier = str(uuid.uuid4())
        created = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        with self._transaction():
            (count,) = self._database.execute("SELECT count(*) FROM glossaries WHERE owner = ?", (owner,)).fetchone()
            if count >= MOST_GLOSSARIES:
                raise ServiceError(400, f"glossary: expected at most {MOST_GLOSSARIES:,} of an owner, found as many")
            row = (identifier, owner, name, created)
            self._database.execute("INSERT INTO glossaries VALUES (?, ?, ?, ?)", row)
            for each in dictionaries:
                self._write(identifier, each)
        return self.find(owner, identifier)

    def all(self, owner: str) -> list[KeptGlossary]:
        """Return an owner's glossaries, the oldest first."""
        with self._transaction():
            rows = self._database.execute(
                "SELECT id, name, created FROM glossaries WHERE owner = ? ORDER BY created, id", (owner,)
            ).fetchall()
            return [
                KeptGlossary(identifier, name, created, self._dictionaries(identifier))
                for identifier, name, created in rows
            ]

    def find(self, owner: str, identifier: str) -> KeptGlossary:
        """Return an owner's glossary by its id or its name; raises `ServiceError` (404)."""
        with self._transaction():
            return self._find(owner, identifier)

    def entries(
        self, owner: str, identifier: str, source: str | None = None, target: str | None = None
    ) -> list[Dictionary]:
        """Return dictionaries with their entries, all or those of some languages; raises `ServiceError` (404)."""
        with self._transaction():
            found = self._entries(self._find(owner, identifier).identifier, source, target)
        if not found:
            raise _no_dictionary(source, target)
        return found

    def glossary(self, owner: str, identifier: str, source: str, target: str) -> Glossary:
        """Return the terms of a pair of languages; raises `ServiceError` (404 without the glossary, else 400)."""
        with self._transaction():
            kept = self._find(owner, identifier)
            found = self._entries(kept.identifier, base_language(source), base_language(target))
        if not found:
            known = ", ".join(f"{each.source}-{each.target}" for each in kept.dictionaries) or "none"
            raise ServiceError(400, f"glossary: expected one for {source}-{target}, found one for {known[:200]}")
        return _parsed(found[0].entries)

    def update(
        self,
        owner: str,
        identifier: str,
        name: str | None,
        dictionaries: Sequence[Dictionary],
        *,
        merge: bool,
    ) -> KeptGlossary:
        """Change the name, and replace dictionaries or `merge` their entries; raises `ServiceError` (400, 404)."""
        if name is not None:
            _check_name(name)
        _check_dictionaries(dictionaries, least=0)
        with self._transaction():
            kept = self._find(owner, identifier).identifier
            if name is not None:
                self._database.execute("UPDATE glossaries SET name = ? WHERE id = ?", (name, kept))
            for each in dictionaries:
                before = self._entries(kept, each.source, each.target) if merge else []
                self._write(kept, _merged(before[0].entries, each) if before else each)
            changed = self._find(owner, kept)
            if len(changed.dictionaries) > MOST_DICTIONARIES:
                raise ServiceError(400, f"glossary: expected at most {MOST_DICTIONARIES} dictionaries, found more")
            return changed

    def remove(self, owner: str, identifier: str) -> None:
        """Remove a glossary; raises `ServiceError` (404)."""
        with self._transaction():
            kept = self._find(owner, identifier)
            self._database.execute("DELETE FROM glossaries WHERE id = ?", (kept.identifier,))

    def remove_dictionary(self, owner: str, identifier: str, source: str, target: str) -> None:
        """Remove a dictionary; raises `ServiceError` (404)."""
        with self._transaction():
            kept = self._find(owner, identifier)
            found = self._database.execute(
                "DELETE FROM dictionaries WHERE glossary = ? AND source = ? AND target = ?",
                (kept.identifier, source, target),
            )
            if not found.rowcount:
                raise _no_dictionary(source, target)

    def _find(self, owner: str, identifier: str) -> KeptGlossary:
        row = self._database.execute(
            "SELECT id, name, created FROM glossaries WHERE owner = ? AND (id = ? OR name = ?) "
            "ORDER BY id != ?, created LIMIT 1",
            (owner, *[identifier[:MOST_NAME].encode(errors="replace").decode()] * 3),
        ).fetchone()
        if row is None:
            raise ServiceError(404, "glossary: expected the id or the name of a kept glossary, found another")
        found, name, created = row
        return KeptGlossary(found, name, created, self._dictionaries(found))

    def _dictionaries(self, identifier: str) -> tuple[Dictionary, ...]:
        rows = self._database.execute(
            "SELECT source, target, entry_count FROM dictionaries WHERE glossary = ? ORDER BY source, target",
            (identifier,),
        )
        return tuple(Dictionary(*row) for row in rows)

    def _entries(self, identifier: str, source: str | None, target: str | None) -> list[Dictionary]:
        """Return the dictionaries of a glossary with their entries, all or those of some languages."""
        rows = self._database.execute(
            "SELECT source, target, entry_count, entries FROM dictionaries WHERE glossary = ? "
            "AND source = coalesce(?, source) AND target = coalesce(?, target) ORDER BY source, target",
            (identifier, source, target),
        )
        return [Dictionary(*row) for row in rows]

    def _write(self, identifier: str, dictionary: Dictionary) -> None:
        """Write a dictionary in the place of the one for the same languages."""
        self._database.execute(
            "REPLACE INTO dictionaries (glossary, source, target, entries, entry_count) VALUES (?, ?, ?, ?, ?)",
            (identifier, dictionary.source, dictionary.target, dictionary.entries, dictionary.count),
        )


def make_dictionary(source: str, target: str, entries: str, kind: str = "tsv") -> Dictionary:
    """Return a dictionary of checked entries, in tab- or comma-separated columns; raises `ServiceError` (400).

    Of comma-separated columns only the first two are read, because DeepL's others are languages.
    """
    lines = _numbered(entries)
    try:
        glossary = parse_lines(csv_lines(lines) if kind == "csv" else lines, comments=False)
    except DataError as error:
        raise ServiceError(400, str(error)) from None
    lines = ("\t".join((entry.source, *entry.targets)) for entry in glossary.entries)
    return Dictionary(base_language(source), base_language(target), len(glossary.entries), "\n".join(lines))


def base_language(code: str) -> str:
    """Return a language code without region and script: glossaries are for whole languages."""
    return code.lower().replace("_", "-").partition("-")[0]


@functools.lru_cache(maxsize=32)
def _parsed(entries: str) -> Glossary:
    """Return the terms of a kept dictionary, which was checked before."""
    return parse_lines(_numbered(entries), comments=False)


def _numbered(entries: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(entries.split("\n"), start=1):
        yield f"entries line {number}", line.removesuffix("\r")


def _merged(before: str, dictionary: Dictionary) -> Dictionary:
    """Return the entries of both, the later ones for the same terms."""
    lines = {line.partition("\t")[0]: line for line in [*before.split("\n"), *dictionary.entries.split("\n")]}
    return make_dictionary(dictionary.source, dictionary.target, "\n".join(lines.values()))


def _check_name(name: str) -> None:
    if not 0 < len(name.strip()) <= MOST_NAME or unwritable(name):
        raise ServiceError(400, f"name: expected from 1 to {MOST_NAME:,} characters, found {len(name):,}")


def _check_dictionaries(dictionaries: Sequence[Dictionary], least: int = 1) -> None:
    pairs = {(each.source, each.target) for each in dictionaries}
    if not least <= len(dictionaries) <= MOST_DICTIONARIES or len(pairs) < len(dictionaries):
        raise ServiceError(
            400,
            f"dictionaries: expected from {least} to {MOST_DICTIONARIES} of different languages, "
            f"found {len(dictionaries)}",
        )


def _no_dictionary(source: str | None, target: str | None) -> ServiceError:
    pair = f"{(source or 'any')[:20]}-{(target or 'any')[:20]}"
    return ServiceError(404, f"glossary: expected a dictionary for {pair}, found none")
