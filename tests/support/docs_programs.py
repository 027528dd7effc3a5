"""The programs in docs, which aren't a package."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from paths import DOCS


def load_program(name: str) -> ModuleType:
    """Import docs/NAME.py."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
