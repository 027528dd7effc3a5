"""The runs that have a name, wherever a run directory is expected.

`demo`, the model of `headwise demo`, is in the package; `make demo-model RUN=runs/demo` makes its directory of a run
that `headwise demo` has trained. The general models are in `models/` of a clone, and elsewhere `headwise data get NAME`
puts them there.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from headwise.errors import CheckpointError

FOLDER = Path(__file__).parent
DEMO = "demo"
GENERAL = ("open-en-de", "open-de-en")
MODELS = Path("models")  # in the current directory


def find_run(path: str | Path) -> Path:
    """Return the path of a run directory: `path` itself, or the directory of the run that has this name.

    A directory of the name comes first, with a warning that it isn't the run of the name. Raises `CheckpointError`
    for a general model that isn't there.
    """
    path = Path(path)
    name = str(path)
    if name not in (DEMO, *GENERAL):
        return path
    if path.is_dir():
        warnings.warn(
            f"{path}: what has this name in the current directory is used, not the model of this name",
            stacklevel=1,
        )
        return path
    if name == DEMO:
        return FOLDER / name
    if not (MODELS / name).exists():
        raise CheckpointError(
            f"{name}: expected this model in {MODELS / name}, found none; `headwise data get {name}` fetches it"
        )
    return MODELS / name


def general_runs() -> list[Path]:
    """Return the directories of the general models that are there."""
    return [MODELS / name for name in GENERAL if (MODELS / name).is_dir()]
