"""Modules of one's own that register parts: kinds of attention, positions, architectures, tasks and metrics.

`--import MODULE`, or `imports=` in Python, imports one; child processes import the same. A run names the modules whose
parts it uses (`imports` in its config.yaml), and is refused until they are imported: a run never imports code by
itself, because it may be a stranger's.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

from headwise.errors import ConfigError

_imported: list[str] = []


def import_modules(names: Iterable[str]) -> None:
    """Import modules, of which child processes are told.

    A module is found on Python's path or, after that, as NAME.py or the package NAME in the working directory. Raises
    `ConfigError` for one that isn't found; what it raises itself isn't caught.
    """
    for name in names:
        _import(name)
        if name not in _imported:
            _imported.append(name)


def imported() -> tuple[str, ...]:
    """Return the names of all modules that were imported here."""
    return tuple(_imported)


def missing(names: Iterable[str]) -> list[str]:
    """Return the modules that this process hasn't imported, in whatever way."""
    return [name for name in names if name not in sys.modules]


def _import(name: str) -> None:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(f"--import: expected the name of a Python module, such as my_attention, found {name!r}")
    top = name.partition(".")[0]
    if top not in sys.modules and importlib.util.find_spec(top) is None:
        _import_from_here(top)
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # of something that the module imports
        raise ConfigError(f"--import: expected a module on Python's path, found none for {name}") from None


def _import_from_here(name: str) -> None:
    """Import a module of the working directory, which isn't on the path, so that nothing else is found there."""
    file, package = Path(f"{name}.py").resolve(), Path(name, "__init__.py").resolve()
    place = file if file.is_file() else package
    if not place.is_file():
        raise ConfigError(
            f"--import: expected a module on Python's path, or {name}.py in the working directory, found neither"
        )
    folders = None if place is file else [str(package.parent)]
    spec = importlib.util.spec_from_file_location(name, place, submodule_search_locations=folders)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
