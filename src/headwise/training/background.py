"""Work in a background thread, one piece at a time, whose error is raised where the next piece waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundWork:
    """At most one function that runs in a thread; the process doesn't end before it has returned."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Call `work` in a thread, after the one before has ended; raises the error of the one before."""
        self.wait()

        def run() -> None:
            try:
                work()
            except BaseException as error:  # raised by `wait`
                self._error = error

        self._thread = threading.Thread(target=run, name=self._name)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the end of the work, if any; raises its error."""
        self.abandon()
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            # Its traceback has this frame, and what training keeps open must not wait for the collector.
            del error

    def abandon(self) -> None:
        """Wait for the end of the work without raising its error, because there is another one already."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
