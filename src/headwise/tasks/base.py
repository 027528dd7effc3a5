"""What a task registers: everything that a training run and the command line need to know of it.

A new task is one file in this package with a subclass of `TaskKind`, and one line in `headwise.tasks.registry`
(docs/tasks.md shows one from start to end). Its options are a `TaskSection` in `headwise.config.tasks`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import nn

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.training.task import Task


class Prepared(Protocol):
    """Data made ready in a folder of the run."""

    @property
    def directory(self) -> Path:
        """The folder."""
        ...

    @property
    def report(self) -> list[str]:
        """What was read, removed, split off and learned; one sentence each."""
        ...

    @property
    def reused(self) -> bool:
        """Whether it was found ready."""
        ...

    def identity(self) -> dict[str, str]:
        """Checksums of what was prepared, by name; `data` is that of the input files. Kept in every checkpoint."""
        ...

    def save(self, run: Path) -> None:
        """Write what using the trained model needs of it (subwords, labels) into the run."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """Scores of a trained run: for a program (JSON values) and for a reader (lines)."""

    record: dict[str, Any]
    lines: list[str]
    notes: list[str] = field(default_factory=list)  # what a reader should know, on standard error
    outputs: list[str] = field(default_factory=list)  # what the model said, a line each, for `evaluate -o`


@dataclass(frozen=True)
class EvaluationRequest:
    """What `headwise evaluate RUN FILES…` asks; without files a task takes the run's development data."""

    run: Path
    config: Config
    files: Sequence[Path]
    device: str = "auto"
    precision: str = "float32"


@dataclass(frozen=True)
class Prediction:
    """What a model says about one line: for a reader, and for a program (JSON values)."""

    text: str
    record: dict[str, Any]


Predictor = Callable[[Sequence[tuple[str, str]]], list[Prediction]]  # lines, each with its place for messages


class TaskKind(ABC):
    """One kind of thing to learn, from a configuration to a trained and evaluated run.

    `unused` names configuration keys (dotted) that mean nothing to it: setting them is an error. `may_change` names
    those of its keys that may change when a run resumes, as they decide where things lie and what is reported, not
    what is computed. `scores` names what `validate` measures besides `loss`, higher is better: values of
    `training.best_by`. `shares_batches` says whether the loss of a batch is the sum of its examples' losses, so that
    processes can share it. `after` is shown when training has ended; `{run}` stands for the run.
    """

    name: ClassVar[str]
    unused: ClassVar[tuple[str, ...]] = ()
    may_change: ClassVar[tuple[str, ...]] = ()
    scores: ClassVar[tuple[str, ...]] = ()
    shares_batches: ClassVar[bool] = True
    after: ClassVar[str] = "try `headwise evaluate {run}`"

    def check(self, config: Config) -> None:
        """Raise `ConfigError` for keys that mean nothing to the task, or for values that don't fit each other."""
        for key in self.unused:
            found = _value(config, key)
            if found != _value(Config(), key):
                raise ConfigError(
                    f"{key}: expected nothing here, as task {self.name} has no use for it, found {found!r}"
                )
        known = ("loss", *self.scores)
        if config.training.best_by not in known:
            raise ConfigError(
                f"training.best_by: expected {' or '.join(known)} for task {self.name}, "
                f"found {config.training.best_by!r}"
            )

    @abstractmethod
    def prepare(
        self, config: Config, directory: Path, *, expected: str | None, say: Callable[[str], None]
    ) -> Prepared:
        """Make the data ready in `directory`, or find it ready there.

        `expected` is the `data` checksum of a run that resumes: with any other data, raise `CheckpointError`.
        """

    @abstractmethod
    def build(self, config: Config, prepared: Any) -> nn.Module:
        """Build the untrained model, on the CPU; its `compute_dtype`, if it has one, is set afterwards."""

    @abstractmethod
    def task(self, config: Config, prepared: Any, model: Any) -> Task:
        """Return what the loop trains: the model is on its device."""

    @abstractmethod
    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Score a trained run for `headwise evaluate`."""

    def predictor(self, run: Path, config: Config, *, device: str, precision: str) -> Predictor:
        """Load a trained run for `headwise predict`; raises `ConfigError` for a task that has another command."""
        raise ConfigError(
            f"predict: expected a run of a task that labels or answers, found one of {self.name}"
        )


class Measured:
    """What was measured last of a model: while its parameters are the same bit by bit, it isn't measured again.

    The checkpoints that are averaged at the end of a run may be one, whose parameters were scored a moment ago.
    """

    def __init__(self, model: nn.Module) -> None:
        """Nothing has been measured."""
        self._model, self._digest = model, b""
        self._found: dict[Hashable, dict[str, float]] = {}

    def once(self, what: Hashable, measure: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Return the scores that `measure` gives, without it where `what` was measured of these parameters."""
        digest = hashlib.sha256()
        for parameter in self._model.parameters():
            values = parameter.detach().cpu().contiguous().view(-1)
            digest.update(values.view(torch.uint8).numpy().data)
        if digest.digest() != self._digest:
            self._digest, self._found = digest.digest(), {}
        if what not in self._found:
            self._found[what] = measure()
        return dict(self._found[what])


def set_precision(model: nn.Module, precision: torch.dtype) -> None:
    """Set the dtype of the activations of a model that lets it be chosen."""
    if hasattr(model, "compute_dtype"):
        model.compute_dtype = precision  # type: ignore[assignment]


def _value(config: Config, key: str) -> Any:
    node: Any = config
    for part in key.split("."):
        node = getattr(node, part)
    return node
