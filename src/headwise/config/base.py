"""Base class and number types of the configuration's sections."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from headwise import bounds
from headwise.characters import unwritable


def _auto_or_number(value: Any) -> Any:
    whole = isinstance(value, int) and 1 <= value <= bounds.PROCESSES
    if value != "auto" and not whole:
        raise ValueError(f"expected auto or a number of processes from 1 to {bounds.PROCESSES}, found {value!r}")
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

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject `yes` where a number stands, which would be 1, as in `patience: yes` or `weights: [yes, 2]`."""
        truths = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, bool)]
        if truths:
            types = _types_of(cls.model_fields[str(info.field_name)].annotation)
            if bool not in types and (int in types or float in types):
                raise ValueError(f"expected a number, found {str(truths[0]).lower()}")
        return value


def _types_of(annotation: Any) -> list[Any]:
    """Return the types of a union, of an annotated type, or of a list's items."""
    parts = get_args(annotation)
    return [one for part in parts for one in _types_of(part)] if parts else [annotation]
