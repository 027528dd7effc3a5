"""Worker processes on this machine, which train together with the process that starts them.

The first process is rank 0: it prepares, validates, writes and speaks. The workers are ranks 1, 2, …; each gets its job
and then its orders as lines of JSON on standard input, and says on standard output that it is ready, or what it can't
do. The input is a lifeline as well: where it ends, because the first process has ended, whatever way, the worker ends.
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
from headwise.processes import child_environment, python_command
from headwise.training.parallel import World

_PATIENCE = 10.0  # seconds that a worker has for its end


class Workers:
    """Processes that run a module; they are stopped when the block ends."""

    def __init__(self, module: str, job: Mapping[str, Any]) -> None:
        """None is started yet."""
        self._module, self._job = module, job
        self._folder = tempfile.TemporaryDirectory(prefix="headwise-workers-")
        self._meetings = 0
        self._started: list[subprocess.Popen[str]] = []

    def keep(self, count: int) -> None:
        """Start workers or end some, so that there are `count`; waits until all are ready.

        Raises what keeps one of them from it.
        """
        new = [self._start() for _ in range(count - len(self._started))]
        self._started += new
        for process in new:
            assert process.stdout is not None
            if (line := process.stdout.readline()) != f"{READY}\n":
                raise self._failure(process, line)
        self._end(self._started[count:])
        del self._started[count:]

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            python_command("-m", self._module),
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            process_group=0,  # a terminal's Ctrl-C reaches the first process alone
        )
        self._send(process, self._job)
        return process

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(self._started)
        self._folder.cleanup()

    def _end(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        for process in processes:
            with contextlib.suppress(BrokenPipeError):
                assert process.stdin is not None
                process.stdin.close()
        for process in processes:
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def meet(self, size: int, threads: int, order: Mapping[str, Any]) -> World:
        """Have the first `size` - 1 workers, which are ready, carry out an order in a world that this process joins.

        So many CPU `threads` are divided among the processes.
        """
        self._meetings += 1
        meeting = Path(self._folder.name) / str(self._meetings)
        each = max(1, threads // size)
        place = {"size": size, "threads": each, "meeting": str(meeting)}
        for rank, process in enumerate(self._started[: size - 1], start=1):
            self._send(process, {**order, **place, "rank": rank})
        return World.join_local(0, size, each, meeting)

    def gather(self, size: int, threads: int, order: Mapping[str, Any]) -> World:
        """Return a world of `size` processes that divide so many CPU threads; the others are ended."""
        self.keep(size - 1)
        return self.meet(size, threads, order) if size > 1 else World()

    def failure(self) -> HeadwiseError | None:
        """The error of a worker that has ended badly, or is about to; None where all are well."""
        for process in self._started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                if process.wait(_PATIENCE / len(self._started)):
                    return self._failure(process)
        return None

    def _send(self, process: subprocess.Popen[str], line: Mapping[str, Any]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(
            BrokenPipeError
        ):  # it has ended: what it was needed for will fail and say why
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()

    def _failure(self, process: subprocess.Popen[str], read: str = "") -> HeadwiseError:
        assert process.stdout is not None
        lines = (read + process.stdout.read()).splitlines()
        code = process.wait()
        if lines and lines[-1].startswith("{"):
            told = json.loads(lines[-1])
            return getattr(errors, told["error"])(told["message"])
        how = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        rank = self._started.index(process) + 1
        return TrainingError(
            f"worker process {rank} was ended {how} (the system does that where memory runs out); "
            "run the same command again to go on from the last checkpoint, or with training.processes=1 for a new run"
        )


READY = "ready"


def orders() -> Iterator[dict[str, Any]]:
    """Yield, in a worker, the job and then each order; the process ends where standard input does."""
    lines: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)  # whatever it is at: the first process has ended or needs it no more

    threading.Thread(target=listen, daemon=True, name="orders").start()
    while True:
        yield json.loads(lines.get())


def report_ready() -> None:
    """Say, in a worker, that it waits for an order."""
    print(READY, flush=True)


def report_error(error: HeadwiseError) -> None:
    """Say, in a worker, what it can't do."""
    print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
