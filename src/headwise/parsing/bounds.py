"""Limits on untrusted JSON and YAML, and reading of files up to a size limit.

Values may be nested `MOST_DEPTH` deep, and numbers may have `MOST_DIGITS` digits. Code that traverses, copies, prints
or converts them therefore never reaches Python's recursion limit, its limit of 4,300 digits, or the range of a float.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from headwise.errors import HeadwiseError

MOST_DEPTH = 64  # levels of nested lists and objects
MOST_DIGITS = 100  # digits of a number; the state of a random generator has 39


class Malformed(Exception):
    """Invalid input: `reason` says what was found, `line` (from 1) where.

    `kind` is "grammar" for a syntax error, "value" for an unusable value, "unicode" for bytes that aren't Unicode text.
    """

    def __init__(
        self, reason: str, line: int | None = None, kind: Literal["grammar", "value", "unicode"] = "value"
    ) -> None:
        super().__init__(reason)
        self.reason, self.line, self.kind = reason, line, kind

    def sentence(self, place: object, expected: str) -> str:
        """Return the error message: the place, what was expected, what was found, and the line if known."""
        line = "" if self.line is None else f" (line {self.line})"
        return f"{place}: expected {expected}, found {self.reason}{line}"


def decode(content: bytes) -> str:
    """Decode UTF-8 without its byte-order mark, if any; raises `Malformed` naming the line."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Malformed("bytes that aren't UTF-8 text", line, "unicode") from None


def line_of(text: str, offset: int) -> int:
    """Return the line number, from 1, of the character at `offset`."""
    return text.count("\n", 0, offset) + 1


def read_bounded(path: Path, most: int, error: type[HeadwiseError], expected: str) -> bytes:
    """Read a file of at most `most` bytes; raises `error` if it is larger or can't be read.

    `expected` describes the expected content, for the message.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as problem:  # ValueError: a NUL character in the name
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error(f"{path}: expected {expected}, found that it can't be read ({reason})") from None
    if len(content) > most:
        raise error(f"{path}: expected {expected} of at most {most:,} bytes, found a larger file")
    return content
