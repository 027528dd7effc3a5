"""Keys that configurations of earlier versions have, and that no longer exist.

The tag `before-less` is the last version with them.
"""

from __future__ import annotations

from typing import Any

_TAG = "before-less"

# Each key with the value that means "unused".
REMOVED: dict[str, Any] = {
    "data.buffer": 1 << 18,
    "data.temperature": 1.0,
    "training.freeze": [],
    "training.lora.alpha": 16.0,
    "training.lora.dropout": 0.0,
    "training.lora.projections": ["query", "value"],
    "training.lora.rank": 0,
    "training.validate_beam": 1,
}


def without_removed(tree: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a nested dictionary without the removed keys, and a sentence on each that was used."""
    used: list[str] = []
    return _without(tree, "", used), used


def _without(tree: dict[str, Any], prefix: str, used: list[str]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if key in REMOVED:
            if value != REMOVED[key]:
                used.append(
                    f"{key}: expected {REMOVED[key]}, as this key was removed (the tag {_TAG} has it), found {value}"
                )
        elif not isinstance(value, dict):
            kept[name] = value
        elif (inner := _without(value, f"{key}.", used)) or not value:
            kept[name] = inner
    return kept
