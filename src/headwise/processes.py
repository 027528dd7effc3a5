"""Start Python child processes that import the same modules as this one, and nothing from the working directory.

`python -m` and `-c` put the working directory first on the child's module path, so a `numpy.py` in a directory of
untrusted data would be executed. Child processes are started with `-P` and `PYTHONSAFEPATH`; their own children
inherit the latter.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parent.parent)  # the directory that contains this package


def python_command(*arguments: str) -> list[str]:
    """Return the command that starts this Python interpreter; `arguments` are those of `python`, such as `-m X`."""
    return [sys.executable, "-P", *arguments]


def child_environment() -> dict[str, str]:
    """Return the environment of a Python child process: this process's module path without the working directory.

    The working directory is kept if PYTHONPATH names it, because then the user asked for it.
    """
    try:
        cwd = os.path.realpath(os.getcwd())
    except FileNotFoundError:  # it was removed
        cwd = None
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    explicit = {os.path.realpath(entry) for entry in entries if entry}
    path = [entry for entry in sys.path if entry and (os.path.realpath(entry) != cwd or cwd in explicit)]
    if _PACKAGE not in map(os.path.realpath, path):
        path.append(_PACKAGE)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"}
