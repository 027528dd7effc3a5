"""Dependency trees from CoNLL-U files (universaldependencies.org/format.html), over words as they are written."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import DataError
from headwise.files import read_errors
from headwise.text.reading.lines import bounded_lines, one_line

_COLUMNS = 10


@dataclass(frozen=True)
class Tree:
    """One sentence with gold annotation; numbers of words count from 0.

    Attributes:
        text: as written.
        words: its words as written, in order; where one is several words of syntax (German *zum*), it is one here.
        edges: (dependent, head, relation), without the root's and those inside one written word.
        tags: universal part of speech, of a written word's first word of syntax.
        coreference: (pronoun, antecedent), from `Antecedent=N` in the last column, where there is such a thing.
    """

    text: str
    words: tuple[str, ...]
    edges: tuple[tuple[int, int, str], ...]
    tags: tuple[str, ...]
    coreference: tuple[tuple[int, int], ...] = ()


def read_trees(path: str | Path) -> list[Tree]:
    """Read a file, plain or `.gz`; raises `DataError` naming the file, and the line that isn't CoNLL-U."""
    path = Path(path)
    trees = []
    with read_errors(path), gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
        rows: list[tuple[int, list[str]]] = []
        for number, raw in enumerate(bounded_lines(file, path), start=1):
            line = _decoded(raw, path, number)
            if line:
                rows.append((number, line.split("\t")))
            elif rows:
                trees.append(_tree(rows, path))
                rows = []
        if rows:
            trees.append(_tree(rows, path))
    if not trees:
        raise DataError(f"{path}: expected CoNLL-U sentences, found none")
    return trees


def _decoded(raw: bytes, path: Path, number: int) -> str:
    try:
        return one_line(raw.decode("utf-8").rstrip("\r\n"))
    except UnicodeDecodeError:
        raise DataError(f"{path}: line {number}: expected UTF-8 text, found other bytes") from None


def _tree(rows: Sequence[tuple[int, list[str]]], path: Path) -> Tree:
    syntax = list(_rows(rows, path))
    written: dict[str, int] = {}  # id of a word of syntax -> number of the written word
    words: list[str] = []
    spaces: list[str] = []
    tags: list[str] = []
    covered = 0
    for row in syntax:
        first, _, last = row[0].partition("-")
        if not last and int(first) <= covered:  # inside a written word that stands above it
            if tags[-1] == "_":
                tags[-1] = row[3]
            continue
        covered = int(last or first)
        for word in range(int(first), covered + 1):
            written[str(word)] = len(words)
        words.append(row[1].replace(" ", "\u00a0"))
        spaces.append("" if "SpaceAfter=No" in row[9].split("|") else " ")
        tags.append(row[3])
    edges, links = [], []
    for row in syntax:
        if "-" in row[0]:
            continue
        here = written[row[0]]
        head = written.get(row[6], here)  # the root's head is 0, which no word has
        if head != here:
            edges.append((here, head, row[7]))
        for note in row[9].split("|"):
            if note.startswith("Antecedent=") and note[11:] in written:
                links.append((here, written[note[11:]]))
    text = "".join(word + space for word, space in zip(words, spaces, strict=True)).strip()
    return Tree(text, tuple(words), tuple(edges), tuple(tags), tuple(links))


def _rows(rows: Sequence[tuple[int, list[str]]], path: Path) -> Iterator[list[str]]:
    """Yield the lines of words, checked; comments and empty nodes (8.1) are left out."""
    for number, row in rows:
        if row[0].startswith("#") or "." in row[0]:
            continue
        ids = row[0].split("-")
        if len(row) != _COLUMNS or not all(part.isdigit() for part in ids) or len(ids) > 2:
            raise DataError(
                f"{path}: line {number}: expected a CoNLL-U word of {_COLUMNS} columns separated by tabs, "
                f"found {len(row)} columns that begin with {row[0][:20]!r}"
            )
        yield row
