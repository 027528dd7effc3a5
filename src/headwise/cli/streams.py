"""Standard input, output and error of a process: open whatever its parent closed, and one answer to each failure.

Everything that is printed passes here (`print`, `typer.echo`, rich, `show`), so that every command ends alike:

- standard output that can't be written is one sentence, as any other file is;
- standard output that nobody reads any more (`headwise … | head`) ends the command quietly, as it was asked to do;
- standard error that can't be written is no reason to stop: what would be said there is dropped.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError, TrainingError
from headwise.files import disk_errors

_INPUT, _OUTPUT, _ERROR = range(3)  # file descriptors


class ReaderGoneError(BaseException):
    """Whoever read standard output has read enough. It is no error, so that nothing takes it for one."""


@contextmanager
def standard_streams() -> Iterator[None]:
    """Guard the standard streams of this process while the block runs, and what they still hold when it ends.

    Without this a file opened while descriptor 1 is closed would become descriptor 1, and take what is printed.
    """
    # Opened for the opposite of their purpose, so that using one that was closed fails as it should.
    for descriptor, mode in ((_INPUT, os.O_WRONLY), (_OUTPUT, os.O_RDONLY), (_ERROR, os.O_RDONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, mode)  # the lowest that is free: this one
            assert opened == descriptor, (opened, descriptor)
            os.set_inheritable(descriptor, True)
    if sys.stdin is None:
        sys.stdin = open(_INPUT, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = _guarded(_OUTPUT, "utf-8", _raise)
    sys.stderr = _guarded(_ERROR, getattr(sys.stderr, "encoding", "utf-8"), _drop)
    try:
        yield
    finally:
        # A failure here comes after another one, as `run` has flushed what a command printed to its end.
        with contextlib.suppress(HeadwiseError, ReaderGoneError):
            sys.stdout.flush()
        sys.stderr.flush()


def show(text: str) -> None:
    """Write text to standard output at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


class _Descriptor(io.RawIOBase):
    """A file descriptor to write to; from its first failure on it drops whatever comes, as Python flushes again."""

    def __init__(self, descriptor: int, failed: Callable[[OSError], None]) -> None:
        self._raw: Any = open(descriptor, "wb", buffering=0, closefd=False)  # noqa: SIM115
        self._failed = failed
        self._broken = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def isatty(self) -> bool:
        return self._raw.isatty()

    def write(self, data: Any, /) -> int:
        if not self._broken:
            try:
                while (written := self._raw.write(data)) is None:  # who shares the pipe made it non-blocking
                    select.select([], [self._raw], [])
                return written
            except OSError as error:
                self._broken = True
                self._failed(error)
        return memoryview(data).nbytes


def _guarded(descriptor: int, encoding: str, failed: Callable[[OSError], None]) -> io.TextIOWrapper:
    """Open a descriptor for text; what can't be encoded (file names that aren't UTF-8) is written as `\\udcff`."""
    raw = _Descriptor(descriptor, failed)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=encoding,
        errors="backslashreplace",
        newline="\n",
        line_buffering=descriptor == _ERROR or raw.isatty(),
    )


def _raise(error: OSError) -> None:
    """Say what is wrong with standard output."""
    if error.errno in (errno.EPIPE, errno.ECONNRESET):
        raise ReaderGoneError from None
    if error.errno == errno.EBADF:
        raise TrainingError("standard output: can't be written because it is closed") from None
    with disk_errors(Path("standard output")):
        raise error


def _drop(error: OSError) -> None:
    """Standard error is for people, and there is nobody any more: a training must not end because of that."""
