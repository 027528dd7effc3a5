"""Files of lines, of which only a line feed ends one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def write_lines(path: Path, texts: Iterable[object]) -> Path:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path
