"""Damage to zip files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

# Places in an entry of the directory, which is behind the contents.
VERSION, FLAGS, NAME = 6, 8, 46


def in_directory(changes: dict[int, bytes]) -> Callable[[Path], None]:
    """Overwrite bytes of the directory's first entry, by their places there."""

    def edit(file: Path) -> None:
        content = bytearray(file.read_bytes())
        entry = content.index(b"PK\1\2")
        for place, new in changes.items():
            content[entry + place : entry + place + len(new)] = new
        file.write_bytes(content)

    return edit
