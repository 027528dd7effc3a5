"""The key id2label of config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headwise.interop.huggingface.fields import unexpected

_MOST = 100_000
_DEFAULT = {"0": "LABEL_0", "1": "LABEL_1"}  # of `transformers`, which doesn't write it


def read_labels(source: Path, found: Mapping[str, str]) -> list[str]:
    """Return the labels in the order of their ids; raises `CheckpointError` if one is missing or there twice."""
    found = found or _DEFAULT
    if len(found) > _MOST or any(str(number) not in found for number in range(len(found))):
        raise unexpected(source, "id2label", f"a label for each id from 0 to {len(found) - 1}", list(found))
    labels = [found[str(number)] for number in range(len(found))]
    if len(set(labels)) < max(len(labels), 2) or not all(labels):
        raise unexpected(source, "id2label", "two or more different labels", labels)
    return labels
