"""Progress of a training, and validation of a checkpoint's progress, parameters and optimizer state."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor, nn

from headwise.errors import CheckpointError

_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
LONGEST_WARMUP = 0.2  # of a training with a time limit, as a share of the time
_EARLIER = ("validate_stride", "planned_steps", "planned_minutes", "plan_is_final")  # fields until 2026-11


@dataclass
class Timing:
    """What the clock of a training has decided and measured (`headwise.training.pace`)."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    minutes: float | None = None  # the time limit that `left` belongs to
    left: _Share = 1.0  # share of the schedule that is left
    warmed: _Share = 0.0  # share of the warm-up that is done
    warmup_steps: _Count = 0  # its number of steps; 0 before its end
    # value of `left` from which linear and cosine decay: that at the end of the warm-up
    decays_from: Annotated[float, Field(ge=1 - LONGEST_WARMUP, le=1)] = 1 - LONGEST_WARMUP
    step_seconds: _Seconds = 0.0  # mean of the last steps
    # of the last validation and the last checkpoint, and of all whose time is bounded
    costs: dict[str, _Seconds] = field(default_factory=dict)
    spent: dict[str, _Seconds] = field(default_factory=dict)


@dataclass
class Progress:
    """Progress of a training; `best` is the best validation score so far, the negated loss for `best_by=loss`."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    step: _Count = 0
    tokens: _Count = 0  # target tokens trained on, over all ranks
    seconds: float = 0.0  # training time, over all resumptions
    best: float | None = None
    best_step: _Count = 0
    stale: _Count = 0  # configured validations since the best one, for early stopping; skipped ones count
    recent_nll: float = 0.0  # negative log-likelihood in nats, and target tokens, since the last report
    recent_tokens: _Count = 0
    finished: str = ""  # the reason why training ended, empty before
    positions: list[dict[str, Any]] = field(default_factory=list)  # in the data, the same one for each rank
    timing: Timing = field(default_factory=Timing)


_PROGRESS = TypeAdapter(Progress)


def read_progress(file: Path, tree: dict[str, Any]) -> Progress:
    """Validate the progress in a checkpoint's state; raises `CheckpointError`, naming `file` and the wrong field."""
    earlier = {name: tree[name] for name in _EARLIER if name in tree}
    tree = {name: value for name, value in tree.items() if name not in earlier}
    try:
        # JSON, as strict validation of Python expects an instance.
        progress = _PROGRESS.validate_json(json.dumps(tree))
    except ValidationError as error:
        problem = error.errors()[0]
        name = ".".join(["progress", *map(str, problem["loc"])])
        if problem["type"] == "unexpected_keyword_argument":
            reason = "this version of Headwise doesn't know this field; resume with the version that wrote it"
        else:
            reason = f"{problem['msg'][0].lower()}{problem['msg'][1:]}, found {str(problem['input'])[:80]}"
        raise CheckpointError(f"{file}: {name}: {reason}") from None
    planned = earlier.get("planned_steps")
    if isinstance(planned, int) and planned > 0:  # a warm-up took at most a fifth of the planned steps
        warmup = max(1, int(LONGEST_WARMUP * planned))
        progress.timing.warmed = min(1.0, progress.step / warmup)
        progress.timing.warmup_steps = warmup if progress.step >= warmup else 0
    return progress


def check_parameters(path: Path, expected: Mapping[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Raise `CheckpointError` unless the tensors match the expected parameters in name, type and shape."""
    for name, parameter in expected.items():
        if name not in tensors:
            raise CheckpointError(f"{path}: expected the parameters of this model, found no {name}")
        _check_alike(path, f"the parameters of this model, {name}", parameter, tensors[name])
    if extra := tensors.keys() - expected.keys():
        raise CheckpointError(f"{path}: expected the parameters of this model, found {min(extra)}, too")


def sort_moments(
    file: Path, model: nn.Module, keys: Mapping[str, Collection[str]], tensors: dict[str, Tensor]
) -> dict[str, dict[str, Tensor]]:
    """Group the optimizer's tensors by parameter; a parameter that never had a gradient has none.

    `keys` are the names of the tensors of each trained parameter. Raises `CheckpointError` if a tensor is missing or
    unknown, or has another type or shape than in the optimizer.
    """
    parameters = dict(model.named_parameters())
    states: dict[str, dict[str, Tensor]] = {name: {} for name in parameters}
    for key, tensor in tensors.items():
        name, _, moment = key.rpartition(".")
        if moment not in keys.get(name, ()):
            raise CheckpointError(f"{file}: expected the moments of this model's parameters, found {key}")
        expected = torch.empty(()) if moment == "step" else parameters[name]
        if not expected.dim() and tensor.shape == (1,):  # written by several ranks
            tensor = tensor.reshape(())
        _check_alike(file, f"{moment} of {name}", expected, tensor)
        states[name][moment] = tensor
    for name, state in states.items():
        if state and (missing := set(keys[name]) - state.keys()):
            raise CheckpointError(f"{file}: expected {min(missing)} of {name}, found none")
    return states


def _check_alike(file: Path, name: str, expected: Tensor, found: Tensor) -> None:
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        raise CheckpointError(
            f"{file}: expected {name}, of shape {tuple(expected.shape)} and type {expected.dtype}, "
            f"found shape {tuple(found.shape)} and type {found.dtype}"
        )
