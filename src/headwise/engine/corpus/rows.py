"""Rows of a text to translate: lines, JSON objects or the rows of a Parquet file, and a rule for bad ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.errors import ConfigError, DataError
from headwise.files import read_errors
from headwise.parsing import Malformed, as_object, json_value
from headwise.text.reading.compression import open_binary, suffix
from headwise.text.reading.lines import MOST_BYTES, one_line
from headwise.text.reading.parquet import ParquetText
from headwise.text.reading.records import nested_text

RULES = ("stop", "replace", "empty")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TextRow:
    """A line to translate.

    Attributes:
        number: its number, from 1.
        text: its text, empty if it can't be read.
        problem: `not_utf8`, `too_long` or `malformed`, or empty.
        fields: the JSON object that holds the text; None for other formats.
        prefix: the text with which its translation begins.
    """

    number: int
    text: str
    problem: str = ""
    fields: dict[str, Any] | None = None
    prefix: str | None = None


@dataclass(frozen=True)
class TextFile:
    """A text to translate: lines of text, `.jsonl` or `.parquet` with a named field; the first two may be compressed.

    Attributes:
        path: the file.
        field: the field of a record that holds the text.
        rule: what becomes of a bad line, one of `RULES`: an error, its readable part, or an empty line.
    """

    path: Path
    field: str = "source"
    rule: str = "stop"

    @property
    def form(self) -> str:
        """Return `.jsonl`, `.parquet`, or an empty string for text."""
        return form_of(self.path)

    def rows(self, first: int = 0) -> Iterator[TextRow]:
        """Yield the rows from index `first` on.

        Raises `DataError` for a file that can't be read and, if the rule is to stop, naming a row that isn't UTF-8 text
        of at most 256 MiB, or lacks the field.
        """
        if self.form == ".parquet":
            cells = ParquetText(self.path).tuples([self.field], first)
            yield from (self._of_cell(number, text) for number, (text,) in enumerate(cells, start=first + 1))
            return
        read = self._of_json if self.form == ".jsonl" else self._of_line
        with open_binary(self.path) as file, read_errors(self.path):
            lines = enumerate(self._lines(file), start=1)
            for number, (line, whole) in itertools.islice(lines, first, None):
                row = read(number, line)
                yield row if whole else TextRow(row.number, row.text, "too_long", row.fields)

    def count(self) -> int:
        """Return the number of rows; raises `DataError` for a file that can't be read."""
        if self.form == ".parquet":
            return ParquetText(self.path).rows
        count, last = 0, b"\n"
        with open_binary(self.path) as file, read_errors(self.path):
            while block := file.read(1 << 20):
                count += block.count(b"\n")
                last = block[-1:]
        return count + (last != b"\n")

    def _lines(self, file: Any) -> Iterator[tuple[bytes, bool]]:
        """Yield each line without its end, and whether it is whole: of a very long one the rest is dropped."""
        number = 0
        while line := file.readline(MOST_BYTES + 1):
            number += 1
            whole = len(line) <= MOST_BYTES
            if not whole:
                self._stop(number, f"at most {MOST_BYTES:,} bytes", "a longer line")
                rest = line
                while rest and not rest.endswith(b"\n"):
                    rest = file.readline(1 << 20)
                line = line[:MOST_BYTES]
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            yield line.removesuffix(b"\n").removesuffix(b"\r"), whole

    def _of_line(self, number: int, line: bytes) -> TextRow:
        try:
            return TextRow(number, one_line(line.decode("utf-8")))
        except UnicodeDecodeError:
            self._stop(number, "UTF-8 text", "other bytes")
            return TextRow(number, one_line(line.decode("utf-8", "replace")), "not_utf8")

    def _of_json(self, number: int, line: bytes) -> TextRow:
        try:
            record = json_value(line)
        except Malformed as problem:
            kind = "not_utf8" if problem.kind == "unicode" else "malformed"
            self._stop(number, "a JSON object" if kind == "malformed" else "UTF-8 text", "something else")
            return TextRow(number, "", kind, {})
        try:
            record = as_object(record, f"{self.path} line {number}")
            text = nested_text(record, self.field, f"{self.path} line {number}")
        except DataError as error:
            self._refuse(str(error))
            return TextRow(number, "", "malformed", record if isinstance(record, dict) else {})
        return TextRow(number, one_line(text), fields=record)

    def _of_cell(self, number: int, text: str | None) -> TextRow:
        if text is None:
            self._stop(number, f"text in the column {self.field!r}", "none")
            return TextRow(number, "", "malformed")
        return self._of_line(number, text.encode("utf-8", "surrogateescape"))

    def _stop(self, number: int, expected: str, found: str) -> None:
        self._refuse(f"{self.path} line {number}: expected {expected}, found {found}")

    def _refuse(self, problem: str) -> None:
        if self.rule == "stop":
            raise DataError(f"{problem} (--on-bad-line replace or empty goes on)")


def form_of(path: Path) -> str:
    """Return `.jsonl` or `.parquet` for files of records, and an empty string for text."""
    return form if (form := suffix(path)) in (".jsonl", ".parquet") else ""


def check_rule(rule: str) -> str:
    """Return the rule; raises `ConfigError` for an unknown one."""
    if rule not in RULES:
        raise ConfigError(f"--on-bad-line: expected one of {', '.join(RULES)}, found {rule!r}")
    return rule
