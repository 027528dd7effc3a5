"""The SQLite files of the server, each of which any number of threads and processes use at once."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Database:
    """A connection with a file, or with memory of this process alone."""

    def __init__(self, file: str | Path = ":memory:") -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(file, check_same_thread=False, isolation_level=None, timeout=5.0)
        weakref.finalize(self, self._database.close)  # Python 3.13 warns of one that nobody closed

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Let nobody else write during the block; what it wrote is undone if it raises."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")
