"""Runner of an experiment's rows: runs the jobs of this process's shard that have no record yet, one by one."""

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
    """A row with a seed."""

    row: Row
    seed: int

    def record(self, results: Path) -> Record | None:
        """Return the job's record, None if there is none or if its identity is another one."""
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
    """Return the jobs of an experiment: the rows that match a pattern in `rows`, with each seed.

    `shard` (i, n) selects every n-th job, starting with the i-th. Raises `ConfigError` for a pattern without a match.
    """
    all_rows = list(experiment.rows(scale))
    for pattern in rows:
        if not any(fnmatch.fnmatchcase(row.name, pattern) for row in all_rows):
            raise ConfigError(
                f"--rows: expected a name or pattern of {', '.join(row.name for row in all_rows)}, found {pattern!r}"
            )
    selected = [row for row in all_rows if not rows or any(fnmatch.fnmatchcase(row.name, p) for p in rows)]
    jobs = [RowJob(row, seed) for seed in (seeds or experiment.seeds) for row in selected]
    number, count = shard
    return jobs[number - 1 :: count]


def run(jobs: Sequence[RowJob], place: Place, say: Callable[[str], None]) -> None:
    """Run and record every job that has no record yet; a job that another process is running is skipped."""
    for job in jobs:
        if job.record(place.results) is not None:
            say(f"{job.row.name} (seed {job.seed}): recorded already")
            continue
        lock = place.runs / place.scale.name / f".{job.row.name}.seed{job.seed}"
        try:
            with hold(lock):
                _run_job(job, place, say)
        except TrainingError as error:
            if "another process" not in str(error):
                raise
            say(f"{job.row.name} (seed {job.seed}): another process is at it")


def _run_job(job: RowJob, place: Place, say: Callable[[str], None]) -> None:
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
    """Return the recorded results of an experiment, of `seeds` or, by default, of seeds 1 to 10."""
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
    """Round every float in nested values to six significant digits, more than any of them is accurate to."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value
