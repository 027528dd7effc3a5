"""What JSON and YAML from outside may hold, and files read up to a bound.

A tree of values may be nested `MOST_DEPTH` deep and its numbers may have `MOST_DIGITS` digits, so that whoever walks,
copies, prints or converts it needs no care of his own: neither Python's recursion limit nor its limit of 4,300 digits
(nor a float's range) is ever reached.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from headwise.errors import HeadwiseError

MOST_DEPTH = 64  # lists and objects inside each other
MOST_DIGITS = 100  # of a number; a random generator's state has 39


class Malformed(Exception):
    """Text isn't what it should be: `reason` says what was found, `line` (from 1) where.

    `kind` tells what breaks the format's grammar from values that can't be used, and from what isn't Unicode text.
    """

    def __init__(
        self, reason: str, line: int | None = None, kind: Literal["grammar", "value", "unicode"] = "value"
    ) -> None:
        super().__init__(reason)
        self.reason, self.line, self.kind = reason, line, kind

    def sentence(self, place: object, expected: str) -> str:
        """Name the place, what was expected there, what was found, and its line, where it is known."""
        line = "" if self.line is None else f" (line {self.line})"
        return f"{place}: expected {expected}, found {self.reason}{line}"


def decode(content: bytes) -> str:
    """Decode UTF-8, a byte-order mark taken off; raises `Malformed` naming the line."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Malformed("bytes that aren't UTF-8 text", line, "unicode") from None


def line_of(text: str, offset: int) -> int:
    """The 1-based line that a character stands on."""
    return text.count("\n", 0, offset) + 1


def read_bounded(path: Path, most: int, error: type[HeadwiseError], expected: str) -> bytes:
    """Read a whole file of at most `most` bytes; raises `error` where there is more, or it can't be read.

    `expected` is what the file should hold, for the sentence.
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
