"""Prepared parallel corpus: encoded sentence pairs in memory-mapped arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headwise.data.places import locate
from headwise.data.prepared import read_manifest
from headwise.data.ragged import Ragged, map_places
from headwise.errors import CheckpointError
from headwise.text.tokens import encoding
from headwise.text.tokens.subwords import Subwords

TRAIN_TEXT = "train-text"  # stored for BPE-dropout only
SIDES: tuple[Literal["source", "target"], ...] = ("source", "target")


class ParallelStore:
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
        self.source_table = source
        self.target_table = target
        self.lines = lines
        self.files = files
        self.names = list(names)

    def __len__(self) -> int:
        return len(self.source_table)

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

    def line_numbers(self, rows: Sequence[int] | NDArray[Any]) -> list[int]:
        """Return the 1-based line numbers of rows in their files."""
        return [int(line) for line in self.lines[np.asarray(rows, np.int64)]]

    def locate(self, rows: Sequence[int] | NDArray[Any], most: int = 10) -> str:
        """Return the files and lines of rows, for messages: `train.en lines 3, 17 and 40`, at most `most` of them."""
        return locate(rows, self.files, self.lines, self.names, most)


@dataclass(frozen=True)
class PreparedData:
    """A prepared folder of parallel text, opened for training."""

    directory: Path
    train: ParallelStore
    dev: ParallelStore  # empty where there are neither development files nor pairs to split off
    dev_source: list[str]  # text of the pairs in `dev`
    dev_target: list[str]
    subwords: Subwords
    report: list[str]  # sentences on what was read, removed, split off and learned
    checksum: str  # 12 hexadecimal digits of the input files' contents
    seconds: float  # duration of the preparation
    reused: bool  # whether an existing folder was opened

    def identity(self) -> dict[str, str]:
        """Return the checksums of the text and of the subword model."""
        return {"data": self.checksum, "subwords": self.subwords.digest()}

    def save(self, run: Path) -> None:
        """Write the subword model(s) into a run directory; raises `TrainingError`."""
        self.subwords.save(run)

    @classmethod
    def open(cls, directory: str | Path, *, seconds: float = 0.0, reused: bool = True) -> PreparedData:
        """Open a prepared folder without checking the files that it was prepared from.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        directory = Path(directory)
        manifest = read_manifest(directory, "subwords", "names.train", "names.dev")
        subwords = Subwords.load(directory)
        if subwords.digest() != manifest["subwords"]:
            raise CheckpointError(
                f"{directory}: the subword model isn't the one that the text was encoded with"
            )
        dev_texts = [Ragged(directory / f"dev.{side}.text", np.uint8) for side in ("source", "target")]
        return cls(
            directory=directory,
            train=open_store(directory / "train", subwords, manifest["names"]["train"]),
            dev=open_store(directory / "dev", subwords, manifest["names"]["dev"]),
            dev_source=dev_texts[0].texts(range(len(dev_texts[0]))),
            dev_target=dev_texts[1].texts(range(len(dev_texts[1]))),
            subwords=subwords,
            report=manifest["report"],
            checksum=manifest["checksum"],
            seconds=seconds,
            reused=reused,
        )


def open_store(path: Path, subwords: Subwords, names: Sequence[str]) -> ParallelStore:
    """Map the store with this name; raises `CheckpointError` if it is missing or damaged."""
    source = Ragged(path.with_name(f"{path.name}.source"), encoding.id_type(subwords.source_size))
    target = Ragged(path.with_name(f"{path.name}.target"), encoding.id_type(subwords.target_size))
    return ParallelStore(source, target, *map_places(path, names), names)
