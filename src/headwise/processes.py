"""Python in processes of its own, which import what this one imports and nothing from the working directory.

Python puts the working directory first on a child's path (`python -m`, `-c`), so that a `numpy.py` that lies there, in
a folder of somebody else's data, would run. Children are started with `-P` and `PYTHONSAFEPATH`, which their own
children inherit.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parent.parent)  # where this package lies


def python_command(*arguments: str) -> list[str]:
    """The command that starts this Python; `arguments` as those of `python`, such as `-m` and a module."""
    return [sys.executable, "-P", *arguments]


def child_environment() -> dict[str, str]:
    """The environment of a Python child: it finds modules where this process does, the working directory aside.

    A working directory that PYTHONPATH names stays, as whoever set it asks for that.
    """
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # it was removed
        here = None
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    asked = {os.path.realpath(entry) for entry in given if entry}
    path = [entry for entry in sys.path if entry and (os.path.realpath(entry) != here or here in asked)]
    if _PACKAGE not in map(os.path.realpath, path):
        path.append(_PACKAGE)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}
