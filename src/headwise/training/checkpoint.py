"""Checkpoints: the complete state of a training run, so that it resumes as if it had never stopped.

The run directory has one folder per checkpoint, such as `checkpoints/step-00000800/`:

    model.safetensors       parameters, float32; shared parameters are stored once
    optimizer.safetensors   the optimizer's moments, and Adam's step counts, by parameter name
    random.safetensors      random generator states of every rank: torch's CPU and CUDA, NumPy's, Python's
    state.json              step, token counts, best score, data position, start, checksums of all files

Two one-line files, `latest` and `best`, each name one checkpoint. A checkpoint is written to a temporary folder,
flushed and renamed, so a kill at any moment leaves either the old checkpoint or the new one. Nothing is unpickled.

Every training that doesn't resume draws a random identifier, the start. Its checkpoints record the start, and a resumed
training keeps it. Checkpoints of different starts are never averaged.

Only the checkpoints at multiples of `training.checkpoint_every` and the newest one are averaged. The others, saved
by an interruption or for a best score, serve only to resume and to select the best model. So an interruption doesn't
change the average.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headwise.checkpoints import (
    DAMAGED,
    FORMAT,
    MODEL,
    OPTIMIZER,
    RANDOM,
    STATE,
    SavedCheckpoints,
    find_damage,
    read_state,
    state_sha256,
)
from headwise.config import OptimizerConfig
from headwise.errors import CheckpointError
from headwise.files import (
    atomic_directory,
    file_sha256,
    partial_path,
    remove_directory,
    remove_partial,
    write_text,
)
from headwise.training.optimizer import state_keys
from headwise.training.progress import Progress, check_parameters, read_progress, sort_moments
from headwise.training.randomness import restore_random

Tensors: TypeAlias = dict[str, dict[str, Tensor]]  # of a checkpoint, by file and name
Moments: TypeAlias = dict[str, dict[str, Tensor]]  # the optimizer's state by parameter and key


def parameter_files(model: nn.Module, optimizer_state: Mapping[str, Tensor]) -> Tensors:
    """Return the parameters and moments of a checkpoint by file, as they are now: training changes them.

    `optimizer_state` has keys such as `PARAMETER.exp_avg`.
    """
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return {MODEL: parameters, OPTIMIZER: dict(optimizer_state)}


def random_file(randoms: Sequence[dict[str, Tensor]]) -> Tensors:
    """Return the file of the random generator states of every rank."""
    return {RANDOM: {f"rank{r}.{k}": v for r, state in enumerate(randoms) for k, v in state.items()}}


def checkpointed(
    model: nn.Module,
    optimizer_state: Mapping[str, Tensor],
    randoms: Sequence[dict[str, Tensor]],
    *,
    copy: bool = False,
) -> Tensors:
    """Return the tensors of a checkpoint by file, on the CPU.

    `optimizer_state` has keys such as `PARAMETER.exp_avg`, and `randoms` the random generator states of every rank.
    With `copy`, no tensor is shared with the model or the optimizer, which may then be trained on.
    """
    files = parameter_files(model, optimizer_state) | random_file(randoms)
    tensors = {file: {k: v.cpu().contiguous() for k, v in part.items()} for file, part in files.items()}
    if copy:
        tensors = {file: {k: v.clone() for k, v in part.items()} for file, part in tensors.items()}
    return tensors


class Checkpoints(SavedCheckpoints):
    """The checkpoints of one run directory; new ones record `start`, the identifier of the training."""

    def __init__(self, run: Path) -> None:
        super().__init__(run)
        self.start = ""

    def begin(self) -> None:
        """Draw a new start, which checkpoints record from now on, until `load` resumes another one."""
        self.start = secrets.token_hex(8)

    def parts(self, step: int) -> Path:
        """Folder in which ranks write their parts of this step's checkpoint; `prune` removes it."""
        return partial_path(self.path(step), "parts")

    def save(
        self,
        tensors: Tensors,
        progress: Progress,
        identity: dict[str, str],
        write_more: Callable[[Path], None] | None = None,
    ) -> Path:
        """Write the checkpoint of `progress.step` and make `latest` name it; `tensors` are those of `checkpointed`.

        `write_more` writes those that aren't in `tensors` to a folder. Raises `TrainingError` if the disk is full or
        the folder can't be written.
        """
        path = self.path(progress.step)
        with atomic_directory(path) as folder:
            if write_more is not None:
                write_more(folder)
            for name, content in tensors.items():
                _write_tensors(content, folder / name)
            record = {
                "format": FORMAT,
                "progress": asdict(progress),
                "identity": identity,
                "start": self.start,
                "sha256": {p.name: file_sha256(p) for p in sorted(folder.iterdir())},
            }
            record["sha256"][STATE] = state_sha256(record)
            (folder / STATE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        write_text(self.run / "latest", path.name + "\n")
        return path

    def mark_best(self, step: int) -> None:
        """Make `best` name the checkpoint of this step."""
        write_text(self.run / "best", self.path(step).name + "\n")

    def prune(self, last: int, every: int, keep: str = "last") -> None:
        """Remove all checkpoints except those to average, the best one and the latest one.

        With `keep` doubling, those of steps every, 2·every, 4·every, 8·every … of the current start stay, too; with
        all, all of it.
        """
        steps = [
            step
            for step in self.steps_of_current_start()
            if keep == "all" or (keep == "doubling" and step % every == 0 and (step // every).bit_count() == 1)
        ]
        kept = {self.path(step) for step in (*steps, *self.to_average(last, every))}
        kept |= {self.latest(), self.best()}
        self.remove_partial()
        for step in self.steps():
            if self.path(step) not in kept:
                remove_directory(self.path(step))

    def forget(self) -> None:
        """Remove `latest` and `best`, so that no training resumes from these checkpoints."""
        for name in ("latest", "best"):
            (self.run / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all checkpoints, `latest` and `best` first, so that nothing resumes after a kill in between."""
        self.forget()
        self.remove_partial()
        for step in self.steps():
            remove_directory(self.path(step))

    def remove_partial(self) -> None:
        """Remove what a kill left of unfinished checkpoints."""
        remove_partial(self.path(0).with_name("step-*"))

    def rewind(self, progress: Progress) -> None:
        """Remove the checkpoints newer than the one resumed from, and restore its `best`.

        They exist if the run was killed after a checkpoint was renamed and before `latest` or `best` was updated.
        """
        for step in self.steps():
            if step > progress.step:
                remove_directory(self.path(step))
        if progress.best is not None and self.path(progress.best_step).is_dir():
            self.mark_best(progress.best_step)
        else:
            (self.run / "best").unlink(missing_ok=True)

    def load(
        self,
        path: Path,
        model: nn.Module,
        identity: dict[str, str],
        rank: int = 0,
        optimizer: OptimizerConfig | None = None,
    ) -> tuple[Progress, Moments]:
        """Restore parameters, this rank's random generators and the start from a checkpoint.

        Returns the progress, and the state of each parameter in this `optimizer`, Adam if None. The checkpoint may have
        been saved by another number of ranks; the generators of a new rank are left as they are. Raises
        `CheckpointError` if a file is missing or damaged, or if the checkpoint was made from other data (`identity`).
        """
        record = read_state(path)
        if damaged := find_damage(path, record):
            others = [p.name for step in self.steps_of_current_start() if (p := self.path(step)) != path]
            way_out = f"write {others[-1]} into {self.run / 'latest'} to go on from there, or " if others else ""
            raise CheckpointError(f"{damaged}: {DAMAGED}; {way_out}use --restart to begin anew")
        for key, value in identity.items():
            recorded = record["identity"].get(key)
            if recorded != value:
                raise CheckpointError(
                    f"{path}: expected a checkpoint with {key} {value}, found one with {recorded}; "
                    "use another run directory, or --restart to begin anew"
                )
        progress = read_progress(path / STATE, record["progress"])
        if self.path(progress.step) != path:
            raise CheckpointError(f"{path / STATE}: expected the step of the folder's name, found {progress.step}")
        if not progress.positions:
            raise CheckpointError(f"{path / STATE}: expected a position in the data for each process, found none")
        parameters = read_tensors(path / MODEL)
        moments = read_tensors(path / OPTIMIZER)
        randoms = read_tensors(path / RANDOM)
        check_parameters(path, dict(model.named_parameters()), parameters)
        states = sort_moments(path / OPTIMIZER, model, state_keys(model, optimizer or OptimizerConfig()), moments)
        prefix = f"rank{rank}."
        own = {name.removeprefix(prefix): v for name, v in randoms.items() if name.startswith(prefix)}
        try:
            if rank < len(progress.positions):
                restore_random(own)
        except ValueError as error:
            raise CheckpointError(f"{path / RANDOM}: rank {rank}: {error}") from None
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(parameters[name])
        self.start = record.get("start", "")
        return progress, states


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read a safetensors file; raises `CheckpointError` if it is missing or damaged."""
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{file}: expected a safetensors file, found none that can be read ({error})") from None


def _write_tensors(tensors: dict[str, Tensor], file: Path) -> None:
    """Write a safetensors file; raises `OSError` for every failure, also for those that safetensors reports."""
    try:
        save_file(tensors, file)
    except SafetensorError as error:  # the system's error number is only in its message
        code = re.search(r"os error (\d+)", str(error))
        number = int(code[1]) if code else errno.EIO
        raise OSError(number, os.strerror(number), str(file)) from error
