"""Base class of task descriptions (`TaskKind`), used by training runs and by the command line.

A new task is one file in this package with a subclass of `TaskKind`, and one line in `headwise.tasks.registry`
(docs/tasks.md has a complete example). Its options are a `TaskSection` in `headwise.config.tasks`.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from torch import nn

from headwise.config import Config
from headwise.config.keys import Tasks, unused_keys
from headwise.config.model import WITHOUT_LAYERS
from headwise.config.training import FsdpConfig
from headwise.errors import ConfigError
from headwise.nn.attention import all_registered
from headwise.nn.positions import position_encodings
from headwise.training.task import Task


class Prepared(Protocol):
    """Prepared data of a run, in a folder."""

    @property
    def directory(self) -> Path:
        """The folder."""
        ...

    @property
    def report(self) -> list[str]:
        """Sentences on what was read, removed, split off and learned."""
        ...

    @property
    def reused(self) -> bool:
        """Whether an existing folder was reused."""
        ...

    def identity(self) -> dict[str, str]:
        """Return checksums by name, which every checkpoint records; `data` is that of the input files."""
        ...

    def save(self, run: Path) -> None:
        """Write the files that inference needs (subwords, labels) into the run directory."""
        ...


class PreparedWithDev(Prepared, Protocol):
    """Prepared data with a development set."""

    @property
    def dev(self) -> Sized:
        """The development set, which may be empty."""
        ...


Data = TypeVar("Data", bound=PreparedWithDev)
Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class Evaluation:
    """Scores of a trained run, as JSON values (`record`) and as printed lines."""

    record: dict[str, Any]
    lines: list[str]
    notes: list[str] = field(default_factory=list)  # remarks, for standard error
    outputs: list[str] = field(default_factory=list)  # outputs of the model as lines, for `evaluate -o`


@dataclass(frozen=True)
class EvaluationRequest:
    """Arguments of `headwise evaluate RUN FILES…`; without files, the run's development set is scored."""

    run: Path
    config: Config
    files: Sequence[Path]
    device: str = "auto"
    precision: str = "float32"


@dataclass(frozen=True)
class Prediction:
    """Prediction for one input line, as text and as JSON values."""

    text: str
    record: dict[str, Any]


# From lines, each with its place for error messages.
Predictor = Callable[[Sequence[tuple[str, str]]], list[Prediction]]


class TaskKind(ABC):
    """Base class of task descriptions: data preparation, model, training task and evaluation.

    Attributes:
        scores: metrics of `validate` besides `loss`, higher is better; they are values of `training.best_by`.
        shares_batches: whether the loss of a batch is the sum of its examples' losses, so that processes can share
            the batch.
        writes: whether `evaluate` returns outputs of the model.
        after: message at the end of training; `{run}` is replaced by the run directory.
    """

    name: ClassVar[str]
    scores: ClassVar[tuple[str, ...]] = ()
    shares_batches: ClassVar[bool] = True
    writes: ClassVar[bool] = True
    after: ClassVar[str] = "try `headwise evaluate {run}`"

    def check(self, config: Config) -> None:
        """Raise `ConfigError` if an unused key is set, values are inconsistent, or no such model can be built."""
        for key, value in unused_keys(config, Tasks, self.name):
            raise ConfigError(f"{key}: expected nothing here, as task {self.name} has no use for it, found {value!r}")
        for key, needed in _without_effect(config):
            raise ConfigError(f"{key}: expected {needed} beside it, without which it has no effect, found another")
        known = ("loss", *self.scores)
        if config.training.best_by not in known:
            raise ConfigError(
                f"training.best_by: expected {' or '.join(known)} for task {self.name}, "
                f"found {config.training.best_by!r}"
            )

    def signatures(self) -> dict[str, str]:
        """Return the signatures of scores whose definition has several variants, by the names in `validate`."""
        return {}

    @abstractmethod
    def prepare(self, config: Config, directory: Path, *, expected: str | None, say: Callable[[str], None]) -> Prepared:
        """Prepare the data in `directory`, or reuse it if it is there already.

        `expected` is the `data` checksum of a run that resumes: for any other data, raise `CheckpointError`.
        """

    @abstractmethod
    def build(self, config: Config, prepared: Any) -> nn.Module:
        """Build the untrained model on the CPU; the caller sets its `compute_dtype`, if it has one."""

    @abstractmethod
    def task(self, config: Config, prepared: Any, model: Any) -> Task:
        """Return the training task of a model, which is on its device already."""

    @abstractmethod
    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Score a trained run, for `headwise evaluate`."""

    def predictor(self, run: Path, config: Config, *, device: str, precision: str) -> Predictor:
        """Load a trained run for `headwise predict`; raises `ConfigError` if the task doesn't support it."""
        raise ConfigError(f"predict: expected a run of a task that labels or answers, found one of {self.name}")


class PreparedTask(ABC, Generic[Data, Model]):
    """Base class of training tasks on prepared data with a development set.

    Subclasses add `batches`, `loss`, `locate` and `_scores` (see `headwise.training.task.Task`).
    """

    def __init__(self, config: Config, prepared: Data, model: Model) -> None:
        self.config, self.prepared, self.model = config, prepared, model
        self.device = next(model.parameters()).device

    @property
    def d_model(self) -> int:
        """The model's width, for the paper's learning-rate schedule."""
        return self.config.model.d_model

    @property
    def dev_tokens(self) -> int:
        """The target tokens of the development set: one of each example, if a task doesn't say another number."""
        return len(self.prepared.dev)

    def with_model(self, model: Any) -> Self:
        """Return the same task with a copy of its model, for training only."""
        task = copy.copy(self)
        task.model = model
        return task

    def validate(self, *, final: bool = False) -> dict[str, float]:
        """Return the scores on the development set; none if it is empty."""
        if not len(self.prepared.dev):
            return {}
        return self._scores()

    @abstractmethod
    def _scores(self) -> dict[str, float]:
        """Score the model on the development set, which isn't empty."""

    def measured(self) -> dict[str, Any]:
        """Return what the final validation has found besides scores, as JSON values."""
        return {}

    def identity(self) -> dict[str, str]:
        """Return the checksums of the prepared data."""
        return self.prepared.identity()


def _without_effect(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the keys that another value makes useless, each with the value that they need.

    An architecture, attention kind or position encoding of one's own may take the options of others.
    """
    model, training = config.model, config.training
    for section, keys, parts in (
        ("attention_options", ("attention", "cross_attention"), all_registered()),
        ("position_options", ("positions",), position_encodings()),
    ):
        chosen = {getattr(model, key) for key in keys} - {None}
        known = {part.name for part in parts if part.module.partition(".")[0] == "headwise"}
        if model.architecture != "transformer" or not chosen <= known:
            continue
        options = getattr(model, section)
        for name, own in type(options).model_fields.items():
            if name not in chosen and getattr(options, name) != own.default:
                yield f"model.{section}.{name}", f"model.{keys[0]}={name}"
    if training.parallel != "fsdp" and training.fsdp != FsdpConfig():
        yield "training.fsdp", "training.parallel=fsdp"
    if model.architecture in WITHOUT_LAYERS:
        if training.checkpoint_activations:
            yield "training.checkpoint_activations", "model.architecture=transformer"
        if config.optimizer.name == "muon":
            yield "optimizer.name=muon", "model.architecture=transformer"
