"""Where the parts of a configuration come from: the modules outside Headwise that register them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.models.build import ARCHITECTURES
from headwise.nn.attention import registered
from headwise.nn.positions import position_encoding
from headwise.tasks.registry import TASKS

MAIN = "__main__"  # a script or notebook, which no other process can import


def modules_of(config: Config) -> list[str]:
    """Return the modules that register the task, architecture, attention and positions of a configuration."""
    names = {*_modules(config), *config.imports}
    return sorted(name for name in names if name.partition(".")[0] != "headwise")


def _modules(config: Config) -> Iterator[str]:
    model = config.model
    yield TASKS.get(config.task, "headwise").partition(":")[0]
    if model.architecture in ARCHITECTURES:
        yield ARCHITECTURES[model.architecture].__module__
    for part in (model.attention, model.cross_attention):
        if part is not None and (kind := _found(registered, part)) is not None:
            yield kind.module
    if (encoding := _found(position_encoding, model.positions)) is not None:
        yield encoding.module


def _found(find: Any, name: str) -> Any:
    """Return a registered part; None for an unknown name, which is an error when the model is built."""
    try:
        return find(name)
    except ConfigError:
        return None
