"""How busy all workers of a server are: numbers in memory that they share, one place for each worker."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


class SharedLoad:
    """The sentences that the workers have accepted and not finished, and how long new ones would wait.

    Made before the workers are forked, of which each then has a place of its own (`use`) and reads those of all. A
    server of one process has one place.
    """

    def __init__(self, places: int = 1) -> None:
        memory = memoryview(mmap.mmap(-1, 16 * places))
        self._accepted, self._seconds = memory[: 8 * places].cast("q"), memory[8 * places :].cast("d")
        self._place = 0
        # A file without a name: its lock ends with the process that holds it, however that ends.
        self._lock = tempfile.TemporaryFile() if places > 1 else None  # noqa: SIM115 - it stays open

    def close(self) -> None:
        """Close the file of the lock."""
        if self._lock is not None:
            self._lock.close()

    def use(self, place: int) -> None:
        """Count in this place from now on."""
        self._place = place

    def clear(self, place: int) -> None:
        """Forget what a worker counted that has ended."""
        self._accepted[place], self._seconds[place] = 0, 0.0

    @property
    def accepted(self) -> int:
        """Sentences that all workers have accepted and not finished."""
        return sum(self._accepted)

    @property
    def own(self) -> int:
        """Those of this worker."""
        return self._accepted[self._place]

    def accept(self, sentences: int, most: int) -> bool:
        """Count some more sentences; return False, and count nothing, where others wait and they would be too many."""
        with self._locked():
            others = self.accepted
            if others > 0 and others + sentences > most:
                return False
            self._accepted[self._place] += sentences
            return True

    def finish(self, sentences: int) -> None:
        """Count sentences as finished."""
        self._accepted[self._place] -= sentences

    @property
    def seconds_waiting(self) -> float:
        """The longest of the workers' estimates, in seconds."""
        return max(self._seconds)

    def estimate(self, seconds: float) -> None:
        """Tell the others how long a new sentence would wait for this worker."""
        self._seconds[self._place] = seconds

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time compare and count; within one, only the event loop does."""
        if self._lock is None:
            yield
            return
        import fcntl  # not on Windows, where there is one worker

        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)
