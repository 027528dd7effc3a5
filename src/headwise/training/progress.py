"""Where a run stands, and reading it from a checkpoint: nothing of the file is used before it has been checked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor, nn

from headwise.errors import CheckpointError

_MOMENTS = {"step", "exp_avg", "exp_avg_sq"}  # what Adam keeps of a parameter
_Count = Annotated[int, Field(ge=0)]


@dataclass
class Progress:
    """Where a run stands; `best` is the best validation score so far, in the direction of `best_by`."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    step: _Count = 0
    tokens: _Count = 0  # target tokens trained on, over all ranks
    seconds: float = 0.0  # spent in training, over all starts
    best: float | None = None
    best_step: _Count = 0
    stale: _Count = 0  # validations since the best one, those that were left out included
    recent_nll: float = 0.0  # nats and target tokens since the last report
    recent_tokens: _Count = 0
    finished: str = ""  # why training ended, empty while it hasn't
    positions: list[dict[str, Any]] = field(default_factory=list)  # of the data, for every rank
    validate_stride: Annotated[int, Field(ge=1)] = 1  # one of so many configured validations is made
    planned_steps: _Count = 0  # the last step in time, where the clock ends training; 0 before it is known
    planned_minutes: float | None = None  # what that was planned for
    plan_is_final: bool = False


_PROGRESS = TypeAdapter(Progress)


def read_progress(file: Path, tree: dict[str, Any]) -> Progress:
    """Read a run's progress from the tree in `file`; raises `CheckpointError` for a field that isn't as expected."""
    try:
        return _PROGRESS.validate_json(json.dumps(tree))  # strict, and yet no instance is expected
    except ValidationError as error:
        problem = error.errors()[0]
        name = ".".join(["progress", *map(str, problem["loc"])])
        if problem["type"] == "unexpected_keyword_argument":
            reason = "this version of Headwise doesn't know this field; resume with the version that wrote it"
        else:
            reason = f"{problem['msg'][0].lower()}{problem['msg'][1:]}, found {str(problem['input'])[:80]}"
        raise CheckpointError(f"{file}: {name}: {reason}") from None


def check_parameters(path: Path, model: nn.Module, found: dict[str, Tensor]) -> None:
    """Raise `CheckpointError` unless the tensors are the model's parameters, by name, type and shape."""
    expected = dict(model.named_parameters())
    for name, parameter in expected.items():
        if name not in found:
            raise CheckpointError(f"{path}: expected the parameters of this model, found no {name}")
        _check_alike(path, f"the parameters of this model, {name}", parameter, found[name])
    if extra := found.keys() - expected.keys():
        raise CheckpointError(f"{path}: expected the parameters of this model, found {min(extra)}, too")


def sort_moments(file: Path, model: nn.Module, found: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Sort the optimizer's tensors by parameter; a parameter that never had a gradient has none.

    Raises `CheckpointError` where one is missing, unknown, or of another type or shape than the optimizer makes it.
    """
    parameters = dict(model.named_parameters())
    states: dict[str, dict[str, Tensor]] = {name: {} for name in parameters}
    for key, tensor in found.items():
        name, _, moment = key.rpartition(".")
        if name not in states or moment not in _MOMENTS:
            raise CheckpointError(f"{file}: expected the moments of this model's parameters, found {key}")
        expected = torch.empty(()) if moment == "step" else parameters[name]
        _check_alike(file, f"{moment} of {name}", expected, tensor)
        states[name][moment] = tensor
    for name, state in states.items():
        if state and (missing := _MOMENTS - state.keys()):
            raise CheckpointError(f"{file}: expected {min(missing)} of {name}, found none")
    return states


def _check_alike(file: Path, name: str, expected: Tensor, found: Tensor) -> None:
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        raise CheckpointError(
            f"{file}: expected {name}, of shape {tuple(expected.shape)} and type {expected.dtype}, "
            f"found shape {tuple(found.shape)} and type {found.dtype}"
        )
