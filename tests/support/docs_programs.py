"""Programs that belong to no package, such as those in docs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def load_program(file: Path) -> ModuleType:
    """Import a program by its path."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
