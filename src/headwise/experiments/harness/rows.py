"""A row of a table: a named, reproducible training run or measurement, recorded when it is finished.

A `TrainingRow` is one `headwise train` command and the scoring of its run. A `MeasuredRow` is a function of its
settings. Each row has an identity, so that a finished row isn't run again, but a row whose settings have changed is.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.config import Config
from headwise.errors import TrainingError
from headwise.files import hold
from headwise.parsing import parse_json
from headwise.processes import child_environment, python_command

if TYPE_CHECKING:
    from headwise.experiments.scales import Scale

MEASURED = "measured"  # instead of a scale's name
_DIVERGED = re.compile(r"step \d+: (the loss is (nan|-?inf)|a parameter is not finite)")
INTERRUPTED = (130, -2)  # exit codes of a command that was stopped
# Keys of `training` that don't change what is computed: hardware and logging.
_ELSEWHERE = ("device", "processes", "products", "threads", "precision", "log_every", "tensorboard")


@dataclass(frozen=True)
class Machine:
    """Settings of this machine: keys of `training` that depend on it, and the number of training processes."""

    device: str | None = None
    threads: int | None = None
    processes: int = 1

    def changes(self) -> list[str]:
        """Return overrides of the configuration."""
        settings = {"device": self.device, "threads": self.threads}
        return [f"training.{key}={value}" for key, value in settings.items() if value is not None]


@dataclass(frozen=True)
class Place:
    """The scale that rows run at, and the folders of their runs and records."""

    scale: Scale
    runs: Path
    results: Path
    machine: Machine = Machine()

    def run(self, row: str, seed: int) -> Path:
        """Return the run directory of a row."""
        return self.runs / self.scale.name / f"{row}.seed{seed}"

    def lock(self, row: str, seed: int) -> Path:
        """Return the directory that is held while a row is run or trained."""
        return self.runs / self.scale.name / f".{row}.seed{seed}"


class ExperimentRow(ABC):
    """One row of a table; `name` is unique within its scale, `MEASURED` if the result doesn't depend on the scale."""

    name: str
    label: str
    scale: str

    @abstractmethod
    def identity(self, seed: int) -> str:
        """Return a digest of everything that the result depends on."""

    @abstractmethod
    def command(self, seed: int, place: Place) -> list[str]:
        """Return the command that runs this row alone."""

    @abstractmethod
    def run(self, seed: int, place: Place) -> dict[str, Any]:
        """Run the row; returns the result. Raises a `HeadwiseError` if it can't be run."""


def replaced(changes: Sequence[str], by: Sequence[str]) -> tuple[str, ...]:
    """Return the overrides `changes` followed by `by`, without those whose key `by` overrides."""
    replaced_keys = {change.partition("=")[0] for change in by}
    return (*(change for change in changes if change.partition("=")[0] not in replaced_keys), *by)


@dataclass(frozen=True)
class TrainingRow(ExperimentRow):
    """A training run: a configuration file and overrides.

    If `scored`, the run is scored at the end, on the scale's test set or on its other test set named `test`. `text` is
    the checksum of the text, part of the identity of rows that state it.
    """

    name: str
    label: str
    scale: str
    config: str
    changes: tuple[str, ...] = ()
    scored: bool = True
    test: str = ""
    text: str = ""

    def configuration(self, seed: int = 1) -> Config:
        """Load the configuration with the overrides, as the command does."""
        return configured(self.config, (*self.changes, f"training.seed={seed}"))

    def identity(self, seed: int) -> str:  # noqa: D102
        return _identity(self, seed)

    def command(self, seed: int, place: Place) -> list[str]:  # noqa: D102
        processes = place.machine.processes
        changes = [*self.changes, *place.machine.changes(), f"training.seed={seed}"]
        program = ["headwise"]
        if processes > 1:
            program = ["torchrun", "--standalone", "--nproc-per-node", str(processes), "-m", "headwise"]
        return [*program, "train", "-c", self.config, *changes, "-o", str(place.run(self.name, seed))]

    def run(self, seed: int, place: Place) -> dict[str, Any]:  # noqa: D102
        from headwise.experiments.harness.scoring import curve, score_run
        from headwise.weights import read_recipe

        trained = self._train(self.command(seed, place))
        if "diverged" in trained:
            return trained
        run = place.run(self.name, seed)
        threads = place.machine.threads or self.configuration(seed).training.threads
        device = place.machine.device or "auto"
        result = {key: trained[key] for key in ("parameters", "steps", "target_tokens", "seconds", "ended", "dev")}
        result["curve"] = curve(run, trained["target_tokens"])
        if not self.scored:
            return result | {"checksums": read_recipe(run / "model.safetensors")}
        return result | score_run(run, place.scale.test_set(self.test), threads=threads, device=device)

    def train(self, seed: int, place: Place) -> None:
        """Train the run, if it isn't trained; raises `TrainingError` if it diverges, `LockedError` if others do."""
        if not (place.run(self.name, seed) / "model.safetensors").exists():
            with hold(place.lock(self.name, seed)):
                result = self._train(self.command(seed, place))
            if "diverged" in result:
                raise TrainingError(f"row {self.name}: expected a trained run, found that {result['diverged']}")

    def _train(self, command: list[str]) -> dict[str, Any]:
        """Train in a child process, forwarding its standard error; returns its last line of output, parsed as JSON.

        Diverged training is a result, too: `{"diverged": message}`.
        """
        module, *arguments = command
        program = python_command("-m", "torch.distributed.run" if module == "torchrun" else module, *arguments)
        last_line = diverged = ""
        with subprocess.Popen(
            [*program, "--json"],
            env=child_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stderr:
                sys.stderr.write(line)
                last_line = line.strip() or last_line
                diverged = last_line if _DIVERGED.search(line) else diverged  # torchrun says more behind it
            output = process.stdout.read()
        if process.returncode in INTERRUPTED:
            raise KeyboardInterrupt
        if process.returncode and diverged:
            return {"diverged": diverged.removeprefix("headwise: error: ")}
        if process.returncode:
            raise TrainingError(
                f"row {self.name}: expected training to end well, found exit code {process.returncode} from "
                f"`{shlex.join(command)}` ({last_line})"
            )
        return parse_json(output.strip().split("\n")[-1], f"row {self.name}", finite=False)


@cache
def configured(file: str, changes: tuple[str, ...]) -> Config:
    """Return a configuration file with overrides: once for all that ask, as rows do so often. It mustn't be changed."""
    return Config.load(file, changes)


@cache
def _identity(row: TrainingRow, seed: int) -> str:
    """Return the digest of a row's configuration; defaults are excluded, so that a new key doesn't change old rows'."""
    tree = row.configuration(seed).model_dump(mode="json", exclude_defaults=True)
    for key in _ELSEWHERE:
        tree.get("training", {}).pop(key, None)
    data = tree.get("data", {})
    for key in ("source", "target"):
        data[key] = [Path(name).name for name in data.get(key, [])]
    for key in ("dev_source", "dev_target"):
        data[key] = Path(data[key]).name if data.get(key) else None
    return _digest({**tree, "text": row.text} if row.text else tree)


@dataclass(frozen=True)
class MeasuredRow(ExperimentRow):
    """A measurement: `measure(seed=…, **settings)` returns the result.

    If it depends on the scale, `scale` is the scale's name and `measure` also gets `place`. `trained` are the rows
    whose runs it measures: their identities are part of its own, and those that aren't trained here are, first.
    """

    name: str
    label: str
    measure: Callable[..., dict[str, Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    experiment: str = ""
    scale: str = MEASURED
    trained: tuple[TrainingRow, ...] = ()

    def identity(self, seed: int) -> str:  # noqa: D102
        runs = {"runs": [row.identity(seed) for row in self.trained]} if self.trained else {}
        return _digest({"row": self.name, "seed": seed, **self.settings, **runs})

    def command(self, seed: int, place: Place) -> list[str]:  # noqa: D102
        scale = [] if self.scale == MEASURED else ["--scale", self.scale]
        selection = ["--rows", self.name, "--seeds", str(seed)]
        return ["headwise", "reproduce", self.experiment, *scale, *selection]

    def run(self, seed: int, place: Place) -> dict[str, Any]:  # noqa: D102
        if self.scale == MEASURED:
            return self.measure(seed=seed, **self.settings)
        for row in self.trained:
            row.train(seed, place)
        return self.measure(seed=seed, place=place, **self.settings)


def _digest(values: Any) -> str:
    """Return a digest of JSON values, 12 hexadecimal digits."""
    canonical = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]
