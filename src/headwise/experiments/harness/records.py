"""Recorded results, one small JSON file per row and seed with all that reproduces it, and their means over seeds.

The path of a record is `results/SCALE/ROW.seedN.json`; SCALE is `measured` if the result doesn't depend on the scale.
A record is valid only for the row that made it: `identity` is a digest of everything that the row's result depends on.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.errors import DataError
from headwise.files import write_text
from headwise.parsing import read_json

if TYPE_CHECKING:
    from headwise.experiments.harness.rows import ExperimentRow
    from headwise.experiments.scales import Scale

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

    @property
    def on_gpu(self) -> bool:
        """Whether the row's machine had a GPU."""
        return bool(self.recipe.get("hardware", {}).get("gpus"))


def record_file(results: Path, scale: str, row: str, seed: int) -> Path:
    """Return the path of a row's record."""
    return results / scale / f"{row}.seed{seed}.json"


def recorded_seeds(results: Path, scale: str, row: str) -> list[int]:
    """Return the seeds of which a row has a record, the smallest first."""
    name = re.compile(rf"{re.escape(row)}\.seed([0-9]+)\.json")
    return sorted(int(found[1]) for file in (results / scale).glob("*.json") if (found := name.fullmatch(file.name)))


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
    """Return the checkout's commit, with `+` if files have uncommitted changes; None outside one or if git is slow."""
    folder = Path(__file__).parent
    try:
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        changes = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", str(folder.parents[1]))
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+" if changes else "")


def _git(folder: Path, *arguments: str) -> str:
    process = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=20
    )
    return process.stdout.strip()


# Two-sided 95 % quantiles of Student's t distribution by degrees of freedom (from any table), and the normal one.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_NORMAL = 1.959964


@dataclass(frozen=True)
class Mean:
    """A mean over `count` seeds; `half` is half the width of its 95 % interval, None for a single seed."""

    value: float
    half: float | None
    count: int

    def seeds_to_decide(self, margin: float) -> int | None:
        """Return about how many seeds would narrow the interval to `margin` on each side, with the same deviation.

        None without a deviation, which a single seed doesn't have, or for a margin of nothing: what is less than a
        thousandth of the interval may be a rounding error, and would take millions of seeds.
        """
        if not self.half or margin < self.half / 1000:
            return None
        deviation = self.half * math.sqrt(self.count) / _quantile(self.count)
        seeds = max(self.count + 1, math.ceil((_NORMAL * deviation / margin) ** 2))
        while _quantile(seeds) * deviation / math.sqrt(seeds) > margin:
            seeds += 1
        return seeds

    def text(self, digits: int = 2, sign: bool = False) -> str:
        """Format the mean as `25.80 ± 0.31`, or without an interval for a single seed."""
        value = f"{self.value:{'+' if sign else ''}.{digits}f}"
        return value if self.half is None else f"{value} ± {self.half:.{digits}f}"


def mean(values: Sequence[float]) -> Mean:
    """Return the mean of one or more values; half its interval is t · s / √n."""
    assert values, "a mean of nothing"
    count = len(values)
    middle = sum(values) / count
    if count == 1:
        return Mean(middle, None, 1)
    deviation = math.sqrt(sum((value - middle) ** 2 for value in values) / (count - 1))
    return Mean(middle, _quantile(count) * deviation / math.sqrt(count), count)


def _quantile(count: int) -> float:
    """Return the quantile for a mean of so many values; beyond the table, by its expansion in 1 / degrees of freedom.

    Abramowitz & Stegun, 26.7.5; within 0.003.
    """
    freedom, z = count - 1, _NORMAL
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


@dataclass(frozen=True)
class Results:
    """The recorded results of an experiment at one scale: the records of each row, in the order of seeds."""

    scale: Scale
    rows: Sequence[ExperimentRow]
    records: dict[str, list[Record]]

    def missing(self, *names: str) -> list[str]:
        """Return the names of the rows that have no record yet."""
        return [name for name in names if not self.records.get(name)]

    def mean(self, name: str, path: str) -> Mean | None:
        """Return the mean of a row's number over seeds; None if the row has no record, or all its seeds diverged."""
        values = self.values(name, path)
        return mean(list(values.values())) if values else None

    def values(self, name: str, path: str) -> dict[int, float]:
        """Return a row's number by seed, without the seeds that diverged."""
        records = self.records.get(name, [])
        return {r.seed: r.number(path) for r in records if "diverged" not in r.result}

    def diverged(self, name: str) -> int:
        """Return how many seeds of a row diverged."""
        return sum("diverged" in record.result for record in self.records.get(name, []))

    def seeds(self, name: str) -> str:
        """Return how many seeds of a row trained, and how many diverged if any did, for a table."""
        diverged = self.diverged(name)
        trained = str(len(self.records.get(name, [])) - diverged)
        return f"{trained} and {diverged} diverged" if diverged else trained

    def difference(self, name: str, other: str, path: str) -> Mean | None:
        """Return the mean difference of a row's number and another row's over the seeds that both have."""
        differences = self.differences(name, other, path)
        return mean(list(differences.values())) if differences else None

    def differences(self, name: str, other: str, path: str) -> dict[int, float]:
        """Return a row's number less another row's, by the seeds that both have."""
        first, second = self.values(name, path), self.values(other, path)
        return {seed: first[seed] - second[seed] for seed in first if seed in second}

    def cell(self, name: str, path: str, digits: int = 2) -> str:
        """Format a row's mean for a table; `–` if there is no record, `diverged` if training diverged."""
        value = self.mean(name, path)
        if value is not None:
            return value.text(digits)
        return "diverged" if self.records.get(name) else "–"

    def difference_cell(self, name: str, other: str, path: str) -> str:
        """Format the mean difference of two rows' numbers for a table, with its sign; `–` if there is none."""
        difference = self.difference(name, other, path)
        return "–" if difference is None else difference.text(2, sign=True)

    def first(self, name: str) -> Record | None:
        """Return the record of a row's first seed."""
        records = self.records.get(name)
        return records[0] if records else None
