"""Encoded sentence pairs in memory-mapped arrays: one store, or many shards, which are opened without reading them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.data.ragged import PlacedRows, Ragged, beside, map_places
from headwise.errors import CheckpointError
from headwise.text.tokens import encoding
from headwise.text.tokens.pair_vocabulary import Side
from headwise.text.tokens.subwords import Subwords

SIDES: tuple[Side, ...] = ("source", "target")
TRAIN_TEXT = "train-text"  # table of the training text, which is kept for BPE-dropout alone
SHARD = "shard-{:05}"  # name of the files of a shard
_OPEN = 64  # shards whose files stay mapped


def development_texts(prepared: Path, most: int | None = None) -> list[list[str]]:
    """Return the first texts of each side of the development set in a prepared folder, by default all of them.

    Raises `CheckpointError` where they are missing or damaged.
    """
    tables = [Ragged(prepared / f"dev.{side}.text", np.uint8) for side in SIDES]
    return [table.texts(range(len(table))[:most]) for table in tables]


class ParallelStore(PlacedRows):
    """Encoded sentence pairs in memory-mapped arrays, in the order of the files.

    A source row is ids + EOS; a target row is the ids alone, as BOS and EOS are added to the batch.
    Lengths are those that the model sees, with EOS on both sides.
    """

    def __init__(
        self, source: Ragged, target: Ragged, lines: NDArray[Any], files: NDArray[Any], names: Sequence[str]
    ) -> None:
        """Combine the tables of ids with the line number and the file index (in `names`) of each row."""
        if not len(source) == len(target) == len(lines) == len(files):
            sizes = f"{len(source)}, {len(target)}, {len(lines)} and {len(files)}"
            raise CheckpointError(
                f"prepared text: expected as many source rows, target rows, lines and files, found {sizes}"
            )
        super().__init__(lines, files, names)
        self.source_table, self.target_table = source, target

    @property
    def sample(self) -> ParallelStore:
        """The pairs from which statistics are computed: all."""
        return self

    @cached_property
    def source_lengths(self) -> NDArray[np.int32]:
        """Number of subwords of each source sentence, EOS included."""
        return self.source_table.lengths.astype(np.int32)

    @cached_property
    def target_lengths(self) -> NDArray[np.int32]:
        """Number of subwords of each target sentence, plus one for BOS or EOS."""
        return self.target_table.lengths.astype(np.int32) + 1

    def source(self, row: int) -> NDArray[Any]:
        """Return the ids of one source sentence, EOS included."""
        return self.source_table[row]

    def target(self, row: int) -> NDArray[Any]:
        """Return the ids of one target sentence, without BOS and EOS."""
        return self.target_table[row]


def open_store(path: Path, subwords: Subwords, names: Sequence[str]) -> ParallelStore:
    """Map the store with this name; raises `CheckpointError` if it is missing or damaged."""
    source = Ragged(beside(path, "source"), encoding.id_type(subwords.source_size))
    target = Ragged(beside(path, "target"), encoding.id_type(subwords.target_size))
    return ParallelStore(source, target, *map_places(path, names), names)


@dataclass(frozen=True)
class Shards:
    """The shards of one corpus."""

    directory: Path
    sizes: tuple[int, ...]  # pairs of each shard, of which there is one at least
    names: tuple[str, ...]  # of the source files
    subwords: Subwords  # the same for all corpora

    def __len__(self) -> int:
        return sum(self.sizes)

    def open(self, shard: int) -> ParallelStore:
        """Map a shard; raises `CheckpointError` if it is missing or damaged."""
        store = open_store(self.directory / SHARD.format(shard), self.subwords, self.names)
        if len(store) != self.sizes[shard]:
            raise CheckpointError(
                f"{self.directory}: expected {self.sizes[shard]:,} pairs in shard {shard}, found {len(store):,}"
            )
        return store


class ShardedStore:
    """The pairs of several corpora; pairs are numbered through all their shards."""

    def __init__(self, corpora: Sequence[Shards]) -> None:
        """Combine corpora, none of which is read."""
        self.corpora = list(corpora)
        self._sizes = np.array([size for corpus in corpora for size in corpus.sizes], np.int64)
        self._ends = np.cumsum(self._sizes)
        self.names = [name for corpus in corpora for name in corpus.names]  # of the source files of all
        # Of each shard: its corpus, its number in it, and the place in `names` of the corpus's first file.
        firsts = itertools.accumulate((len(corpus.names) for corpus in corpora), initial=0)
        self._places = [
            (corpus, shard, first)
            for corpus, first in zip(corpora, firsts, strict=False)
            for shard in range(len(corpus.sizes))
        ]
        self._open = functools.lru_cache(_OPEN)(self._mapped)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def first(self, corpus: int) -> int:
        """Return the number of the first pair of a corpus."""
        return sum(map(len, self.corpora[:corpus]))

    def block(self, ranges: Sequence[tuple[int, int]]) -> ParallelStore:
        """Return the pairs of ranges of numbers, start and end, in memory; no range reaches beyond a shard."""
        parts = []
        for start, end in ranges:
            shard, offset = self._shard(start)
            parts.append((self._open(shard), slice(start - offset, end - offset), self._places[shard][2]))
        return _in_memory(parts, self.names)

    def locate(self, rows: Sequence[int] | NDArray[Any], most: int = 10) -> str:
        """Return the files and lines of pairs, for messages."""
        phrases = []
        for row in np.asarray(rows, np.int64)[:most].tolist():
            shard, offset = self._shard(row)
            phrases.append(self._open(shard).locate([row - offset]))
        return "; ".join(phrases)

    @cached_property
    def sample(self) -> ParallelStore:
        """The first shard that isn't empty, from which statistics are computed."""
        return self._open(int(np.flatnonzero(self._sizes)[0]))

    def _shard(self, row: int) -> tuple[int, int]:
        shard = int(np.searchsorted(self._ends, row, side="right"))
        return shard, int(self._ends[shard] - self._sizes[shard])

    def _mapped(self, index: int) -> ParallelStore:
        corpus, shard, _ = self._places[index]
        return corpus.open(shard)


def together(stores: Sequence[ParallelStore]) -> ParallelStore:
    """Return the pairs of several stores in memory."""
    firsts = itertools.accumulate((len(store.names) for store in stores), initial=0)
    parts = [(store, slice(0, len(store)), first) for store, first in zip(stores, firsts, strict=False)]
    return _in_memory(parts, [name for store in stores for name in store.names])


def _in_memory(parts: Sequence[tuple[ParallelStore, slice, int]], names: Sequence[str]) -> ParallelStore:
    """Return rows of several stores, each with the place of the store's first file in `names`."""
    return ParallelStore(
        _joined([_part(store.source_table, rows) for store, rows, _ in parts]),
        _joined([_part(store.target_table, rows) for store, rows, _ in parts]),
        np.concatenate([store.lines[rows] for store, rows, _ in parts]),
        np.concatenate([store.files[rows] + np.int64(first) for store, rows, first in parts]),
        names,
    )


def _part(table: Ragged, rows: slice) -> Ragged:
    offsets = table.offsets[rows.start : rows.stop + 1]
    return Ragged.of(table.values[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0])


def _joined(tables: Sequence[Ragged]) -> Ragged:
    ends = np.cumsum([0, *(len(table.values) for table in tables)])
    offsets = [table.offsets[1:] + end for table, end in zip(tables, ends[:-1], strict=True)]
    values = np.concatenate([table.values for table in tables])
    return Ragged.of(values, np.concatenate([np.zeros(1, np.int64), *offsets]))
