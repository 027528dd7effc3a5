"""Corpora in shards, written by `headwise data prepare`: opened without reading them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.config import DataConfig
from headwise.data.places import locate
from headwise.data.prepared import read_manifest
from headwise.data.ragged import Ragged
from headwise.errors import CheckpointError, ConfigError
from headwise.text.preparation.parallel import ParallelStore, open_store
from headwise.text.preparation.tables import SHARD
from headwise.text.tokens.subwords import Subwords

_OPEN = 64  # shards whose files stay mapped


@dataclass(frozen=True)
class Shards:
    """The shards of one corpus.

    Attributes:
        directory: the folder.
        sizes: pairs of each shard.
        names: names of the source files.
        subwords: the subword model, the same for all corpora.
    """

    directory: Path
    sizes: tuple[int, ...]
    names: tuple[str, ...]
    subwords: Subwords

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
        self._places = [
            (corpus, shard) for corpus in range(len(corpora)) for shard in range(len(corpora[corpus].sizes))
        ]
        self._open = functools.lru_cache(_OPEN)(self._mapped)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def first(self, corpus: int) -> int:
        """Return the number of the first pair of a corpus."""
        return sum(map(len, self.corpora[:corpus]))

    def block(self, ranges: Sequence[tuple[int, int]]) -> ParallelStore:
        """Return the pairs of ranges of numbers, start and end, in memory; no range reaches beyond a shard."""
        sources, targets, lines, files = [], [], [], []
        for start, end in ranges:
            shard, offset = self._shard(start)
            store, part = self._open(shard), slice(start - offset, end - offset)
            sources.append(_part(store.source_table, part))
            targets.append(_part(store.target_table, part))
            lines.append(store.lines[part])
            files.append(store.files[part] + np.int64(self._first_name(shard)))
        return ParallelStore(
            _joined(sources), _joined(targets), np.concatenate(lines), np.concatenate(files), self.names
        )

    @property
    def names(self) -> list[str]:
        """Names of the source files of all corpora."""
        return [name for corpus in self.corpora for name in corpus.names]

    def locate(self, rows: Sequence[int] | NDArray[Any], most: int = 10) -> str:
        """Return the files and lines of pairs, for messages."""
        phrases = []
        for row in np.asarray(rows, np.int64)[:most].tolist():
            shard, offset = self._shard(row)
            store = self._open(shard)
            place = np.array([row - offset])
            phrases.append(locate(place, store.files, store.lines, store.names, 1))
        return "; ".join(phrases)

    @functools.cached_property
    def sample(self) -> ParallelStore:
        """The first shard, from which statistics are computed."""
        return self._open(0)

    def _shard(self, row: int) -> tuple[int, int]:
        shard = int(np.searchsorted(self._ends, row, side="right"))
        return shard, int(self._ends[shard] - self._sizes[shard])

    def _first_name(self, shard: int) -> int:
        """Return the index of a shard's first file in `names`."""
        return sum(len(corpus.names) for corpus in self.corpora[: self._places[shard][0]])

    def _mapped(self, index: int) -> ParallelStore:
        corpus, shard = self._places[index]
        return self.corpora[corpus].open(shard)


@dataclass(frozen=True)
class ShardedData:
    """Prepared corpora, opened for training: the development sets are read, the shards are not.

    The attributes are those of `headwise.text.preparation.parallel.PreparedData`.
    """

    directory: Path
    train: ShardedStore
    dev: ParallelStore
    dev_source: list[str]
    dev_target: list[str]
    subwords: Subwords
    report: list[str]
    checksum: str
    seconds: float = 0.0
    reused: bool = True

    def identity(self) -> dict[str, str]:
        """Return the checksums of the corpora and of the subword model."""
        return {"data": self.checksum, "subwords": self.subwords.digest()}

    def save(self, run: Path) -> None:
        """Write the subword model into a run directory; raises `TrainingError`."""
        self.subwords.save(run)


def open_corpora(config: DataConfig) -> ShardedData:
    """Open the corpora of `data.prepared`; development sets of several are joined.

    Raises:
        CheckpointError: one is missing or damaged, or has other subwords than the first.
        ConfigError: there is not one weight for each.
    """
    if config.weights and len(config.weights) != len(config.prepared):
        raise ConfigError(
            f"data.weights: expected one weight for each of the {len(config.prepared)} corpora of data.prepared, "
            f"found {len(config.weights)}"
        )
    corpora, developments, texts, report, digest = [], [], [[], []], [], hashlib.sha256()
    for directory in map(Path, config.prepared):
        manifest = read_manifest(directory, "subwords", "names.train", "shards")
        subwords = Subwords.load(directory, digest=manifest["subwords"])
        if corpora and subwords.digest() != corpora[0].subwords.digest():
            raise CheckpointError(
                f"{directory}: expected the subwords of {config.prepared[0]}, found others; "
                f"prepare it with --subwords-from {config.prepared[0]}"
            )
        names = tuple(manifest["names"]["train"])
        try:
            sizes = tuple(int(shard["rows"]) for shard in manifest["shards"])
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(
                f"{directory}: expected the sizes of shards, found something else"
            ) from None
        corpora.append(Shards(directory, sizes, names, subwords))
        developments.append(open_store(directory / "dev", subwords, names))
        for side, sentences in zip(("source", "target"), texts, strict=True):
            table = Ragged(directory / f"dev.{side}.text", np.uint8)
            sentences += table.texts(range(len(table)))
        report += [f"{directory}: {sentence}" for sentence in manifest["report"]]
        digest.update(manifest["checksum"].encode())
    return ShardedData(
        Path(config.prepared[0]),
        ShardedStore(corpora),
        _together(developments),
        dev_source=texts[0],
        dev_target=texts[1],
        subwords=corpora[0].subwords,
        report=report,
        checksum=digest.hexdigest()[:12],
    )


def _together(stores: Sequence[ParallelStore]) -> ParallelStore:
    """Return the pairs of several stores in memory."""
    firsts = np.cumsum([0, *(len(store.names) for store in stores)])
    return ParallelStore(
        _joined([_part(store.source_table, slice(0, len(store))) for store in stores]),
        _joined([_part(store.target_table, slice(0, len(store))) for store in stores]),
        np.concatenate([store.lines for store in stores]),
        np.concatenate([store.files + first for store, first in zip(stores, firsts[:-1], strict=True)]),
        [name for store in stores for name in store.names],
    )


def _part(table: Ragged, rows: slice) -> Ragged:
    offsets = table.offsets[rows.start : rows.stop + 1]
    return Ragged.of(table.values[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0])


def _joined(tables: Sequence[Ragged]) -> Ragged:
    ends = np.cumsum([0, *(len(table.values) for table in tables)])
    offsets = [table.offsets[1:] + end for table, end in zip(tables, ends[:-1], strict=True)]
    values = np.concatenate([table.values for table in tables])
    return Ragged.of(values, np.concatenate([np.zeros(1, np.int64), *offsets]))
