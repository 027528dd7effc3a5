"""Prepared sentence pairs, opened for training: a run's own text, or corpora in shards of `headwise data prepare`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from headwise.config import DataConfig
from headwise.data.prepared import read_manifest
from headwise.errors import CheckpointError
from headwise.files import write_bytes
from headwise.text.preparation.stores import (
    ParallelStore,
    ShardedStore,
    Shards,
    development_texts,
    open_store,
    together,
)
from headwise.text.reading.pairs import check_weights
from headwise.text.tokens.source_words import FILE as WORDS
from headwise.text.tokens.subwords import Subwords

Store = TypeVar("Store", ParallelStore, ShardedStore)


@dataclass(frozen=True)
class PreparedData(Generic[Store]):
    """Prepared sentence pairs, opened for training: development sets are read, shards are not."""

    directory: Path  # the first, of several corpora
    train: Store
    dev: ParallelStore  # empty where there are neither development files nor pairs to split off
    dev_source: list[str]  # text of the pairs in `dev`
    dev_target: list[str]
    subwords: Subwords
    report: list[str]  # sentences on what was read, removed, split off and learned
    checksum: str  # 12 hexadecimal digits of the input files' contents, or of the shards'
    reused: bool = True  # whether an existing folder was opened

    def identity(self) -> dict[str, str]:
        """Return the checksums of the text and of the subword model."""
        return {"data": self.checksum, "subwords": self.subwords.digest()}

    def save(self, run: Path) -> None:
        """Write the subword model(s) and the list of source words into a run directory; raises `TrainingError`."""
        self.subwords.save(run)
        if (self.directory / WORDS).is_file():  # an older version listed none
            write_bytes(run / WORDS, (self.directory / WORDS).read_bytes())

    @staticmethod
    def open(directory: str | Path, *, reused: bool = True) -> PreparedData[ParallelStore]:
        """Open a run's prepared folder without checking the files that it was prepared from.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        folder = _Folder(Path(directory))
        return PreparedData(
            folder.path,
            open_store(folder.path / "train", folder.subwords, folder.names),
            folder.dev,
            folder.dev_texts[0],
            folder.dev_texts[1],
            folder.subwords,
            folder.manifest["report"],
            folder.manifest["checksum"],
            reused,
        )


AnyPrepared = PreparedData[ParallelStore] | PreparedData[ShardedStore]


class _Folder:
    """A prepared folder: its manifest, subwords and development set.

    Raises `CheckpointError` where something is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: dict[str, Any] = read_manifest(path, "subwords", "names.train", "names.dev")
        self.subwords = Subwords.load(path, digest=self.manifest["subwords"])
        self.names: list[str] = self.manifest["names"]["train"]
        self.dev = open_store(path / "dev", self.subwords, self.manifest["names"]["dev"])
        self.dev_texts = development_texts(path)

    def shards(self) -> Shards:
        """Return the shards, none of which is read."""
        try:
            sizes = tuple(int(shard["rows"]) for shard in self.manifest["shards"])
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(f"{self.path}: expected the sizes of shards, found something else") from None
        return Shards(self.path, sizes, tuple(self.names), self.subwords)


def open_corpora(config: DataConfig) -> PreparedData[ShardedStore]:
    """Open the corpora of `data.prepared`; development sets of several are joined.

    Raises:
        CheckpointError: one is missing or damaged, or has other subwords than the first.
        ConfigError: there is not one positive weight for each.
    """
    check_weights(config.weights, len(config.prepared), "corpora of data.prepared")
    folders = [_Folder(Path(directory)) for directory in config.prepared]
    first = folders[0]
    for folder in folders[1:]:
        if folder.subwords.digest() != first.subwords.digest():
            raise CheckpointError(
                f"{folder.path}: expected the subwords of {first.path}, found others; "
                f"prepare it with --subwords-from {first.path}"
            )
    checksums = "".join(folder.manifest["checksum"] for folder in folders)
    sources, targets = ([sentence for folder in folders for sentence in folder.dev_texts[side]] for side in (0, 1))
    return PreparedData(
        first.path,
        ShardedStore([folder.shards() for folder in folders]),
        together([folder.dev for folder in folders]),
        sources,
        targets,
        first.subwords,
        [f"{folder.path}: {sentence}" for folder in folders for sentence in folder.manifest["report"]],
        hashlib.sha256(checksums.encode()).hexdigest()[:12],
    )
