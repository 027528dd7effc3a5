"""Runs the rows of an experiment: those that aren't recorded yet, in this process's share, one after the other."""

from __future__ import annotations

import fnmatch
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.errors import ConfigError, TrainingError
from headwise.experiments.harness.records import Record, environment, read_record, record_file, write_record
from headwise.experiments.harness.registry import Experiment, Results
from headwise.experiments.harness.rows import Place, Row
from headwise.experiments.scales.scale import Scale
from headwise.files import hold


@dataclass(frozen=True)
class RowJob:
    """One row with one seed."""

    row: Row
    seed: int

    def record(self, results: Path) -> Record | None:
        """Return the record of this very job, None where there is none or it was made by another row of the name."""
        record = read_record(record_file(results, self.row.folder, self.row.name, self.seed))
        return record if record is not None and record.identity == self.row.identity(self.seed) else None


def plan(
    experiment: Experiment,
    scale: Scale,
    *,
    rows: Sequence[str] = (),
    seeds: Sequence[int] = (),
    shard: tuple[int, int] = (1, 1),
) -> list[RowJob]:
    """List the jobs of an experiment: rows that match a pattern, each seed, and every n-th of them from the i-th on.

    Raises `ConfigError` for a pattern that matches nothing.
    """
    known = list(experiment.rows(scale))
    for pattern in rows:
        if not any(fnmatch.fnmatchcase(row.name, pattern) for row in known):
            raise ConfigError(
                f"--rows: expected a name or pattern of {', '.join(row.name for row in known)}, found {pattern!r}"
            )
    chosen = [row for row in known if not rows or any(fnmatch.fnmatchcase(row.name, p) for p in rows)]
    jobs = [RowJob(row, seed) for seed in (seeds or experiment.seeds) for row in chosen]
    number, count = shard
    return jobs[number - 1 :: count]


def run(jobs: Sequence[RowJob], place: Place, say: Callable[[str], None]) -> None:
    """Make every job that has no record yet, and record it; one that another process is making is left to it."""
    for job in jobs:
        if job.record(place.results) is not None:
            say(f"{job.row.name} (seed {job.seed}): recorded already")
            continue
        held = place.runs / place.scale.name / f".{job.row.name}.seed{job.seed}"
        try:
            with hold(held):
                _make(job, place, say)
        except TrainingError as error:
            if "another process" not in str(error):
                raise
            say(f"{job.row.name} (seed {job.seed}): another process is at it")


def _make(job: RowJob, place: Place, say: Callable[[str], None]) -> None:
    row, seed = job.row, job.seed
    command = shlex.join(row.command(seed, place))
    say(f"$ {command}")
    began = time.perf_counter()
    result = row.run(seed, place)
    recipe = {
        **environment(),
        **result.pop("checksums", {}),
        "seconds": round(time.perf_counter() - began, 1),
    }
    record = Record(row.name, row.folder, seed, row.identity(seed), command, rounded(result), recipe)
    say(f"{write_record(record, place.results)}: written after {recipe['seconds']:,.0f} s")


def collect(experiment: Experiment, scale: Scale, results: Path, seeds: Sequence[int] = ()) -> Results:
    """Gather what is recorded for an experiment; without `seeds`, of any of the first ten seeds."""
    rows = list(experiment.rows(scale))
    records = {
        row.name: [
            record
            for seed in (seeds or range(1, 11))
            if (record := RowJob(row, seed).record(results)) is not None
        ]
        for row in rows
    }
    return Results(scale, rows, records)


def rounded(value: Any) -> Any:
    """Keep six significant digits of every number, which is more than any of them can be trusted to."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value
