"""What the workers of a server share: a database, the counts of their metrics, and how busy each of them is.

Each worker has a number, its place, which is given to another one after it has ended.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from headwise.serve.translation.document_store import DocumentStore
from headwise.serve.translation.shared_load import SharedLoad

_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Shared:
    """What the workers share, as one of them sees it.

    Attributes:
        folder: the folder of the files; None where the server is one process, which then needs none.
        load: how busy they are.
        place: the worker's number.
        held: the worker's descriptor of the folder, which it has locked together with the others; None elsewhere.
    """

    folder: Path | None = None
    load: SharedLoad = field(default_factory=SharedLoad)
    place: int = 0
    held: int | None = None

    @classmethod
    def create(cls, places: int) -> Shared:
        """Make a folder that only this user can read, in memory where that is possible; raises `OSError`."""
        try:
            folder = tempfile.mkdtemp(prefix="headwise-", dir=_MEMORY)
        except OSError:
            folder = tempfile.mkdtemp(prefix="headwise-")
        shared = cls(Path(folder), SharedLoad(places))
        database = sqlite3.connect(shared.database)
        database.execute("PRAGMA auto_vacuum = FULL")  # removed documents give their room back
        database.execute("PRAGMA journal_mode = WAL")  # which the file keeps: reading and writing at once
        database.close()
        return shared

    @property
    def database(self) -> str:
        """The SQLite file of documents and rates."""
        return ":memory:" if self.folder is None else str(self.folder / "shared.sqlite")

    def at(self, place: int) -> Shared:
        """Return what the worker of a place sees; called in its process."""
        self.load.use(place)
        if self.folder is None:
            return replace(self, place=place)
        from fcntl import LOCK_SH, flock  # Windows has none, and no workers

        held = os.open(self.folder, os.O_RDONLY)
        flock(held, LOCK_SH)
        return replace(self, place=place, held=held)

    def forget(self, place: int) -> None:
        """Undo what a worker that has ended had begun: sentences that wait, documents, gauges; its counts are kept."""
        from prometheus_client.multiprocess import mark_process_dead

        self.load.clear(place)
        if self.folder is not None:
            mark_process_dead(place, str(self.folder))
            store = DocumentStore(self.database, place)
            store.interrupt()
            store.close()

    def remove_as_last(self) -> None:
        """Remove the folder when no other worker holds it any more; called by a worker that has lost its parent."""
        from fcntl import LOCK_EX, flock

        if self.held is not None:
            flock(self.held, LOCK_EX)
        self.remove()

    def remove(self) -> None:
        """Remove the folder."""
        self.load.close()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
