"""Writing lines of text, for the subcommands that process them as streams, and the progress of reading."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headwise.cli.streams import show
from headwise.files import check_output, disk_errors
from headwise.text.reading.lines import one_line, read_lines


def watched(lines: Iterator[str], path: Path, title: str) -> Iterator[str]:
    """Return the lines with a progress bar on standard error if that is a terminal; `path` is their file."""
    if not sys.stderr.isatty():
        return lines
    from rich.console import Console
    from rich.progress import track

    total = sum(1 for _ in read_lines(path))
    return iter(track(lines, title, total=total, console=Console(stderr=True), transient=True))


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
