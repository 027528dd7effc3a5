"""Standard input, output and error of a process: closed ones are reopened, and failures are handled in one place.

All output passes here (`print`, `typer.echo`, rich, `show`), so that every command handles a failure alike:

- standard output that can't be written is an error message, as for any other file;
- standard output whose reader has closed the pipe (`headwise … | head`) ends the command quietly;
- standard error that can't be written doesn't stop the command: its messages are dropped.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError, TrainingError
from headwise.files import disk_errors

_INPUT, _OUTPUT, _ERROR = range(3)  # file descriptors


class ReaderGoneError(BaseException):
    """The reader of standard output has closed the pipe. Not an `Exception`, so that no handler treats it as one."""


@contextmanager
def standard_streams() -> Iterator[None]:
    """Guard the standard streams of this process inside the block, and flush them at its end.

    Without this, a file opened while descriptor 1 is closed would become descriptor 1 and receive what is printed.
    """
    # A closed stream is opened in the opposite mode, so that using it still fails.
    for descriptor, mode in ((_INPUT, os.O_WRONLY), (_OUTPUT, os.O_RDONLY), (_ERROR, os.O_RDONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, mode)  # gets the lowest free descriptor: this one
            assert opened == descriptor, (opened, descriptor)
            os.set_inheritable(descriptor, True)
    if sys.stdin is None:
        sys.stdin = open(_INPUT, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = _guarded(_OUTPUT, "utf-8")
    sys.stderr = _guarded(_ERROR, getattr(sys.stderr, "encoding", "utf-8"))
    try:
        yield
    finally:
        # `run` has flushed the output of a command that succeeded, so a failure here follows an earlier one.
        with contextlib.suppress(HeadwiseError, ReaderGoneError):
            sys.stdout.flush()
        sys.stderr.flush()


def show(text: str) -> None:
    """Write text to standard output and flush it."""
    sys.stdout.write(text)
    sys.stdout.flush()


def say(line: str) -> None:
    """Print a line about a command's work on standard error."""
    print(f"headwise: {line}", file=sys.stderr)


def warn(lines: Iterable[str]) -> None:
    """Print warnings on standard error."""
    for line in lines:
        say(f"warning: {line}")


class _Descriptor(io.RawIOBase):
    """Writable file descriptor whose failures are handled.

    After the first failure of standard output all data is dropped, because Python flushes again. Of standard error only
    what can't be written is: the messages of a server come again when the disk has room.
    """

    def __init__(self, descriptor: int) -> None:
        self._raw: Any = open(descriptor, "wb", buffering=0, closefd=False)  # noqa: SIM115
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
                # It is None where another process made the pipe non-blocking.
                while (written := self._raw.write(data)) is None:
                    select.select([], [self._raw], [])
                return written
            except OSError as error:
                if self.fileno() == _OUTPUT:
                    self._broken = True
                    _raise(error)
        return memoryview(data).nbytes


def _guarded(descriptor: int, encoding: str) -> io.TextIOWrapper:
    """Open a descriptor for text; characters that can't be encoded (in file names) are escaped, as in `\\udcff`."""
    raw = _Descriptor(descriptor)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=encoding,
        errors="backslashreplace",
        newline="\n",
        line_buffering=descriptor == _ERROR or raw.isatty(),
    )


def _raise(error: OSError) -> None:
    """Raise the error for a failure of standard output."""
    if error.errno in (errno.EPIPE, errno.ECONNRESET):
        raise ReaderGoneError from None
    if error.errno == errno.EBADF:
        raise TrainingError("standard output: can't be written because it is closed") from None
    with disk_errors(Path("standard output")):
        raise error
