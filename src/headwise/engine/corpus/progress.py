"""What is shown of the progress of a translation."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headwise.clock import clock

_INTERVAL = 10.0  # seconds between lines of progress


class TranslationProgress:
    """Number of translated lines, lines per second, and the remaining time, as a context manager.

    The speed is that since the start of this process; lines that an earlier one translated don't count.
    """

    def __init__(self, total: int, done: int) -> None:
        self._total, self._done, self._first = total, done, done
        self._began = self._reported = time.monotonic()
        self._console = Console(stderr=True, soft_wrap=True, highlight=False)
        self._bar = Progress(
            TextColumn("line {task.completed}/{task.total}"),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> TranslationProgress:
        self._task = self._bar.add_task("", total=self._total, completed=self._done)
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, lines: int) -> None:
        """Report that so many more lines are translated and saved."""
        self._done += lines
        now = time.monotonic()
        speed = (self._done - self._first) / max(now - self._began, 1e-9)
        left = clock((self._total - self._done) / speed)
        message = f"{speed:,.0f} lines/s  {left} left"
        self._bar.update(self._task, completed=self._done, description=message)
        if self._bar.disable and now - self._reported >= _INTERVAL:
            self._console.print(f"line {self._done:,}/{self._total:,}  {message}", markup=False)
            self._reported = now
