"""Base class and number types of the configuration's sections."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headwise import bounds
from headwise.characters import unwritable


def _auto_or_number(value: Any) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= bounds.PROCESSES
    if value != "auto" and not whole:
        raise ValueError(
            f"expected auto or a number of processes from 1 to {bounds.PROCESSES}, found {value!r}"
        )
    return value


def _can_be_written(value: Any) -> Any:
    """Reject strings that can't be written to config.yaml or be a file name."""
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str) and (unwritable(text) or "\0" in text):
            raise ValueError(f"expected a name in UTF-8, found {text!r}")
    return value


Writable = BeforeValidator(_can_be_written)  # of every field with text
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
# Whole numbers; `headwise.bounds` explains the upper bounds.
Positive = Annotated[int, Field(gt=0, le=bounds.COUNT)]  # a count
Natural = Annotated[int, Field(ge=0, le=bounds.COUNT)]
Width = Annotated[int, Field(gt=0, le=bounds.WIDTH)]
Layers = Annotated[int, Field(gt=0, le=bounds.LAYERS)]
Heads = Annotated[int, Field(gt=0, le=bounds.HEADS)]
Length = Annotated[int, Field(gt=0, le=bounds.LENGTH)]
Pixels = Annotated[int, Field(gt=0, le=bounds.PIXELS)]
Processes = Annotated[int, Field(ge=0, le=bounds.PROCESSES)]  # or threads; 0: as many as fit the machine
WorkerProcesses = Annotated[int | Literal["auto"], BeforeValidator(_auto_or_number)]
Seed = Annotated[int, Field(ge=0, le=bounds.SEED)]
Rate = Annotated[float, Field(gt=0.0, le=bounds.RATE)]
Penalty = Annotated[float, Field(ge=0.0, le=bounds.RATE)]
Epsilon = Annotated[float, Field(ge=bounds.SMALLEST, le=1.0)]


class Section(BaseModel):
    """A section of the configuration: unknown keys are errors, and values are validated on assignment."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, allow_inf_nan=False)
