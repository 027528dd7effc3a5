"""Records with named fields: `.jsonl`, `.tsv` and `.csv` files, each plain or `.gz`.

A `.tsv` or `.csv` file names its fields in its first line. In a `.tsv` a tab always separates; a `.csv` may quote.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from headwise.errors import DataError
from headwise.parsing.json_text import parse_object
from headwise.text.reading.lines import one_line, one_line_each, open_text, text_lines

SUFFIXES = (".jsonl", ".tsv", ".csv")


class Record(NamedTuple):
    """Fields by name, and the 1-based number of the line where they stand (or end)."""

    fields: dict[str, Any]
    line: int


def suffix(path: str | Path) -> str:
    """What a file's name ends in, `.gz` aside: `.tsv`."""
    return Path(str(path).removesuffix(".gz")).suffix.lower()


def read_lines_of(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the lines of a file, line ends inside them as spaces, and their numbers.

    Raises `DataError` naming the line that isn't UTF-8.
    """
    with open_text(path) as file:
        for number, line in enumerate(text_lines(path, file), start=1):
            try:
                yield one_line(line.decode("utf-8")), number
            except UnicodeDecodeError:
                raise DataError(f"{path} line {number}: expected UTF-8 text, found other bytes") from None


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file in the format that its name says.

    Raises:
        DataError: the file can't be read, a line isn't UTF-8 or not a JSON object, or has not as many columns as the
            first.
    """
    if suffix(path) == ".jsonl":
        for line, number in read_lines_of(path):
            yield Record(json_object(line, f"{path} line {number}"), number)
        return
    lines = read_lines_of(path)
    rows = _csv_rows(path, lines) if suffix(path) == ".csv" else ((t.split("\t"), n) for t, n in lines)
    names, _ = next(rows, ([], 0))
    for values, number in rows:
        if len(values) != len(names):
            raise DataError(
                f"{path} line {number}: expected {len(names)} columns ({', '.join(names)}), found {len(values)}"
            )
        yield Record(dict(zip(names, map(one_line, values), strict=True)), number)


def json_object(text: str, place: str) -> dict[str, Any]:
    """Read a JSON object, line ends inside its texts as spaces; raises `DataError` naming its place."""
    return one_line_each(parse_object(text, place))


def text_field(fields: dict[str, Any], name: str, place: str) -> str:
    """Return a field that holds text; raises `DataError` naming the fields that there are."""
    if name not in fields:
        raise DataError(f"{place}: expected a field {name!r}, found {', '.join(fields) or 'none'}")
    value = fields[name]
    if not isinstance(value, str):
        raise DataError(f"{place}: expected text in field {name!r}, found {type(value).__name__}")
    return value


def _csv_rows(path: Path, lines: Iterable[tuple[str, int]]) -> Iterator[tuple[list[str], int]]:
    reader = csv.reader((line + "\n" for line, _ in lines), strict=True)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"{path} line {reader.line_num}: expected comma-separated values, found {error}"
            ) from None
        if row is None:
            return
        if row:
            yield row, reader.line_num
