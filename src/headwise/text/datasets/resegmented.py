"""The training text of every epoch, segmented anew by BPE-dropout, made ahead while the epoch before is learned.

An epoch's text depends on the prepared folder, the seed, the epoch and the rate alone, so a run that resumes
from a checkpoint sees what it would have seen. It is kept on disk, memory-mapped, until it is two epochs old.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from headwise.data.prepared import alone
from headwise.data.ragged import Ragged
from headwise.errors import CheckpointError, TrainingError
from headwise.files import atomic_directory, remove_directory, remove_partial
from headwise.processes import child_environment, python_command
from headwise.text.datasets.parallel import SIDES, TRAIN_TEXT, ParallelStore, PreparedData
from headwise.text.tokens import encoding

_WORKERS = 2  # one process a side, where there is enough text for two
_NICENESS = 10  # of the process that works ahead: training goes first


@dataclass(frozen=True)
class Resegmentation:
    """How the training text of one epoch is segmented."""

    seed: int
    epoch: int
    dropout: float
    longest: int  # subwords, EOS included; a row that would have more is segmented without dropout

    @property
    def name(self) -> str:
        """Name of the folder that holds the result."""
        return f"{self.epoch}-{self.seed}-{self.dropout:g}-{self.longest}"


def resegment(prepared: PreparedData, how: Resegmentation) -> ParallelStore:
    """Open the training text as segmented for one epoch, making it first where need be.

    Its rows are those of `prepared.train`, one by one. What is older than the epoch before is removed.

    Raises:
        CheckpointError: the folder was prepared without dropout and doesn't have the text.
        TrainingError: the disk is full.
    """
    home = prepared.directory / "epochs"
    directory = home / how.name
    sizes = (prepared.subwords.source_size, prepared.subwords.target_size)
    with alone(home):  # till all is opened: a process left over from a killed run may be removing old epochs
        remove_partial(home / "*")
        if not directory.exists():
            with atomic_directory(directory) as folder:
                _make(prepared, how, folder)
        for old in home.glob("[0-9]*-*"):
            if int(old.name.split("-")[0]) < how.epoch - 1:
                remove_directory(old)
        tables = [
            Ragged(directory / side, encoding.id_type(size)) for side, size in zip(SIDES, sizes, strict=True)
        ]
    base = prepared.train
    return ParallelStore(tables[0], tables[1], base.lines, base.files, base.names)


def _make(prepared: PreparedData, how: Resegmentation, folder: Path) -> None:
    home = prepared.directory
    if not (home / "train.rows").exists():
        raise CheckpointError(f"{home}: expected the training text, which BPE-dropout needs, found none")
    jobs = [
        encoding.EncodingJob(
            text=str(home / f"{TRAIN_TEXT}.{side}"),
            rows=str(home / "train.rows"),
            tokens=str(home),
            side=side,
            out=str(folder / side),
            start=0,
            stop=len(prepared.train),
            dropout=how.dropout,
            seed=how.seed,
            epoch=how.epoch,
            longest=how.longest - 1,
        )
        for side in SIDES
    ]
    encoding.encode_whole(jobs, _WORKERS)


class EpochStores:
    """Gives the training text of epoch after epoch, and has the next one made meanwhile by another process."""

    def __init__(self, prepared: PreparedData, *, seed: int, dropout: float, longest: int) -> None:
        """Segment the text of `prepared` at a dropout rate; a row keeps within `longest` subwords."""
        self._prepared = prepared
        self._first = Resegmentation(seed, 0, dropout, longest)
        self._ahead: subprocess.Popen[bytes] | None = None

    def open(self, epoch: int) -> ParallelStore:
        """The text of `epoch`; waits where it is still being made. Raises as `resegment` does."""
        if self._ahead is not None:
            self._ahead.wait()  # what it didn't finish is made here
        store = resegment(self._prepared, replace(self._first, epoch=epoch))
        order = json.dumps([str(self._prepared.directory), asdict(replace(self._first, epoch=epoch + 1))])
        command = python_command("-m", "headwise.text.datasets.resegmented", order)
        self._ahead = subprocess.Popen(
            command, env=child_environment(), stderr=subprocess.DEVNULL, start_new_session=True
        )
        return store

    def close(self) -> None:
        """End the process that works ahead; what it didn't finish is made when it is needed."""
        if self._ahead is not None:
            self._ahead.kill()
            self._ahead.wait()
            home = self._prepared.directory / "epochs"
            with alone(home):
                remove_partial(home / "*")


def _main() -> None:
    """Make what the command line orders, in the background; failures show when the text is asked for."""
    directory, how = json.loads(sys.argv[1])
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    with contextlib.suppress(TrainingError, CheckpointError, KeyboardInterrupt):
        resegment(PreparedData.open(directory), Resegmentation(**how))


if __name__ == "__main__":
    _main()
