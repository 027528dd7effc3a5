"""The training text of every epoch anew, by BPE-dropout and augmentation, one epoch ahead where that takes long.

The text of an epoch depends on the prepared folder, the seed, the epoch, the dropout rate and the shares of
augmentation alone, so a run that resumes from a checkpoint sees the same text. It is stored on disk, memory-mapped,
until it is two epochs old.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from headwise.data.prepared import alone
from headwise.data.ragged import Ragged
from headwise.errors import CheckpointError, HeadwiseError
from headwise.files import atomic_directory, remove_directory, remove_partial
from headwise.processes import Children
from headwise.text.preparation.parallel import PreparedData
from headwise.text.preparation.stores import SIDES, TRAIN_TEXT, ParallelStore
from headwise.text.tokens import encoding

_AHEAD_FROM = 5_000  # rows; fewer are segmented faster than a background process starts
_NICENESS = 10  # of the background process, as training has priority


@dataclass(frozen=True)
class Resegmentation:
    """Parameters of the text of one epoch."""

    seed: int
    epoch: int
    dropout: float
    longest: int  # in subwords, EOS included; longer rows are segmented without dropout, and not augmented
    augment: dict[str, float] | None = None  # shares of `AugmentConfig`; None: no augmentation

    @property
    def name(self) -> str:
        """Return the name of the folder that stores the text."""
        shares = json.dumps(self.augment, sort_keys=True).encode()
        augmented = f"-{hashlib.sha256(shares).hexdigest()[:12]}" if self.augment else ""
        return f"{self.epoch}-{self.seed}-{self.dropout:g}-{self.longest}{augmented}"


def resegment(prepared: PreparedData[ParallelStore], parameters: Resegmentation, workers: int = 0) -> ParallelStore:
    """Open the segmentation of one epoch, and create it first where it is missing.

    Its rows correspond to those of `prepared.train`. Segmentations older than the previous epoch are removed. A large
    text is segmented in `workers` processes (0: one per core).

    Raises:
        CheckpointError: the folder was prepared without dropout and lacks the text.
        TrainingError: the disk is full.
    """
    epochs_directory = prepared.directory / "epochs"
    directory = epochs_directory / parameters.name
    sizes = (prepared.subwords.source_size, prepared.subwords.target_size)
    # Locked until all is open, as a process left over from a killed run may be removing old epochs.
    with alone(epochs_directory):
        remove_partial(epochs_directory / "*")
        if not directory.exists():
            with atomic_directory(directory) as folder:
                _create(prepared, parameters, folder, workers)
        for old_directory in epochs_directory.glob("[0-9]*-*"):
            if int(old_directory.name.split("-")[0]) < parameters.epoch - 1:
                remove_directory(old_directory)
        tables = [Ragged(directory / side, encoding.id_type(size)) for side, size in zip(SIDES, sizes, strict=True)]
    base = prepared.train
    return ParallelStore(tables[0], tables[1], base.lines, base.files, base.names)


def _create(prepared: PreparedData[ParallelStore], parameters: Resegmentation, folder: Path, workers: int) -> None:
    home = prepared.directory
    if not (home / "train.rows").exists():
        raise CheckpointError(
            f"{home}: expected the training text, which BPE-dropout and data.augment need, found none"
        )
    jobs = [
        encoding.EncodingJob(
            text=str(home / f"{TRAIN_TEXT}.{side}"),
            rows=str(home / "train.rows"),
            tokens=str(home),
            side=side,
            out=str(folder / side),
            start=0,
            stop=len(prepared.train),
            dropout=parameters.dropout,
            augment=parameters.augment,
            other=str(home / f"{TRAIN_TEXT}.{other}"),
            seed=parameters.seed,
            epoch=parameters.epoch,
            longest=parameters.longest - 1,
        )
        for side, other in zip(SIDES, reversed(SIDES), strict=True)
    ]
    encoding.encode_whole(jobs, workers)


class EpochStores:
    """Source of the training text of each epoch; a background process creates the next one of a large text."""

    def __init__(self, prepared: PreparedData[ParallelStore], first: Resegmentation, workers: int = 0) -> None:
        """Make the text of `prepared` anew for each epoch; `first` has the parameters, of any epoch.

        `workers` are the processes that segment a large text (0: one per core).
        """
        self._prepared, self._first, self._workers = prepared, first, workers
        self._background: Children | None = None
        self._ahead: Future[None] | None = None

    def open(self, epoch: int) -> ParallelStore:
        """Return the text of `epoch`, waiting for the background process; raises as `resegment` does."""
        if self._ahead is not None:
            with contextlib.suppress(HeadwiseError):  # what isn't there is created below, which raises again
                self._ahead.result()
        store = resegment(self._prepared, replace(self._first, epoch=epoch), self._workers)
        if len(store) >= _AHEAD_FROM:
            self._background = self._background or Children(f"{__name__}:create_all", 1)
            self._ahead = self._background.submit(
                {
                    "directory": str(self._prepared.directory),
                    "workers": self._workers,
                    "parameters": asdict(replace(self._first, epoch=epoch + 1)),
                }
            )
        return store

    def close(self) -> None:
        """End the background process; an unfinished segmentation is created when it is needed."""
        if self._background is not None:
            self._background.close()
            epochs_directory = self._prepared.directory / "epochs"
            with alone(epochs_directory):
                remove_partial(epochs_directory / "*")


def create_all(wanted: Iterable[dict[str, Any]]) -> Iterator[None]:
    """Create segmentations, in a child process (`headwise.processes.Child`) of low priority."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    for job in wanted:
        prepared = PreparedData.open(job["directory"])
        resegment(prepared, Resegmentation(**job["parameters"]), job["workers"])
        yield None
