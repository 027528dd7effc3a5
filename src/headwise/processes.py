"""Python child processes that import the same modules as this one, and nothing from the working directory.

`python -m` and `-c` put the working directory first on the child's module path, so a `numpy.py` in a directory of
untrusted data would be executed. Child processes are started with `-P` and `PYTHONSAFEPATH`; their own children
inherit the latter.

A `Child` runs a function from the values that it is sent to replies, each a line of JSON, so a user's script needs no
`__main__` guard, as `multiprocessing` would. It ends when the function does, when it is killed, or when its input ends,
so it never outlives this process. A user's error in it is raised here.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

from headwise import errors
from headwise.errors import HeadwiseError, TrainingError
from headwise.plugins import import_modules, imported

_PACKAGE = str(Path(__file__).resolve().parent.parent)  # the directory that contains this package


def python_command(*arguments: str) -> list[str]:
    """Return the command that starts this Python interpreter; `arguments` are those of `python`, such as `-m X`."""
    return [sys.executable, "-P", *arguments]


def child_environment() -> dict[str, str]:
    """Return the environment of a Python child process: this process's module path without the working directory.

    The working directory is kept if PYTHONPATH names it, because then the user asked for it.
    """
    try:
        cwd = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # it was removed
        cwd = None
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    explicit = {os.path.realpath(entry) for entry in entries if entry}
    path = [entry for entry in sys.path if entry and (os.path.realpath(entry) != cwd or cwd in explicit)]
    if _PACKAGE not in map(os.path.realpath, path):
        path.append(_PACKAGE)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ChildEnded(TrainingError):
    """A child process ended without a reply; `how` is `by SIGKILL` or `with exit code 1`, for instance."""

    def __init__(self, code: int) -> None:
        self.how = f"with exit code {code}" if code >= 0 else f"by {_signal_name(-code)}"
        super().__init__(
            f"a child process was ended {self.how} (the system does that where memory runs out); "
            "run the same command again"
        )


def _signal_name(number: int) -> str:
    known = {each.value: each.name for each in signal.Signals}
    return known.get(number, f"signal {number}")  # those between SIGRTMIN and SIGRTMAX have no names


class Child:
    """A child process; Ctrl-C in a terminal reaches only this process, which decides what to do."""

    def __init__(self, function: str) -> None:
        """Start the process that runs a function, `module:name`, from an iterator of values to one of replies."""
        self._process = subprocess.Popen(
            python_command("-m", "headwise.processes", function, *imported()),
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )

    def send(self, value: Any) -> None:
        """Send a value; where the process has ended, `receive` raises the reason."""
        with contextlib.suppress(BrokenPipeError):
            _write_line(_opened(self._process.stdin), value)

    def receive(self) -> Any:
        """Wait for the next reply; raises the process's own `HeadwiseError`, or `ChildEnded`."""
        line = _opened(self._process.stdout).readline()
        if not line.endswith("\n"):
            raise ChildEnded(self._process.wait())
        return reply_of(json.loads(line))

    def wait(self, timeout: float = 0.0) -> int | None:
        """Wait for the end of the process; returns its exit code, None if it hasn't ended until then."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout)
        return None

    def kill(self) -> None:
        """Kill the process, without waiting for its end."""
        self._process.kill()

    def end(self) -> None:
        """Kill the process and close the pipes."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                _opened(pipe).close()


class Children:
    """Child processes that answer one value after the other; a context manager, which ends them.

    The threads that wait for replies are daemons, as those of an executor would keep a program that was interrupted
    from ending before the children have finished.
    """

    def __init__(self, function: str, most: int) -> None:
        """Run a function as `Child` does, which has a reply for each value, in at most so many children."""
        self._function, self._most = function, most
        self._children: list[Child] = []
        self._threads: list[threading.Thread] = []
        self._asked: queue.SimpleQueue[tuple[Any, Future[Any]] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)  # counts idle children as long as more may be started

    def submit(self, value: Any) -> Future[Any]:
        """Send a value to the next child that is idle, a new one if none is; the result raises as `Child.receive`."""
        future: Future[Any] = Future()
        if not self._idle.acquire(blocking=False) and len(self._children) < self._most:
            self._start()
        self._asked.put((value, future))
        return future

    def _start(self) -> None:
        self._children.append(Child(self._function))
        self._threads.append(threading.Thread(target=self._serve, args=self._children[-1:], daemon=True, name="child"))
        self._threads[-1].start()

    def _serve(self, child: Child) -> None:
        for value, future in iter(self._asked.get, None):
            if future.set_running_or_notify_cancel():
                try:
                    child.send(value)
                    reply, error = child.receive(), None
                except BaseException as raised:  # by the future, too
                    reply, error = None, raised
                self._idle.release()  # before whoever waits submits the next value
                if error is None:
                    future.set_result(reply)
                else:
                    future.set_exception(error)

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the children, whatever they do."""
        with contextlib.suppress(queue.Empty):
            while asked := self._asked.get_nowait():
                asked[1].cancel()
        for child in self._children:
            child.kill()
            self._asked.put(None)
        for thread in self._threads:
            thread.join()
        for child in self._children:
            child.end()


def answers(function: Callable[[Iterable[Any]], Iterator[Any]], values: Iterable[Any]) -> Iterator[Any]:
    """Yield what a function yields for values; a user's error that it raises is the last answer, as a JSON value."""
    try:
        for reply in function(values):
            yield {"reply": reply}
    except HeadwiseError as error:
        kind = next(kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
        yield {"error": kind, "message": str(error)}


def reply_of(answer: dict[str, Any]) -> Any:
    """Return what a function yielded, of one of the `answers`; raises the `HeadwiseError` that it is instead."""
    if "error" in answer:
        raise getattr(errors, answer["error"])(answer["message"])
    return answer["reply"]


def _opened(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def _write_line(file: IO[str], value: Any) -> None:
    file.write(json.dumps(value) + "\n")
    file.flush()


# ----------------------------------------------------------------------------------------------------- in the child


def _main(function: str, *modules: str) -> None:
    """Import `modules` and run a function, `module:name`, on what standard input says."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what else is printed must not disturb the replies
    received = _received()
    module, _, name = function.partition(":")
    import_modules(modules)
    for answer in answers(getattr(importlib.import_module(module), name), received):
        _write_line(output, answer)


def _received() -> Iterator[Any]:
    """Return an iterator over the lines of standard input; the process exits at its end, whatever else it does."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)  # the parent has died, or doesn't need this process any more

    threading.Thread(target=listen, daemon=True, name="received").start()
    return (json.loads(line) for line in iter(lines.get, None))


if __name__ == "__main__":
    _main(*sys.argv[1:])
