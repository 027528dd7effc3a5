"""Reader of records with named fields: `.jsonl`, `.tsv` and `.csv` files, plain or compressed.

The first line of a `.tsv` or `.csv` file names the fields. A tab in a `.tsv` always separates; a `.csv` may quote.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from headwise.errors import DataError
from headwise.parsing import kind_of, parse_object
from headwise.text.reading.compression import suffix
from headwise.text.reading.lines import MOST_BYTES, decoded_lines, one_line, one_line_each, open_text

SUFFIXES = (".jsonl", ".tsv", ".csv")


class TextRecord(NamedTuple):
    """Fields by name, and the 1-based number of the line that holds the record (or its end)."""

    fields: dict[str, Any]
    line: int


def read_lines_of(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the lines of a text file as `decoded_lines` does; raises `DataError` also for an empty or binary file."""
    with open_text(path) as file:
        yield from decoded_lines(path, file)


def read_records(path: Path) -> Iterator[TextRecord]:
    """Yield the records of a file; its suffix determines the format.

    Raises:
        DataError: the file can't be read, or a line isn't UTF-8, isn't a JSON object, or has another number of
            columns than the first line, which names no field twice.
    """
    if suffix(path) == ".jsonl":
        for line, number in read_lines_of(path):
            yield TextRecord(json_object(line, f"{path} line {number}"), number)
        return
    lines = read_lines_of(path)
    rows = _csv_rows(path, lines) if suffix(path) == ".csv" else ((t.split("\t"), n) for t, n in lines)
    header, first = next(rows, ([], 0))
    if repeated := [name for name, count in Counter(header).items() if name and count > 1]:
        raise DataError(f"{path} line {first}: expected each field once, found {repeated[0]!r} again")
    for values, number in rows:
        if len(values) != len(header):
            raise DataError(
                f"{path} line {number}: expected {len(header)} columns ({', '.join(header)}), found {len(values)}"
            )
        yield TextRecord(dict(zip(header, map(one_line, values), strict=True)), number)


def json_object(text: str, location: str) -> dict[str, Any]:
    """Parse a JSON object; line ends in its strings become spaces. Raises `DataError` that names `location`."""
    return one_line_each(parse_object(text, location))


def text_field(fields: dict[str, Any], name: str, location: str) -> str:
    """Return a text field; raises `DataError`, listing the existing fields where it is missing."""
    if name not in fields:
        raise DataError(f"{location}: expected a field {name!r}, found {', '.join(fields) or 'none'}")
    value = fields[name]
    if not isinstance(value, str):
        raise DataError(f"{location}: expected text in field {name!r}, found {kind_of(value)}")
    return value


def nested_text(record: dict[str, Any], name: str, location: str) -> str:
    """Return a text of a JSON object; dots in `name` lead to the fields of objects inside, as `translation.en`."""
    found: Any = record
    for part in [name] if name in record else name.split("."):
        if not isinstance(found, dict) or part not in found:
            fields = ", ".join(found) or "none" if isinstance(found, dict) else kind_of(found)
            raise DataError(f"{location}: expected text in field {name!r}, found {fields}")
        found = found[part]
    if not isinstance(found, str):
        raise DataError(f"{location}: expected text in field {name!r}, found {kind_of(found)}")
    return found


def _csv_rows(path: Path, lines: Iterable[tuple[str, int]]) -> Iterator[tuple[list[str], int]]:
    csv.field_size_limit(MOST_BYTES)  # Python's own would refuse a long document
    reader = csv.reader((line + "\n" for line, _ in lines), strict=True)
    try:
        yield from ((row, reader.line_num) for row in reader if row)
    except csv.Error as error:
        raise DataError(f"{path} line {reader.line_num}: expected comma-separated values, found {error}") from None
