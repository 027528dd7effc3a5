"""Headwise: train a Transformer on parallel text, translate with it, and inspect every attention head.

`headwise.load("runs/de").translate(["A man rides a horse."])[0].text` is a German sentence. `__all__` has the names
that are stable, and `headwise.nn` the layers.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwise.api.explaining import Explanation
    from headwise.api.importing import import_model
    from headwise.api.models import build, decode, record
    from headwise.api.run import Run, load
    from headwise.api.training import train
    from headwise.config import Config, ModelConfig
    from headwise.engine.outputs import Translation
    from headwise.errors import HeadwiseError
    from headwise.text.tokens.subwords import Subwords

__version__ = "0.1.0"
__all__ = [
    "Config",
    "Explanation",
    "HeadwiseError",
    "ModelConfig",
    "Run",
    "Subwords",
    "Translation",
    "build",
    "decode",
    "import_model",
    "load",
    "record",
    "train",
]

# Imported when they are first used, so that `import headwise` costs nothing, and translating needs no PyTorch.
_MODULES = {
    "Config": "headwise.config",
    "Explanation": "headwise.api.explaining",
    "HeadwiseError": "headwise.errors",
    "ModelConfig": "headwise.config",
    "Run": "headwise.api.run",
    "Subwords": "headwise.text.tokens.subwords",
    "Translation": "headwise.engine.outputs",
    "build": "headwise.api.models",
    "decode": "headwise.api.models",
    "import_model": "headwise.api.importing",
    "load": "headwise.api.run",
    "record": "headwise.api.models",
    "train": "headwise.api.training",
}


# Threads of a product that wait for each other sleep, instead of keeping a processor busy: beside other programs, two
# threads are ten times as fast as with OpenMP's default. PyTorch's OpenMP reads this when it is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'headwise' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
