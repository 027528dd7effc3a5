"""Writing lines of text, for the subcommands that process them as streams, and the progress of reading."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedWriter
from pathlib import Path
from typing import TypeVar

from headwise.cli.streams import show
from headwise.files import atomic_file, check_output, disk_errors
from headwise.text.reading.lines import one_line

_STANDARD_OUTPUT = (None, Path("-"))  # as other programs have it
T = TypeVar("T")


def watched(lines: Iterator[T], path: Path | None, out: Path | None, title: str) -> Iterator[T]:
    """Return the lines with a progress bar on standard error if that is a terminal.

    `path` is their file, which may be a pipe, that can be read once; there is no bar between outputs on a terminal.
    """
    shown = sys.stderr.isatty() and (out not in _STANDARD_OUTPUT or not sys.stdout.isatty())
    if path is None or not shown or not path.is_file():
        return lines
    from rich.console import Console
    from rich.progress import track

    from headwise.engine.corpus.rows import TextFile

    total = TextFile(path).count()
    return iter(track(lines, title, total=total, console=Console(stderr=True), transient=True))


@contextmanager
def line_writer(path: Path | None, *inputs: Path | None, live: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes one line to a file, or to standard output for None or `-`.

    Line ends inside the text become spaces. A file is replaced when the block ends, and stays as it is if that raises.
    If it is a pipe or a device, or its lines are `live`, as those of what is read from a stream, it is opened with the
    first line instead, and each line is flushed. Raises `ConfigError` as `check_output`, and an error that names the
    file if it can't be written.
    """
    if path is None or path in _STANDARD_OUTPUT:
        yield lambda line: show(one_line(line) + "\n")
        return
    check_output(path, *inputs)
    if path.exists() and not path.is_file():
        live = True
    with _opened_late(path) if live else _replaced(path) as write:

        def write_line(line: str) -> None:
            write(one_line(line).encode() + b"\n")

        yield write_line


@contextmanager
def _replaced(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes to a file, which is replaced when the block ends."""
    with atomic_file(path) as file:
        yield file.write


@contextmanager
def _opened_late(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes to a file, which it opens, without a buffer, at the first call or at the end."""
    file: BufferedWriter | None = None
    with ExitStack() as stack, disk_errors(path):

        def write(data: bytes) -> None:
            nonlocal file
            if file is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context(open(path, "wb"))
            file.write(data)
            file.flush()

        yield write
        write(b"")
