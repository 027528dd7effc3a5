"""How many requests each key has made within the last minute, in an SQLite file that all workers of a server share."""

from __future__ import annotations

import math
import sqlite3
import threading
import time

_MINUTE = 60.0  # seconds
_SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (name TEXT NOT NULL, time REAL NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS requests_by_name ON requests (name, time);
"""


class Rates:
    """The times of the last minute's requests; `database` is a file, by default memory of this process."""

    def __init__(self, database: str = ":memory:") -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(database, check_same_thread=False, isolation_level=None, timeout=5.0)
        self._database.execute("PRAGMA synchronous = OFF")  # it isn't needed after a crash
        self._database.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def seconds_until_allowed(self, name: str, most: int) -> int:
        """Count a request of a key; return 0, or if `most` were in a minute, after how many seconds it is allowed.

        The clock is the system's monotonic one, which is the same in all processes.
        """
        now = time.monotonic()
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._database.execute(
                    "DELETE FROM requests WHERE name = ? AND time <= ?", (name, now - _MINUTE)
                )
                first = self._database.execute(
                    "SELECT time FROM requests WHERE name = ? ORDER BY time DESC LIMIT 1 OFFSET ?",
                    (name, most - 1),
                ).fetchone()
                if first is not None:
                    return max(1, math.ceil(first[0] + _MINUTE - now))
                self._database.execute("INSERT INTO requests VALUES (?, ?)", (name, now))
                return 0
            finally:
                self._database.execute("COMMIT")
