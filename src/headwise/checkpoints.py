"""A run's checkpoints as they lie on disk: which there are, whether they are whole, and the average of several.

`headwise.training.checkpoint` writes them and resumes from them; reading and averaging need no PyTorch.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwise.errors import CheckpointError
from headwise.files import file_sha256, write_bytes
from headwise.parsing import MOST_JSON_BYTES, Malformed, json_value, read_bounded
from headwise.weights import mean, saved

FORMAT = 1
STATE = "state.json"
MODEL, OPTIMIZER, RANDOM = TENSORS = ("model.safetensors", "optimizer.safetensors", "random.safetensors")
_PARTS = ("progress", "identity", "sha256")  # entries of state.json that are JSON objects
DAMAGED = "expected the file that this checkpoint was saved with, found a damaged or missing one"
Array: TypeAlias = NDArray[np.float32]


class SavedCheckpoints:
    """The checkpoints of one run directory."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.folder = run / "checkpoints"

    def steps(self) -> list[int]:
        """Steps of all complete checkpoints, oldest first."""
        names = (re.fullmatch(r"step-(\d{8,})", p.name) for p in self.folder.glob("step-*") if p.is_dir())
        return sorted(int(name[1]) for name in names if name)

    def to_average(self, last: int, every: int) -> list[int]:
        """Steps of the checkpoints to average: the `last` ones among the multiples of `every` and the newest.

        Checkpoints of an earlier start, which an interrupted `--restart` may leave behind, are excluded.
        """
        steps = self.steps_of_current_start()
        return [step for step in steps if step % every == 0 or step == steps[-1]][-last:]

    def steps_of_current_start(self) -> list[int]:
        """Steps of the checkpoints with the same start as `latest`, or else as the newest checkpoint.

        A checkpoint whose state can't be read is included, so that the code that uses it reports the error.
        """
        steps = self.steps()
        named = self._named("latest") or (self.path(steps[-1]) if steps else None)
        starts = {step: _start_of(self.path(step)) for step in steps}
        current = _start_of(named) if named else None
        return [step for step in steps if None in (current, starts[step]) or starts[step] == current]

    def path(self, step: int) -> Path:
        """Folder of the checkpoint of this step."""
        return self.folder / f"step-{step:08d}"

    def latest(self) -> Path | None:
        """Checkpoint to resume from, or None for a new run; raises `CheckpointError` if the named one is missing."""
        return self._named("latest")

    def best(self) -> Path | None:
        """Checkpoint with the best validation score, or None before the first validation."""
        return self._named("best")

    def _named(self, name: str) -> Path | None:
        try:
            folder = (self.run / name).read_text(encoding="utf-8", errors="replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        path = self.folder / folder
        if not folder or not path.is_dir():
            raise CheckpointError(f"{self.run / name}: names checkpoint {folder!r}, found no such folder")
        return path

    def write_average(self, steps: Sequence[int], file: Path, configuration: str) -> dict[str, Array]:
        """Average the checkpoints of these steps and write the result as a model file.

        The file's metadata has the digest of the configuration, the steps and the identity of the data. Returns the
        parameters. Raises the errors of `average`, and `TrainingError` if the file can't be written.
        """
        folders = [self.path(step) for step in steps]
        averaged = average(folders)
        recipe = {"configuration": configuration, "steps": list(steps), **read_state(folders[-1])["identity"]}
        # One metadata entry: safetensors writes several in no fixed order, so that the file would not be reproducible.
        write_bytes(file, saved(averaged, {"headwise": json.dumps(recipe, sort_keys=True)}))
        return averaged


def read_state(path: Path) -> dict[str, Any]:
    """Read a checkpoint's state.json; raises `CheckpointError` if it is missing, damaged or not Headwise's."""
    file = path / STATE
    if not file.exists():
        raise CheckpointError(f"{file}: there is no such file, so {path} is not a Headwise checkpoint")
    try:
        record = json_value(read_bounded(file, MOST_JSON_BYTES, CheckpointError, "JSON"), finite=False)
    except Malformed as problem:
        raise CheckpointError(
            f"{file}: expected JSON, found a damaged file (line {problem.line}: {problem.reason})"
        ) from None
    if not isinstance(record, dict) or not all(isinstance(record.get(key), dict) for key in _PARTS):
        raise CheckpointError(f"{file}: expected the state of a Headwise checkpoint, found something else")
    if record.get("format") != FORMAT:
        raise CheckpointError(
            f"{file}: expected a Headwise checkpoint of format {FORMAT}, found {record.get('format')!r}"
        )
    texts = (*record["identity"].values(), *record["sha256"].values(), record.get("start", ""))
    if not all(isinstance(text, str) for text in texts):
        raise CheckpointError(f"{file}: expected texts as checksums and identifiers, found something else")
    return record


def find_damage(path: Path, record: dict[str, Any], only: Sequence[str] = ()) -> Path | None:
    """Compare a checkpoint's files, or those in `only`, with its checksums; return the first one that differs."""
    checksums = record["sha256"]
    if checksums.get(STATE) != state_sha256(record):
        return path / STATE
    for name in only or TENSORS:
        if not (path / name).is_file() or file_sha256(path / name) != checksums.get(name):
            return path / name
    return None


def average(folders: Sequence[Path]) -> dict[str, Array]:
    """Average the parameters of several checkpoints (the paper's section 6.1), in float64.

    Raises `CheckpointError` if `folders` is empty, if a checkpoint is damaged, if they come from different data,
    subwords or starts of a run, or if their parameters differ in name or shape.
    """
    if not folders:
        raise CheckpointError("averaging needs at least one checkpoint, found none")
    first: dict[str, str] | None = None
    for folder in folders:
        record = read_state(folder)
        if damaged := find_damage(folder, record, only=[MODEL]):
            raise CheckpointError(f"{damaged}: {DAMAGED}")
        origin = {**record["identity"], "start": record.get("start", "")}
        first = first or origin
        for key in sorted(first.keys() | origin.keys()):
            if first.get(key) != origin.get(key):
                raise CheckpointError(
                    f"{folder}: expected a checkpoint with {key} {first.get(key)}, as {folders[0]} has, "
                    f"found one with {origin.get(key)}"
                )
    return mean([folder / MODEL for folder in folders])


def _start_of(path: Path) -> str | None:
    """Return the start that a checkpoint records, empty if it records none, None if its state is damaged."""
    try:
        return read_state(path).get("start", "")
    except CheckpointError:
        return None


def state_sha256(record: dict[str, Any]) -> str:
    """Return the checksum of a state without the checksum's own entry."""
    checksums = {name: value for name, value in record["sha256"].items() if name != STATE}
    return hashlib.sha256(json.dumps({**record, "sha256": checksums}, sort_keys=True).encode()).hexdigest()
