"""The commands of `headwise`, as click has them."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import typer

from headwise.cli.main import COMMANDS


@functools.cache
def every_command() -> dict[tuple[str, ...], Any]:
    """Return each command by its words, such as `("train",)` or `("data", "get")`."""
    found: dict[tuple[str, ...], Any] = {}
    for name, (module, _) in COMMANDS.items():
        imported = importlib.import_module(module)
        app = getattr(imported, "app", None)
        if app is None:
            app = typer.Typer()
            app.command(name)(imported.command)
        command: Any = typer.main.get_command(app)
        parts = getattr(command, "commands", {"": command})
        found |= {(name, *words.split()): part for words, part in parts.items()}
    return found
