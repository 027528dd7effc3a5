"""Recorded results: one small JSON file per row and seed, with everything needed to reproduce it.

The path of a record is `results/SCALE/ROW.seedN.json`; SCALE is `measured` if the result doesn't depend on the scale.
A record is valid only for the row that made it: `identity` is a digest of everything that the row's result depends on.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headwise.errors import DataError
from headwise.files import write_text
from headwise.parsing.json_text import read_json

_INNERMOST = re.compile(r"\[[^\[\]{}\"]*\]")  # innermost lists, written on one line


@dataclass(frozen=True)
class Record:
    """The record of a finished row: `result` holds its numbers, `recipe` the hardware, versions and checksums."""

    row: str
    scale: str
    seed: int
    identity: str
    command: str
    result: dict[str, Any]
    recipe: dict[str, Any] = field(default_factory=dict)

    def number(self, path: str) -> float:
        """Return a number of the result by its dotted path, such as `test.bleu.score`."""
        value: Any = self.result
        for key in path.split("."):
            value = value[key]
        return float(value)


def record_file(results: Path, scale: str, row: str, seed: int) -> Path:
    """Return the path of a row's record."""
    return results / scale / f"{row}.seed{seed}.json"


def read_record(file: Path) -> Record | None:
    """Read a record, None if there is no file; raises `DataError` if the file isn't a record."""
    if not file.exists():
        return None
    tree = read_json(file, expected="the record of a result")
    try:
        return Record(**tree)
    except TypeError as error:
        raise DataError(f"{file}: expected the record of a result, found something else ({error})") from None


def write_record(record: Record, results: Path) -> Path:
    """Write a record to its path atomically; returns the path."""
    file = record_file(results, record.scale, record.row, record.seed)
    text = json.dumps(asdict(record), indent=1, ensure_ascii=False)
    text = _INNERMOST.sub(lambda match: " ".join(match[0].split()), text)
    write_text(file, text + "\n")
    return file


def digest(values: Any) -> str:
    """Return a digest of JSON values, 12 hexadecimal digits."""
    canonical = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def environment() -> dict[str, Any]:
    """Return the hardware, the machine's load and the versions, for a record's recipe.

    `load` is the load average of the last minute, if the system reports it.
    """
    import torch

    from headwise import __version__
    from headwise.nn.device import describe_hardware

    return {
        "hardware": {**describe_hardware(), **_load()},
        "version": {
            "headwise": __version__,
            "commit": _commit(),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }


def _load() -> dict[str, float]:
    try:
        return {"load": round(os.getloadavg()[0], 1)}
    except (AttributeError, OSError):  # Windows has none
        return {}


def _commit() -> str | None:
    """Return the checkout's commit, with `+` if files have uncommitted changes; None outside a checkout."""
    folder = Path(__file__).parent
    try:
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        changes = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", str(folder.parents[1]))
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changes else "")


def _git(folder: Path, *arguments: str) -> str:
    process = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=20
    )
    return process.stdout.strip()
