"""What translates a training text, from the options of the commands that begin with a translation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwise.tasks.corpus.runs import Runs


def as_teacher(
    run: Path, also: list[Path] | None, search: Mapping[str, Any], *, device: str | None, **engine: Any
) -> Runs:
    """Return a run, or an ensemble with others, that searches with the options that aren't None.

    `engine` are arguments of `headwise.decoding.translator.Translator.load`; the device is that of the training.
    """
    from headwise.tasks.corpus.runs import Runs

    options = {name: value for name, value in search.items() if value is not None}
    return Runs([run, *(also or [])], options, {**engine, "device": device or "auto"})
