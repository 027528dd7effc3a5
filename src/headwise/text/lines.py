"""Lines: N lines in, N lines out, for every program that may read them.

A file's lines end at `\\n` alone, on reading and on writing. Other programs take more characters for line ends:
Python's `str.splitlines`, editors, browsers and JavaScript know `\\r`, vertical tab, form feed, three separators of
ASCII, U+0085, U+2028 and U+2029. Inside a text each of them, and a `\\n` from a JSON string or a quoted CSV cell,
becomes a space when it is read (one for one, so that the places of characters stay), and none is ever written: so
`wc -l`, `sed` and `splitlines` count the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

from headwise.errors import DataError

MOST_BYTES = 1 << 28  # of a line: some corpora of characters are one line, but none fills the memory
_LINE_END = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class _File(Protocol):
    def readline(self, size: int = ..., /) -> bytes: ...


def one_line(text: str) -> str:
    """Return a text with a space in place of every character that some program takes for a line end."""
    return _LINE_END.sub(" ", text)


def one_line_each(value: Any) -> Any:
    """Do the same with every text in a tree of JSON values, but for the names of fields."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, list):
        return [one_line_each(each) for each in value]
    if isinstance(value, dict):
        return {name: one_line_each(each) for name, each in value.items()}
    return value


def bounded_lines(file: _File, name: object) -> Iterator[bytes]:
    r"""Yield a file's lines with their `\n`; raises `DataError` naming the one that has more than `MOST_BYTES`."""
    number = 1
    while line := file.readline(MOST_BYTES + 1):
        if len(line) > MOST_BYTES:
            raise DataError(
                f"{name} line {number}: expected at most {MOST_BYTES:,} bytes, found a longer line"
            )
        yield line
        number += 1
