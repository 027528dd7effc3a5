"""A restarted run contains nothing of the earlier run, no matter when an earlier `--restart` was killed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwise.checkpoints import read_state, state_sha256
from headwise.config import Config
from headwise.tasks.run import train
from headwise.training.checkpoint import Checkpoints
from headwise.weights import read_recipe
from program import Call, result, saved_step
from toy import Toy

SHORT = (
    *("training.validate_bleu=false", "training.validate_every=100", "subwords.dropout=0"),
    *("training.checkpoint_every=1", "training.average_last=3", "batch.accumulate=1"),
)
BEFORE = (
    *SHORT,
    "training.max_steps=4",
)  # its checkpoints have higher numbers than those of the restarted run
ANEW = (*SHORT, "training.max_steps=1", "model.dropout=0.3")
_CHANGES = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.chmod"}


class Killed(BaseException):
    """Raised where the process would be killed."""


class Kill:
    """Audit hook that counts the operations that change files in a folder, and stops all from a given one on."""

    def __init__(self) -> None:
        self.folder, self.done, self.last = "", 0, 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by Python before each operation."""
        if not self.folder or event not in _CHANGES or not self._inside(event, arguments):
            return
        if self.done == self.last:
            raise Killed
        self.done += 1

    def _inside(self, event: str, arguments: tuple[Any, ...]) -> bool:
        path = arguments[0]
        if isinstance(path, int):  # an open file
            return False
        if event == "open":
            flags = arguments[2] if isinstance(arguments[2], int) else 0
            if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or Path(os.fsdecode(path)).name == ".lock":
                return False
        relative = event in ("os.remove", "os.rmdir") and arguments[1] not in (-1, None)  # within rmtree
        return relative or os.fsdecode(path).startswith(self.folder)

    @contextmanager
    def after(self, operations: int, folder: Path) -> Iterator[None]:
        """Raise `Killed` at the operation after this many of them."""
        self.folder, self.done, self.last = str(folder), 0, operations
        try:
            yield
        finally:
            self.folder = ""


@pytest.fixture(scope="module")
def kill() -> Kill:
    hook = Kill()
    sys.addaudithook(hook)  # it can't be removed until the process ends
    return hook


@pytest.fixture(scope="module")
def runs(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A finished run, and the expected result of a restart: a run in a folder of its own."""
    folder = tmp_path_factory.mktemp("restart")
    for name, changes in (("before", BEFORE), ("anew", ANEW)):
        train(Config.load(toy.config, changes), folder / name, quiet=True)
    assert Checkpoints(folder / "before").steps() == [2, 3, 4]
    assert Checkpoints(folder / "anew").steps() == [1]
    return folder / "before", folder / "anew"


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_restart_killed_at_any_file_operation_leaves_nothing_to_average_or_resume(
    runs: tuple[Path, Path], toy: Toy, tmp_path: Path, kill: Kill, every: int
) -> None:
    before, anew = runs
    old, expected = snapshot_of(before), result(anew)
    config = Config.load(toy.config, ANEW)
    whole = resumed = interrupted = operations = 0
    for operations in range(0, 1000, every):
        run = Path(shutil.copytree(before, tmp_path / str(operations)))
        try:
            with kill.after(operations, run):
                train(config, run, restart=True, quiet=True)
        except Killed:
            pass
        else:
            assert result(run) == expected
            break
        if (run / "config.yaml").read_bytes() == (before / "config.yaml").read_bytes():
            if (run / "latest").exists():  # nothing was removed yet: the old run is complete
                assert snapshot_of(run) == old
                whole += 1
                continue
            interrupted += bool(Checkpoints(run).steps())
        else:
            resumed += saved_step(run) > 0
        train(config, run, quiet=True)
        assert result(run) == expected
        assert not list(run.rglob("*.partial-*"))
        shutil.rmtree(run)
    # There were kills before, during and after the removal of the old run.
    assert min(whole, interrupted, resumed) > 0
    assert operations > 40


def snapshot_of(run: Path) -> dict[str, bytes]:
    """Return the files that resuming reads."""
    files = [run / "latest", run / "best", run / "metrics.jsonl", *sorted(run.glob("checkpoints/step-*/*"))]
    return {str(file.relative_to(run)): file.read_bytes() for file in files if file.exists()}


def test_checkpoints_of_an_earlier_start_are_not_averaged(
    runs: tuple[Path, Path], toy: Toy, tmp_path: Path, program: Call
) -> None:
    """Also if they reappeared in the meantime, or couldn't be removed."""
    before, _ = runs
    run = tmp_path / "run"
    train(Config.load(toy.config, [*SHORT, "training.max_steps=1"]), run, quiet=True)
    for step in (3, 4):
        shutil.copytree(Checkpoints(before).path(step), Checkpoints(run).path(step))
    average = ("export", run, "--to", "run", "--average")
    program(*average, 1, "-o", tmp_path / "one").ok()
    assert read_recipe(tmp_path / "one" / "model.safetensors")["steps"] == [1]
    error = program(*average, 2, "-o", tmp_path / "two").error
    assert error.startswith(f"{run}: expected at least 2 checkpoints to average, found 1; average fewer, or ")


def test_the_message_names_what_an_interrupted_restart_left(
    runs: tuple[Path, Path], toy: Toy, tmp_path: Path, program: Call
) -> None:
    run = Path(shutil.copytree(runs[0], tmp_path / "run"))
    (run / "latest").unlink()
    outcome = program("train", "-c", toy.config, *ANEW, "-o", run).ok()
    assert f"{run}: found 3 checkpoints up to step 4 and no `latest` to resume from" in outcome.err
    assert result(run) == result(runs[1])


def test_every_start_has_its_own_identifier_which_resuming_keeps(toy: Toy, tmp_path: Path) -> None:
    def starts(run: Path) -> set[str]:
        checkpoints = Checkpoints(run)
        return {read_state(checkpoints.path(step))["start"] for step in checkpoints.steps()}

    run, identifiers = tmp_path / "run", []
    for steps, restart in ((1, False), (2, False), (1, True)):
        config = Config.load(toy.config, [*SHORT, f"training.max_steps={steps}"])
        train(config, run, restart=restart, quiet=True)
        identifiers.append(starts(run))
    assert all(len(each) == 1 and len(next(iter(each))) == 16 for each in identifiers)
    assert identifiers[0] == identifiers[1] != identifiers[2]


def test_runs_without_identifiers_resume_and_are_averaged(runs: tuple[Path, Path], toy: Toy, tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs[1], tmp_path / "run"))
    for step in Checkpoints(run).steps():
        file = Checkpoints(run).path(step) / "state.json"
        record = json.loads(file.read_text())
        del record["start"]
        record["sha256"]["state.json"] = state_sha256(record)
        file.write_text(json.dumps(record))
    train(Config.load(toy.config, [*ANEW, "training.max_steps=3"]), run, quiet=True)
    assert read_recipe(run / "model.safetensors")["steps"] == [1, 2, 3]
