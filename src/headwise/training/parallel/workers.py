"""Worker processes on this machine: data-parallel ranks that train together with the process that starts them.

The first process is rank 0: it prepares the data, validates, writes files and prints. The workers are ranks 1, 2, …;
each gets its job and then its orders as lines of JSON on standard input, and reports on standard output that it is
ready, or its error. A worker exits at the end of its standard input, so it never outlives the first process.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwise import errors
from headwise.errors import HeadwiseError, TrainingError
from headwise.files import disk_errors
from headwise.processes import child_environment, python_command
from headwise.training.parallel.world import World

_EXIT_TIMEOUT = 10.0  # seconds


class Workers:
    """Context manager of worker processes that run `module`; they are stopped when the block ends."""

    def __init__(self, module: str, job: Mapping[str, Any]) -> None:
        """Start no process yet; each gets `job` as its first line."""
        self._module, self._job = module, job
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # of the rendezvous files
        self._meetings = 0
        self._started: list[subprocess.Popen[str]] = []
        self._importing: list[subprocess.Popen[str]] = []  # without a job yet

    def prepare(self, count: int) -> None:
        """Start processes that import what a worker needs, for `keep` to give them the job, or to end them."""
        while len(self._importing) < count:
            self._importing.append(self._start())

    def keep(self, count: int) -> None:
        """Start or stop workers so that there are `count`, and wait until all are ready; raises the error of one."""
        before = len(self._started)
        try:
            while len(self._started) < count:
                process = self._importing.pop(0) if self._importing else self._start()
                self._started.append(process)
                self._send(process, self._job)
            self._end_importing()
            for process in self._started[before:]:
                assert process.stdout is not None
                if (line := process.stdout.readline()) != f"{READY}\n":
                    raise self._failure(process, line)
        except BaseException:  # also Ctrl-C
            for process in self._started[before:]:
                process.kill()  # during its imports, a worker doesn't notice the end of its input
            raise
        self._end(self._started[count:])
        del self._started[count:]

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            python_command("-m", self._module),
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            process_group=0,  # so that a terminal's Ctrl-C reaches only the first process
        )

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_importing()
        self._end(self._started)
        if self._folder is not None:
            self._folder.cleanup()

    def _end_importing(self) -> None:
        for process in self._importing:
            process.kill()  # during its imports, a worker doesn't notice the end of its input
        self._end(self._importing)
        self._importing.clear()

    def _end(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        for process in processes:
            with contextlib.suppress(BrokenPipeError):
                assert process.stdin is not None
                process.stdin.close()
        for process in processes:
            try:
                process.wait(_EXIT_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def meet(self, size: int, threads: int, order: Mapping[str, Any]) -> World:
        """Send an order to the first `size` - 1 workers, which must be ready, and join a process group with them.

        The CPU `threads` are divided among the processes. Raises the error of a worker that has exited, or
        `TrainingError` if the temporary directory can't be written.
        """
        self._check(size)
        meeting = self._new_meeting()
        threads_each = max(1, threads // size)
        world = {"size": size, "threads": threads_each, "meeting": str(meeting)}
        for rank, process in enumerate(self._started[: size - 1], start=1):
            self._send(process, {**order, **world, "rank": rank})
        return World.join_local(0, size, threads_each, meeting, lambda: self._check(size))

    def _check(self, size: int) -> None:
        """Raise the error of one of the first `size` - 1 workers that has exited, as the others would wait for it."""
        for process in self._started[: size - 1]:
            if process.poll() is not None:
                raise self._failure(process)

    def _new_meeting(self) -> Path:
        """Return the path of a new rendezvous file."""
        if self._folder is None:
            with disk_errors(Path("TMPDIR")):
                parent = tempfile.gettempdir()
            with disk_errors(Path(parent)):
                self._folder = tempfile.TemporaryDirectory(prefix="headwise-workers-", dir=parent)
        self._meetings += 1
        return Path(self._folder.name) / str(self._meetings)

    def gather(self, size: int, threads: int, order: Mapping[str, Any]) -> World:
        """Return a world of `size` processes, among which the CPU threads are divided; stop the other workers."""
        self.keep(size - 1)
        return self.meet(size, threads, order) if size > 1 else World()

    def failure(self) -> HeadwiseError | None:
        """Return the error of a worker that failed, waiting a while for their exits; None if no worker failed."""
        for process in self._started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                if process.wait(_EXIT_TIMEOUT / len(self._started)):
                    return self._failure(process)
        return None

    def _send(self, process: subprocess.Popen[str], line: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        # Where the worker has exited, the operation that needs it fails and reports the reason.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()

    def _failure(self, process: subprocess.Popen[str], read: str = "") -> HeadwiseError:
        assert process.stdout is not None
        lines = (read + process.stdout.read()).splitlines()
        code = process.wait()
        if lines and lines[-1].startswith("{"):
            report = json.loads(lines[-1])
            return getattr(errors, report["error"])(report["message"])
        cause = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        rank = self._started.index(process) + 1
        return TrainingError(
            f"worker process {rank} was ended {cause} (the system does that where memory runs out); "
            "run the same command again to go on from the last checkpoint, or with training.processes=1 for a new run"
        )


READY = "ready"


def orders() -> Iterator[dict[str, Any]]:
    """Yield the job and then each order, in a worker; the process exits at the end of standard input."""
    lines: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)  # at any moment, because the first process has exited or doesn't need this one any more

    threading.Thread(target=listen, daemon=True, name="orders").start()
    while True:
        yield json.loads(lines.get())


def join(order: Mapping[str, Any]) -> World:
    """Join, in a worker, the process group of an order that `Workers.meet` sent."""
    return World.join_local(order["rank"], order["size"], order["threads"], Path(order["meeting"]))


def report_ready() -> None:
    """Report, in a worker, that it waits for an order."""
    print(READY, flush=True)


def report_error(error: HeadwiseError) -> None:
    """Report an error, in a worker."""
    print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
