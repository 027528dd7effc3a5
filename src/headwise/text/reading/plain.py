"""Reader of monolingual text: lines of plain-text files (or `.gz`), with cleaning.

Lines end at `\\n` alone and are numbered as in parallel text (`headwise.text.reading.pairs`). Other line-end characters
become spaces. In running text, only lines that aren't UTF-8 are removed. Where each line is a document, empty lines
are removed as well, and surrounding white space is stripped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from headwise.config import DataConfig
from headwise.data.prepared import stamp
from headwise.data.ragged import MOST_FILES
from headwise.errors import ConfigError, DataError
from headwise.text.reading.lines import one_line, open_text, text_lines


class Line(NamedTuple):
    """A cleaned line (with its line end in running text) and its 1-based number."""

    text: str
    number: int


@dataclass
class LineReport:
    """Counts of the lines that were read, removed by each rule, and kept."""

    documents: bool
    drop_duplicates: bool = False
    total: int = 0
    kept: int = 0
    characters: int = 0  # of the kept lines, line ends included
    not_utf8: int = 0  # or contains a NUL character
    empty: int = 0
    duplicates: int = 0
    # hashes of the texts that were kept, of all files, by which duplicates are found
    seen: set[bytes] = field(default_factory=set, repr=False)

    def __str__(self) -> str:
        """Return all counts on one line."""
        rules = [f"{self.not_utf8:,} not UTF-8"]
        if self.documents:
            rules.insert(0, f"{self.empty:,} empty")
            rules.append(f"{self.duplicates:,} duplicates" if self.drop_duplicates else "duplicates kept")
        return (
            f"{self.total:,} lines read, {self.kept:,} kept ({self.characters:,} characters); "
            f"removed: {', '.join(rules)}"
        )


def text_files(config: DataConfig) -> list[Path]:
    """Return the files of `data.text`; raises `ConfigError` where there is none, or more than `MOST_FILES`."""
    if not config.text:
        raise ConfigError("data.text: expected at least one file of training text, found none")
    if len(config.text) > MOST_FILES:
        raise ConfigError(f"data.text: expected at most {MOST_FILES:,} files, found {len(config.text):,}")
    return [Path(path) for path in config.text]


def text_request(config: DataConfig) -> dict[str, Any]:
    """Return the text files and the development split as entries of a prepared folder's request.

    Raises `ConfigError` as `text_files` does, and `DataError` where a file can't be read.
    """
    files = text_files(config)
    development = [Path(config.dev_text)] if config.dev_text is not None else []
    return {
        "inputs": [stamp(path) for path in [*files, *development]],
        "training": [str(path) for path in files],
        "development": [str(path) for path in development],
        "dev_share": 0.0 if development else config.dev_share,
    }


def read_text(path: Path, report: LineReport) -> Iterator[Line]:
    """Yield the cleaned lines of one file, and add to the counts of `report`.

    Raises:
        DataError: the file is missing, a directory, empty, binary, damaged or unreadable; or, at its end, no line was
            fit to be kept, or most lines aren't UTF-8 text.
    """
    initial = LineReport(**vars(report))
    with open_text(path) as file:
        for number, raw in enumerate(text_lines(path, file), start=1):
            report.total += 1
            try:
                text = one_line(raw.decode("utf-8"))
            except UnicodeDecodeError:
                report.not_utf8 += 1
                continue
            text = text.strip() if report.documents else text + "\n"
            if "\0" in text:
                report.not_utf8 += 1
            elif not text:
                report.empty += 1
            elif report.drop_duplicates and _is_duplicate(text, report.seen):
                report.duplicates += 1
            else:
                report.kept += 1
                report.characters += len(text) + report.documents
                yield Line(text, number)
    total, not_utf8 = report.total - initial.total, report.not_utf8 - initial.not_utf8
    if not_utf8 * 2 > total:
        raise DataError(
            f"{path}: expected UTF-8 text, found {not_utf8:,} of {total:,} lines that aren't; "
            "convert the text first (for instance with iconv)"
        )
    if report.kept + report.duplicates == initial.kept + initial.duplicates:
        raise DataError(f"{path}: cleaning left nothing to learn from: {report}")


def _is_duplicate(text: str, seen: set[bytes]) -> bool:
    """Whether a text is a duplicate; `seen` stores an 8-byte hash of each text."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    if digest in seen:
        return True
    seen.add(digest)
    return False
