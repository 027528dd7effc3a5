"""Reading and writing lines of text, for the subcommands that process them as streams."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from headwise.cli.streams import show
from headwise.errors import ConfigError, DataError
from headwise.files import disk_errors, read_errors
from headwise.text.reading.compression import open_binary
from headwise.text.reading.lines import bounded_lines, one_line


def read_lines(path: Path | None) -> Iterator[str]:
    r"""Yield the lines of a file (plain or compressed), or of standard input for None.

    Only `\n` ends a line, as in the training text, so that line numbers agree with those of other programs; other
    line ends inside a line become spaces. Raises `DataError` naming the file, and the line that isn't UTF-8.
    """
    if path is None:
        with read_errors(Path("standard input")):
            yield from _decoded(sys.stdin.buffer, "standard input")
        return
    with open_binary(path) as file, read_errors(path):
        yield from _decoded(file, str(path))


def watched(lines: Iterator[str], path: Path, title: str) -> Iterator[str]:
    """Return the lines with a progress bar on standard error if that is a terminal; `path` is their file."""
    if not sys.stderr.isatty():
        return lines
    from rich.console import Console
    from rich.progress import track

    total = sum(1 for _ in read_lines(path))
    return iter(track(lines, title, total=total, console=Console(stderr=True), transient=True))


def _decoded(file: gzip.GzipFile | BinaryIO, name: str) -> Iterator[str]:
    for number, line in enumerate(bounded_lines(file, name), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{name}: line {number}: expected UTF-8 text, found other bytes") from None
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield one_line(text.removesuffix("\n").removesuffix("\r"))


def check_output(path: Path, *inputs: Path | None) -> None:
    """Raise `ConfigError` if an output file is one of the inputs."""
    if any(file is not None and path.exists() and file.exists() and path.samefile(file) for file in inputs):
        raise ConfigError(f"{path}: expected an output file that is not an input file")


@contextmanager
def line_writer(path: Path | None, *inputs: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes one line to a file, or to standard output for None, and flushes it.

    Line ends inside the text become spaces. Raises `ConfigError` if the file is one of the `inputs`, and an error
    that names the file if it can't be written.
    """
    if path is None:
        yield lambda line: show(one_line(line) + "\n")
        return
    check_output(path, *inputs)
    with disk_errors(path):
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
        with open(path, "wb") as file:

            def write(line: str) -> None:
                file.write(one_line(line).encode() + b"\n")
                file.flush()

            yield write
