"""Registry of experiments, and the runner of their rows: of this process's shard, those that have no record yet.

To add an experiment, write a module with an `Experiment` and add it to `NAMES`.
"""

from __future__ import annotations

import difflib
import fnmatch
import importlib
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.errors import ConfigError, TrainingError
from headwise.experiments.harness.outcome import Finding
from headwise.experiments.harness.records import (
    Record,
    Results,
    environment,
    read_record,
    record_file,
    write_record,
)
from headwise.experiments.harness.rows import Place, Row
from headwise.experiments.scales import Scale
from headwise.files import hold

# Name -> (attribute of a module of `headwise.experiments`, line of help), in the order of the report.
NAMES = {
    "table1": ("table1:EXPERIMENT", "Complexity, path length, gradient flow of four kinds of layers."),
    "complexity": ("complexity:EXPERIMENT", "Time, operations and memory of a layer against n and d."),
    "table2": ("table2:EXPERIMENT", "The Transformer against the systems that it replaced."),
    "tuning": ("table2:TUNING", "The learning rates that table 2's systems were tuned with."),
    "table3": ("table3:EXPERIMENT", "Every variation of the Transformer, relative to its base."),
    "ablation": ("table3:ABLATION", "The Transformer without positions, residuals or scaling."),
    "figures": ("figures:EXPERIMENT", "Schedule, sinusoids, attention, head roles, label smoothing."),
    "sqrt-dk": ("attention:SCALING", "Why scores are divided by the square root of d_k."),
    "permutation": ("attention:PERMUTATION", "Attention without positions can't tell orders apart."),
    "label-smoothing": ("label_smoothing:EXPERIMENT", "Perplexity, BLEU and calibration."),
    "warm-up": ("normalization:WARM_UP", "A rising learning rate against none."),
    "norm": ("normalization:ORDER", "Normalization before or after a sub-layer."),
    "depth": ("normalization:DEPTH", "6 to 24 layers, normalized before and after."),
    "extrapolation": ("extrapolation:EXPERIMENT", "Positions at lengths beyond training."),
}


@dataclass(frozen=True)
class Experiment:
    """An experiment: `rows` makes its rows at a scale, `find` evaluates their results."""

    name: str
    title: str
    rows: Callable[[Scale], Sequence[Row]]
    find: Callable[[Results], Finding]
    seeds: tuple[int, ...] = (1,)


def find_experiment(name: str) -> Experiment:
    """Import an experiment by name; raises `ConfigError` with the closest name."""
    if name not in NAMES:
        closest = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {closest[0]}?" if closest else f"known: {', '.join(NAMES)}, report"
        raise ConfigError(f"reproduce: expected the name of an experiment, found {name!r} ({hint})")
    module, _, attribute = NAMES[name][0].partition(":")
    return getattr(importlib.import_module(f"headwise.experiments.{module}"), attribute)


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
