"""API keys in an SQLite file: hashes of the keys, their quotas, and what was used of them.

A key is random, 256 bits, so that its SHA-256 needs neither salt nor stretching. The file never has the key itself.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import ConfigError, DataError
from headwise.serve.database import Database

_PREFIX = "hw_"  # by which a leaked key is recognized
_LONGEST = 200  # characters of a key or a name
_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (
    name TEXT PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    characters_per_month INTEGER CHECK (characters_per_month >= 0),
    requests_per_minute INTEGER CHECK (requests_per_minute > 0)
) STRICT;
CREATE TABLE IF NOT EXISTS usage (
    name TEXT NOT NULL,
    month TEXT NOT NULL,
    characters INTEGER NOT NULL,
    PRIMARY KEY (name, month)
) STRICT;
"""
# All workers of a server share this one.
_RATES = """
CREATE TABLE IF NOT EXISTS requests (name TEXT NOT NULL, time REAL NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS requests_by_name ON requests (name, time);
"""
_MINUTE = 60.0  # seconds


@dataclass(frozen=True)
class Key:
    """A key without its secret: its name and quotas, None without a limit."""

    name: str
    characters_per_month: int | None = None
    requests_per_minute: int | None = None


class Rates(Database):
    """The times of the last minute's requests."""

    def __init__(self, database: str = ":memory:") -> None:
        super().__init__(database)
        self._database.execute("PRAGMA synchronous = OFF")  # it isn't needed after a crash
        self._database.executescript(_RATES)

    def seconds_until_allowed(self, name: str, most: int) -> int:
        """Count a request of a key; return 0, or if `most` were in a minute, after how many seconds it is allowed.

        The clock is the system's monotonic one, which is the same in all processes.
        """
        now = time.monotonic()
        with self._transaction():
            self._database.execute("DELETE FROM requests WHERE name = ? AND time <= ?", (name, now - _MINUTE))
            first = self._database.execute(
                "SELECT time FROM requests WHERE name = ? ORDER BY time DESC LIMIT 1 OFFSET ?",
                (name, most - 1),
            ).fetchone()
            if first is not None:
                return max(1, math.ceil(first[0] + _MINUTE - now))
            self._database.execute("INSERT INTO requests VALUES (?, ?)", (name, now))
            return 0


class KeyStore(Database):
    """The keys of a file."""

    def __init__(self, path: Path, rates: str = ":memory:", *, create: bool = False, read_only: bool = False) -> None:
        """Open a file of keys; raises `DataError` where there is none, it is another file, or it can't be written.

        `rates` is the database with the requests of the last minute; `read_only` is for a look at the keys alone.
        """
        if not create and not path.is_file():
            raise DataError(f"{path}: expected a file of API keys, made by `headwise keys add`, found none")
        self._path = path
        self._rates = Rates(rates)
        try:
            super().__init__(path)
            # What requests use needn't survive a power failure: waiting for the disk took 8 ms of each of them.
            self._database.execute("PRAGMA synchronous = NORMAL")
            if create:
                path.chmod(0o600)
                self._database.execute("PRAGMA journal_mode = WAL")
                self._database.executescript(_SCHEMA)
            self._hashes = self._read()
            if not read_only:  # SQLite refuses the first write only, which would be a client's request
                self._database.execute("UPDATE usage SET characters = 0 WHERE false")
        except (sqlite3.Error, OSError) as error:
            raise DataError(f"{path}: expected a file of API keys, found that {error}") from None
        self._version = self._data_version()

    def close(self) -> None:
        """Close the file."""
        self._rates.close()
        super().close()

    def add(self, name: str, characters_per_month: int | None = None, requests_per_minute: int | None = None) -> str:
        """Make a key and return it: it can't be read again. Raises `ConfigError` for a name that is taken."""
        if not 0 < len(name) <= _LONGEST or not name.isprintable():
            raise ConfigError(f"name: expected from 1 to {_LONGEST} printable characters, found {name[:_LONGEST]!r}")
        key = _PREFIX + secrets.token_urlsafe(32)
        row = (name, _digest(key), characters_per_month, requests_per_minute)
        try:
            with self._lock:
                self._execute_durably("INSERT INTO keys VALUES (?, ?, ?, ?)", row)
        except sqlite3.IntegrityError:
            raise ConfigError(f"{self._path}: expected a new name, found the key {name} already") from None
        return key

    def remove(self, name: str) -> None:
        """Remove a key; raises `ConfigError` where there is none of that name."""
        with self._lock:
            if self._execute_durably("DELETE FROM keys WHERE name = ?", (name,)) == 0:
                raise ConfigError(f"{self._path}: expected the name of a key, found {name[:_LONGEST]!r}")

    def all(self) -> list[Key]:
        """Return the keys by name."""
        with self._lock:
            return sorted(self._read().values(), key=lambda key: key.name)

    def find(self, secret: str) -> Key | None:
        """Return the key of a secret, None if there is none; the time tells nothing about the keys."""
        digest = _digest(secret[:_LONGEST])
        with self._lock:
            if (version := self._data_version()) != self._version:
                self._hashes, self._version = self._read(), version
        found = None
        for known, key in self._hashes.items():
            if hmac.compare_digest(known, digest):
                found = key
        return found

    def seconds_until_allowed(self, key: Key) -> int:
        """Count a request of a key; return 0, or if it is one too many in a minute, after how many seconds it isn't."""
        if key.requests_per_minute is None:
            return 0
        return self._rates.seconds_until_allowed(key.name, key.requests_per_minute)

    def charge(self, key: Key, characters: int) -> bool:
        """Count characters that a key uses this month; return False, and count nothing, beyond its quota."""
        limit = -1 if key.characters_per_month is None else key.characters_per_month
        statement = """
            INSERT INTO usage SELECT :name, :month, :characters WHERE :limit < 0 OR :characters <= :limit
            ON CONFLICT DO UPDATE SET characters = characters + excluded.characters
            WHERE :limit < 0 OR characters + excluded.characters <= :limit
        """
        values = {"name": key.name, "month": _month(), "characters": characters, "limit": limit}
        with self._lock:
            return self._database.execute(statement, values).rowcount == 1

    def give_back(self, key: Key, characters: int) -> None:
        """Uncount characters that were charged."""
        statement = "UPDATE usage SET characters = max(0, characters - ?) WHERE name = ? AND month = ?"
        with self._lock:
            self._database.execute(statement, (characters, key.name, _month()))

    def used(self, key: Key) -> int:
        """Return the characters that a key has used this month."""
        with self._lock:
            row = self._database.execute(
                "SELECT characters FROM usage WHERE name = ? AND month = ?", (key.name, _month())
            ).fetchone()
        return row[0] if row else 0

    def _execute_durably(self, statement: str, values: tuple[object, ...]) -> int:
        """Change the keys, so that it survives a power failure; return the number of rows that were changed."""
        self._database.execute("PRAGMA synchronous = FULL")
        try:
            changed = self._database.execute(statement, values).rowcount
        finally:
            self._database.execute("PRAGMA synchronous = NORMAL")
        self._hashes = self._read()
        return changed

    def _read(self) -> dict[bytes, Key]:
        rows = self._database.execute(
            "SELECT hash, name, characters_per_month, requests_per_minute FROM keys"
        ).fetchall()
        return {digest: Key(*rest) for digest, *rest in rows}

    def _data_version(self) -> int:
        """Return a number that changes when another connection changes the file."""
        return self._database.execute("PRAGMA data_version").fetchone()[0]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def _month() -> str:
    return time.strftime("%Y-%m", time.gmtime())
