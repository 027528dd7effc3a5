"""Detection of a rank that hangs: a stopped process, a lost machine, a read that never returns.

A thread of each rank reports where the rank is, to the store that the ranks met at. A rank hangs if its reports stop
for `training.rank_timeout` seconds, or if it has been for so long at the earliest place of all ranks. Validating and
saving have no limit, because the first rank does them alone, for as long as they take.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from torch.distributed import Store  # pyright: ignore[reportPrivateImportUsage]

from headwise.training.parallel.world import World

_LONGEST_PAUSE = 5.0  # seconds between reports
_REPORTS = 4  # least number of reports in the time limit
# Places of a rank in a step, in the order in which it comes to them.
READING, COMPUTING, OTHER = "reading the batches", "computing the gradients", "validating or saving"
_ORDER = (READING, COMPUTING, OTHER)
_EXIT_CODE = 1  # of a rank that ends the job


@dataclass(frozen=True)
class Report:
    """Where a rank is: the step, the place in it and the seconds there; `number` grows with each report."""

    rank: int
    step: int
    place: str
    seconds: float
    number: int
    host: str
    process: int

    @property
    def position(self) -> tuple[int, int]:
        """Sort key of the place."""
        return self.step, _ORDER.index(self.place)

    def describe(self) -> str:
        """Return the rank's name and place for a message."""
        return f"rank {self.rank} (process {self.process} on {self.host}), {self.place} of step {self.step}"


def hung(reports: Sequence[Report], silent: Mapping[int, float], timeout: float) -> list[Report]:
    """Return the last reports of the ranks that hang; `silent` are the seconds since each rank's last report."""
    stopped = [report for report in reports if silent[report.rank] > timeout]
    if stopped:
        return stopped
    earliest = min(report.position for report in reports)
    there = [report for report in reports if report.position == earliest]
    if there[0].place == OTHER or min(report.seconds for report in there) <= timeout:
        return []
    return there


class Watchdog:
    """Reports where this rank is, and ends the training if a rank hangs."""

    def __init__(self, world: World, timeout: float) -> None:
        """Watch nothing with one rank, or with a `timeout` of 0."""
        self._rank, self._size, self._timeout = world.rank, world.size, timeout
        self._board = world.board() if world.size > 1 and timeout else None
        self._end = _kill if world.local else _end_job
        self._watches = world.first or not world.local  # a local rank 0 that is suspended resumes later
        self._pause = min(timeout / _REPORTS, _LONGEST_PAUSE)
        self._place, self._step, self._since = OTHER, 0, time.monotonic()
        self._stopped = threading.Event()
        if self._board is not None:
            self._report_to(self._board, 0)  # at once, so that a rank that hangs from the start has a name

    def at(self, place: str, step: int) -> None:
        """Note that this rank has come to a place of a step."""
        self._place, self._step, self._since = place, step, time.monotonic()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Report and watch while the block runs."""
        if self._board is None:
            yield
            return
        self._stopped.clear()
        thread = threading.Thread(target=self._run, args=(self._board,), daemon=True, name="watchdog")
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()

    def _run(self, board: Store) -> None:
        number, woken = 0, time.monotonic()
        heard: dict[int, tuple[int, float]] = {}  # the number of each rank's last report, and when it was new
        while not self._stopped.wait(self._pause):
            number += 1
            now = time.monotonic()
            if now - woken > 2 * self._pause + 1:
                heard.clear()  # this process was suspended, and the others perhaps, too
            woken = now
            try:
                self._report_to(board, number)
                reports = _read(board, self._size)
            except RuntimeError:  # the store is gone, with the machine that kept it or at the end of the job
                return
            for report in reports:
                if heard.get(report.rank, (-1, 0.0))[0] != report.number:
                    heard[report.rank] = (report.number, now)
            silent = {rank: now - when for rank, (_, when) in heard.items()}
            if not self._watches or len(reports) < self._size:
                continue
            if found := hung(reports, silent, self._timeout):
                others = [r.rank for r in reports if r not in found] or [0]
                if self._rank == others[0]:
                    self._end(found)

    def _report_to(self, board: Store, number: int) -> None:
        seconds = time.monotonic() - self._since
        report = Report(self._rank, self._step, self._place, seconds, number, socket.gethostname(), os.getpid())
        board.set(f"rank {self._rank}", json.dumps(asdict(report)))


def _read(board: Store, size: int) -> list[Report]:
    """Return the reports of the ranks that have reported, in the order of ranks."""
    keys = [f"rank {rank}" for rank in range(size)]
    values: list[dict[str, Any]] = [json.loads(board.get(key)) for key in keys if board.check([key])]
    return [Report(**value) for value in values]


def message(found: list[Report]) -> str:
    """Return what is said about ranks that hang."""
    names = "; ".join(report.describe() for report in found)
    return (
        f"no progress for longer than training.rank_timeout, at {names}; "
        "the same command resumes from the last checkpoint"
    )


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), f"{line}\n".encode())


def _end_job(found: list[Report]) -> None:
    """End this process at once, whose main thread waits for the hung rank; torchrun then ends all others."""
    _say(f"headwise: error: {message(found)}")
    os._exit(_EXIT_CODE)


def _kill(found: list[Report]) -> None:
    """Kill workers of this machine that hang; the first process then finds that they have ended."""
    _say(message(found))  # the error is that of the first process, which ends for this reason
    for report in found:
        if report.process != os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(report.process, signal.SIGKILL)
