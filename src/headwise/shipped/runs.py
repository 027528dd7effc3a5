"""The runs in the package: `demo` is the model of `headwise demo`, wherever a run directory is expected.

`make demo-model RUN=runs/demo` makes its directory of a run that `headwise demo` has trained.
"""

from __future__ import annotations

import warnings
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = ("demo",)


def find_run(path: str | Path) -> Path:
    """Return the path of a run directory: `path` itself, or the directory in the package of a shipped run's name.

    What exists under the name comes first, with a warning that it isn't the shipped run.
    """
    path = Path(path)
    if str(path) not in NAMES:
        return path
    if path.exists():
        warnings.warn(
            f"{path}: what has this name in the current directory is used, not the model in the package",
            stacklevel=1,
        )
        return path
    return FOLDER / path
