"""Documents from their upload until they are fetched, in an SQLite file that all workers of a server share."""

from __future__ import annotations

import hmac
import secrets
import shutil
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from headwise.serve.database import Database
from headwise.web.errors import ServiceError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
    id TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    characters INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    since REAL NOT NULL,  -- when it came, or when its translation ended
    place INTEGER NOT NULL,
    content BLOB,
    error TEXT,
    error_status INTEGER NOT NULL DEFAULT 500
) STRICT;
"""
# What documents leave free for the metrics of the workers beside them: SIGBUS ends one that finds no room for these.
_SPARE = 2**24  # bytes
_COLUMNS = "id, key, name, characters, content, error, error_status"


@dataclass(frozen=True)
class Document:
    """A document as it is now.

    Attributes:
        identifier: its id.
        key: what its owner gives to see it.
        name: the file's name, without folders.
        characters: its length.
        content: the translated file; None until it is finished.
        error: why there is none; `error_status` is its HTTP status.
    """

    identifier: str
    key: str
    name: str
    characters: int
    content: bytes | None = None
    error: str | None = None
    error_status: int = 500

    @property
    def status(self) -> str:
        """`translating`, `done` or `error`."""
        return "error" if self.error else "translating" if self.content is None else "done"


class DocumentStore(Database):
    """The documents of all clients; `place` is the number of the worker whose documents are added here."""

    def __init__(self, database: str = ":memory:", place: int = 0) -> None:
        super().__init__(database)
        self._folder = None if database == ":memory:" else Path(database).parent
        self._place = place
        self._database.execute("PRAGMA synchronous = OFF")  # it isn't needed after a crash
        self._database.executescript(_SCHEMA)

    def add(self, name: str, characters: int, size: int, *, most: int, most_bytes: int) -> Document:
        """Keep a new document of `size` bytes.

        Raises `ServiceError`: 429 beyond `most` or `most_bytes` of all, 503 where there is no room.
        """
        self._expect_room(size)
        document = Document(secrets.token_hex(16), secrets.token_hex(32), name, characters)
        row = (document.identifier, document.key, name, characters, size, time.monotonic(), self._place)
        added = self._execute(
            "INSERT INTO documents (id, key, name, characters, bytes, since, place) SELECT ?, ?, ?, ?, ?, ?, ? "
            "WHERE (SELECT count(*) < ? AND coalesce(sum(bytes), 0) + ? <= ? FROM documents)",
            *(*row, most, size, most_bytes),
        )
        if not added:
            raise ServiceError(429, "the server has no room for another document", retry_after=10)
        return document

    def find(self, identifier: str, key: str) -> Document:
        """Return a document; raises `ServiceError` (404), also for a wrong key."""
        with self._lock:
            row = self._database.execute(f"SELECT {_COLUMNS} FROM documents WHERE id = ?", (identifier,)).fetchone()
        if row is None or not hmac.compare_digest(row[1].encode(), key.encode(errors="replace")):
            raise ServiceError(404, "document: expected the id and key of a document, found others")
        return Document(*row)

    def finish(self, document: Document, content: bytes) -> None:
        """Keep the translated file; raises `ServiceError` (503) where there is no room."""
        self._expect_room(len(content))
        self._execute(
            "UPDATE documents SET content = ?, since = ? WHERE id = ?",
            *(content, time.monotonic(), document.identifier),
        )

    def fail(self, document: Document, error: str, status: int) -> None:
        """Keep why there is no translated file."""
        self._execute(
            "UPDATE documents SET error = ?, error_status = ?, since = ? WHERE id = ?",
            *(error, status, time.monotonic(), document.identifier),
        )

    def interrupt(self, identifier: str | None = None) -> None:
        """Note that what isn't finished of this place's documents, or of one of them, won't be."""
        self._execute(
            "UPDATE documents SET error = 'the translation was interrupted', since = ? "
            "WHERE place = ? AND id = coalesce(?, id) AND content IS NULL AND error IS NULL",
            *(time.monotonic(), self._place, identifier),
        )

    def remove(self, identifier: str) -> None:
        """Remove a document, which was fetched."""
        self._execute("DELETE FROM documents WHERE id = ?", identifier)

    def remove_old(self, seconds: float) -> None:
        """Remove what was finished longer ago than some seconds."""
        self._execute(
            "DELETE FROM documents WHERE since < ? AND (content IS NOT NULL OR error IS NOT NULL)",
            time.monotonic() - seconds,
        )

    def _expect_room(self, size: int) -> None:
        """Raise `ServiceError` (503) where the folder has no room for `size` bytes, which SQLite writes twice."""
        if self._folder is None or shutil.disk_usage(self._folder).free >= 2 * size + _SPARE:
            return
        self._execute("PRAGMA wal_checkpoint(TRUNCATE)")  # gives back what removed documents had
        if shutil.disk_usage(self._folder).free < 2 * size + _SPARE:
            raise _no_room()

    def _execute(self, statement: str, *values: object) -> int:
        """Run one statement, which is a transaction; return the number of rows that it changed.

        Raises `ServiceError` (503) where memory or the file system has no room.
        """
        try:
            with self._lock:
                return self._database.execute(statement, values).rowcount
        except sqlite3.OperationalError as error:
            raise _no_room() from error


def _no_room() -> ServiceError:
    return ServiceError(503, "the server has no room for another document", retry_after=10)
