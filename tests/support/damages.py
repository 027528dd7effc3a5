"""Damage to files: each of these functions returns what is done to a folder, or to a file where no name is given."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Damage = Callable[[Path], Any]
Damages = dict[str, tuple[Damage, str]]  # name -> what is done, and what the sentence says
# Places in an entry of the directory of a zip file, which is behind the contents.
VERSION, FLAGS, COMPRESSED, SIZE, NAME = 6, 8, 20, 24, 46


def changed(change: Callable[[bytes], bytes], name: str = "") -> Damage:
    """Change the bytes of a file."""

    def damage(path: Path) -> None:
        (path / name).write_bytes(change((path / name).read_bytes()))

    return damage


def written(name: str, content: bytes) -> Damage:
    """Replace the content of a file."""
    return lambda folder: (folder / name).write_bytes(content)


def without(name: str) -> Damage:
    """Remove a file."""
    return lambda folder: (folder / name).unlink()


def edit(name: str, *path: str | int, **changes: Any) -> Damage:
    """Change a JSON file: keys of the object at `path` get other values; None removes one."""

    def change(content: bytes) -> bytes:
        tree = node = json.loads(content)
        for key in path:
            node = node[key]
        for key, value in changes.items():
            node[key] = value
            if value is None:
                del node[key]
        return json.dumps(tree).encode()

    return changed(change, name)


def repacked(
    change: Callable[[dict[str, bytes]], dict[str, bytes]], name: str = "", method: int = zipfile.ZIP_DEFLATED
) -> Damage:
    """Change the members of a zip file, and compress them by a method."""

    def damage(path: Path) -> None:
        with zipfile.ZipFile(path / name) as archive:
            members = {member: archive.read(member) for member in archive.namelist()}
        with zipfile.ZipFile(path / name, "w", method) as archive:
            for member, data in change(members).items():
                archive.writestr(member, data)

    return damage


def in_directory(changes: dict[int, bytes], name: str = "") -> Damage:
    """Overwrite bytes of the first entry of a zip file's directory, by their places there."""

    def change(content: bytes) -> bytes:
        entry = content.index(b"PK\1\2")
        for place, new in changes.items():
            content = content[: entry + place] + new + content[entry + place + len(new) :]
        return content

    return changed(change, name)
