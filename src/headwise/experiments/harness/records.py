"""Recorded results: one small JSON file for each row and seed, with everything needed to make it again.

A record lies at `results/SCALE/ROW.seedN.json`; what doesn't depend on the scale lies under `measured`. It counts
only for the row it was made by: `identity` is a digest of all that the row's result depends on.
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

_INNERMOST = re.compile(r"\[[^\[\]{}\"]*\]")  # lists of numbers, which go on one line


@dataclass(frozen=True)
class Record:
    """A finished row: `result` holds its numbers, `recipe` hardware, versions, and checksums."""

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
    """Say where a row's record lies."""
    return results / scale / f"{row}.seed{seed}.json"


def read_record(file: Path) -> Record | None:
    """Read a record, None where there is none; raises `DataError` naming a file that isn't one."""
    if not file.exists():
        return None
    tree = read_json(file, expected="the record of a result")
    try:
        return Record(**tree)
    except TypeError as error:
        raise DataError(f"{file}: expected the record of a result, found something else ({error})") from None


def write_record(record: Record, results: Path) -> Path:
    """Write a record in its place, whole or not at all."""
    file = record_file(results, record.scale, record.row, record.seed)
    text = json.dumps(asdict(record), indent=1, ensure_ascii=False)
    text = _INNERMOST.sub(lambda found: " ".join(found[0].split()), text)
    write_text(file, text + "\n")
    return file


def digest(values: Any) -> str:
    """Return 12 hexadecimal digits that identify JSON values."""
    canonical = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def environment() -> dict[str, Any]:
    """Describe this machine, what else it is doing, and the code, for a record's recipe.

    `load` is the mean number of processes that wanted a processor in the last minute, where the system tells it.
    """
    import torch

    from headwise import __version__

    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {
        "hardware": {"processor": _processor(), "threads": torch.get_num_threads(), "gpus": gpus, **_load()},
        "version": {
            "headwise": __version__,
            "commit": _commit(),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _load() -> dict[str, float]:
    try:
        return {"load": round(os.getloadavg()[0], 1)}
    except (AttributeError, OSError):  # Windows has none
        return {}


def _commit() -> str | None:
    """Return the commit of a checkout, with `+` where files were changed since; None outside of one."""
    here = Path(__file__).parent
    try:
        commit = _git(here, "rev-parse", "--short=12", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no", "--", str(here.parents[1]))
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=20
    )
    return done.stdout.strip()
