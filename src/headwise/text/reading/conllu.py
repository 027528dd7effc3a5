"""Reader of dependency trees in CoNLL-U (universaldependencies.org/format.html), with surface words as nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from headwise.errors import DataError
from headwise.text.reading.lines import read_lines

_COLUMNS = 10
_ID = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")  # of a word, or of the words of a multi-word token


@dataclass(frozen=True)
class Tree:
    """One sentence with gold annotation; word indices count from 0."""

    text: str  # the sentence as written
    words: tuple[str, ...]  # surface words in order; a multi-word token (German *zum*) is one word
    edges: tuple[
        tuple[int, int, str], ...
    ]  # dependent, head, relation; without those of the root and inside a multi-word token
    tags: tuple[str, ...]  # universal parts of speech; a multi-word token has the tag of its first syntactic word
    coreference: tuple[tuple[int, int], ...] = ()  # pronoun, antecedent, from `Antecedent=N` in the last column


def read_trees(path: str | Path) -> list[Tree]:
    """Read a CoNLL-U file, plain or `.gz`; raises `DataError` naming the file and the malformed line."""
    path = Path(path)
    lines = ((number, line.split("\t")) for number, line in enumerate(read_lines(path), start=1))
    blocks = groupby(lines, lambda line: line[1] == [""])
    found = (_tree(list(block), path) for blank, block in blocks if not blank)
    trees = [tree for tree in found if tree.words]  # comments alone, such as a license, are no sentence
    if not trees:
        raise DataError(f"{path}: expected CoNLL-U sentences, found none")
    return trees


def _tree(lines: Sequence[tuple[int, list[str]]], path: Path) -> Tree:
    syntactic_words = list(_word_columns(lines, path))
    surface_index: dict[str, int] = {}  # id of a syntactic word -> index of the surface word
    words: list[str] = []
    spaces: list[str] = []
    tags: list[str] = []
    last_covered = 0
    for columns in syntactic_words:
        first, _, last = columns[0].partition("-")
        if not last and int(first) <= last_covered:  # part of the preceding multi-word token
            if tags[-1] == "_":
                tags[-1] = columns[3]
            continue
        last_covered = int(last or first)
        for word in range(int(first), last_covered + 1):
            surface_index[str(word)] = len(words)
        words.append(columns[1].replace(" ", "\u00a0"))
        spaces.append("" if "SpaceAfter=No" in columns[9].split("|") else " ")
        tags.append(columns[3])
    edges, links = [], []
    for columns in syntactic_words:
        if "-" in columns[0]:
            continue
        dependent = surface_index[columns[0]]
        head = surface_index.get(columns[6], dependent)  # the root's head is 0, which is no word's id
        if head != dependent:
            edges.append((dependent, head, columns[7]))
        for note in columns[9].split("|"):
            if note.startswith("Antecedent=") and note[11:] in surface_index:
                links.append((dependent, surface_index[note[11:]]))
    text = "".join(word + space for word, space in zip(words, spaces, strict=True)).strip()
    return Tree(text, tuple(words), tuple(edges), tuple(tags), tuple(links))


def _word_columns(lines: Sequence[tuple[int, list[str]]], path: Path) -> Iterator[list[str]]:
    """Yield the validated columns of each word line, without comments and empty nodes (8.1)."""
    words = 0
    for number, columns in lines:
        if columns[0].startswith("#") or "." in columns[0]:
            continue
        ids = _ID.fullmatch(columns[0])
        if len(columns) != _COLUMNS or ids is None:
            raise DataError(
                f"{path} line {number}: expected a CoNLL-U word of {_COLUMNS} columns separated by tabs, "
                f"found {len(columns)} columns that begin with {columns[0][:20]!r}"
            )
        if int(ids[1]) != words + 1 or int(ids[2] or ids[1]) > words + len(lines):
            raise DataError(
                f"{path} line {number}: expected word {words + 1} of its sentence, which a blank line ends, "
                f"found {columns[0]}"
            )
        words += ids[2] is None
        yield columns
