"""Line handling that keeps N input lines N output lines, whatever program counts them.

A file's lines end at `\\n` alone, on reading and on writing. Other programs recognize more line-end characters:
Python's `str.splitlines`, editors, browsers and JavaScript also split at `\\r`, vertical tab, form feed, three ASCII
separators, U+0085, U+2028 and U+2029. Inside a text each of them, and a `\\n` from a JSON string or a quoted CSV cell,
is replaced by a space on reading (one for one, so that character offsets remain valid), and none is ever written: so
`wc -l`, `sed` and `splitlines` count the same lines.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol

from headwise.errors import DataError
from headwise.files import read_errors
from headwise.text.reading.compression import open_binary

MOST_BYTES = 1 << 28  # limit per line: some character corpora are one line, but none fills the memory
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON_LINE_END = re.compile("[\x85\u2028\u2029]")
_LINE_END = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class _File(Protocol):
    def readline(self, size: int = ..., /) -> bytes: ...


def one_line(text: str) -> str:
    """Replace every line-end character of a text by a space."""
    return _LINE_END.sub(" ", text)


def one_line_each(value: Any) -> Any:
    """Apply `one_line` to every string in a tree of JSON values, except field names."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, list):
        return [one_line_each(item) for item in value]
    if isinstance(value, dict):
        return {name: one_line_each(item) for name, item in value.items()}
    return value


def json_line(record: dict[str, Any]) -> str:
    """Return a record as one line of JSON; line ends that JSON allows inside strings are escaped, too."""
    return _JSON_LINE_END.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(record, ensure_ascii=False))


@contextmanager
def open_text(path: Path) -> Iterator[gzip.GzipFile | BufferedReader]:
    """Open a plain or compressed file for binary reading; raises `DataError` for an empty or binary file."""
    with open_binary(path) as file:
        start = file.peek(1 << 16)[: 1 << 16]
        if not start:
            raise DataError(f"{path}: expected lines of text, found an empty file")
        if b"\0" in start:
            hint = " (UTF-16?)" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
            raise DataError(f"{path}: expected UTF-8 text, found a binary file{hint}")
        yield file


def text_lines(path: Path, file: _File) -> Iterator[bytes]:
    """Yield lines without line ends (`\\n` or `\\r\\n`) and byte-order mark, none longer than `MOST_BYTES`."""
    with read_errors(path):
        number = 0
        while line := file.readline(MOST_BYTES + 1):
            number += 1
            if len(line) > MOST_BYTES:
                raise DataError(f"{path} line {number}: expected at most {MOST_BYTES:,} bytes, found a longer line")
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def decoded_lines(path: Path, file: _File) -> Iterator[tuple[str, int]]:
    """Yield the lines of an open file and their 1-based numbers; other line-end characters inside a line become spaces.

    Raises `DataError` naming the line that isn't UTF-8.
    """
    for number, line in enumerate(text_lines(path, file), start=1):
        try:
            yield one_line(line.decode("utf-8")), number
        except UnicodeDecodeError:
            raise DataError(f"{path} line {number}: expected UTF-8 text, found other bytes") from None


def read_lines(path: Path | None) -> Iterator[str]:
    r"""Yield the lines of a file (plain or compressed), or of standard input for None.

    Only `\n` ends a line, as in the training text, so that line numbers agree with those of other programs; other
    line ends inside a line become spaces. Raises `DataError` naming the file, and the line that isn't UTF-8.
    """
    with nullcontext(sys.stdin.buffer) if path is None else open_binary(path) as file:
        yield from (line for line, _ in decoded_lines(path or Path("standard input"), file))


def read_parallel(*paths: Path) -> list[list[str]]:
    """Return the lines of each of several files that belong together line by line.

    Raises `DataError` as `read_lines`, and naming a file that is empty or hasn't as many lines as the first.
    """
    read = [list(read_lines(path)) for path in paths]
    if not read[0]:
        raise DataError(f"{paths[0]}: expected lines of text, found an empty file")
    for path, lines in zip(paths, read, strict=True):
        if len(lines) != len(read[0]):
            raise DataError(f"{path}: expected {len(read[0]):,} lines, as many as {paths[0]}, found {len(lines):,}")
    return read
