"""Worker processes on this machine: data-parallel ranks that train together with the process that starts them.

The first process is rank 0: it prepares the data, validates, writes files and prints. The workers are ranks 1, 2, …;
each is a `Child` that gets its job and then its orders, and replies to the job alone, when it is ready.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError, TrainingError
from headwise.files import disk_errors
from headwise.processes import Child, ChildEnded
from headwise.training.parallel.world import World

READY = "ready"
_EXIT_TIMEOUT = 10.0  # seconds


class Workers:
    """Context manager of worker processes that run a function, `module:name`; they are ended with the block."""

    def __init__(self, function: str, job: Mapping[str, Any]) -> None:
        """Start no process yet; each gets `job` first, for which the function's first reply is `READY`."""
        self._function, self._job = function, job
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of the rendezvous files
        self._meetings = 0
        self._started: list[Child] = []
        self._importing: list[Child] = []  # without a job yet

    def prepare(self, count: int) -> None:
        """Start processes that import what a worker needs; the next meeting gives them the job, or ends them."""
        while len(self._importing) < count:
            self._importing.append(Child(self._function))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._importing)
        _end(self._started)
        if self._folder is not None:
            self._folder.cleanup()

    def meet(self, size: int, threads: int, order: Mapping[str, Any]) -> World:
        """Send an order to `size` - 1 workers, which are started where they aren't, and join a process group with them.

        The CPU `threads` are divided among the processes. Raises the error of a worker that has exited, or
        `TrainingError` if the temporary directory can't be written.
        """
        meeting = self._new_meeting()
        self._start(size - 1)
        self._check(size)
        threads_each = max(1, threads // size)
        world = {"size": size, "threads": threads_each, "meeting": str(meeting)}
        for rank, worker in enumerate(self._started[: size - 1], start=1):
            worker.send({**order, **world, "rank": rank})
        return World.join_local(0, size, threads_each, meeting, lambda: self._check(size))

    def gather(self, size: int, threads: int, order: Mapping[str, Any]) -> World:
        """Meet with `size` - 1 workers, and end the others; return a world of one process where there are none."""
        _end(self._started, size - 1)
        if size > 1:
            return self.meet(size, threads, order)
        _end(self._importing)
        return World()

    def _start(self, count: int) -> None:
        """Start workers until there are `count`, and wait until all are ready; raises the error of one."""
        new: list[Child] = []
        while len(self._started) < count:
            worker = self._importing.pop(0) if self._importing else Child(self._function)
            self._started.append(worker)
            new.append(worker)
            worker.send(self._job)
        _end(self._importing)
        for worker in new:
            if (failure := self._failure(worker)) is not None:
                raise failure

    def _check(self, size: int) -> None:
        """Raise the error of one of the first `size` - 1 workers that has exited, as the others would wait for it."""
        for worker in self._started[: size - 1]:
            if worker.wait() is not None and (failure := self._failure(worker)) is not None:
                raise failure

    def _new_meeting(self) -> Path:
        """Return the path of a new rendezvous file."""
        if self._folder is None:
            with disk_errors(Path("TMPDIR")):
                parent = tempfile.gettempdir()
            with disk_errors(Path(parent)):
                self._folder = tempfile.TemporaryDirectory(prefix="headwise-workers-", dir=parent)
        self._meetings += 1
        return Path(self._folder.name) / str(self._meetings)

    def failure(self) -> HeadwiseError | None:
        """Return the error of a worker that failed, waiting a while for their exits; None if no worker failed."""
        for worker in self._started:
            if worker.wait(_EXIT_TIMEOUT / len(self._started)):
                return self._failure(worker)
        return None

    def _failure(self, worker: Child) -> HeadwiseError | None:
        """Wait for a worker's reply or its end; return the error if there is no reply."""
        try:
            assert worker.receive() == READY
        except ChildEnded as end:
            rank = self._started.index(worker) + 1
            return TrainingError(
                f"worker process {rank} was ended {end.how} (the system does that where memory runs out); run the "
                "same command again to go on from the last checkpoint, or with training.processes=1 for a new run"
            )
        except HeadwiseError as error:
            return error
        return None


def _end(workers: list[Child], kept: int = 0) -> None:
    """End the workers from place `kept` on, and take them off the list."""
    for worker in workers[kept:]:
        worker.end()
    del workers[kept:]


def join(order: Mapping[str, Any]) -> World:
    """Join, in a worker, the process group of an order that `Workers.meet` sent."""
    return World.join_local(order["rank"], order["size"], order["threads"], Path(order["meeting"]))
