"""Registry of experiments, and the runner of their rows that have no record yet.

To add an experiment, write a module with an `Experiment` and add it to `NAMES`.
"""

from __future__ import annotations

import fnmatch
import importlib
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.errors import ConfigError, LockedError, TrainingError, suggestion
from headwise.experiments.harness.outcome import Finding
from headwise.experiments.harness.records import (
    Record,
    Results,
    environment,
    read_record,
    record_file,
    recorded_seeds,
    write_record,
)
from headwise.experiments.harness.rows import INTERRUPTED, ExperimentRow, Place
from headwise.experiments.scales import Scale
from headwise.files import disk_errors, hold
from headwise.processes import child_environment, python_command

# Name -> (attribute of a module of `headwise.experiments`, line of help), in the order of the report.
NAMES = {
    "table1": ("table1:EXPERIMENT", "Complexity and path length of four kinds of layers."),
    "complexity": ("complexity:EXPERIMENT", "Time, operations and memory of a layer against n and d."),
    "trials": ("trials:TRIALS", "What the models of tables 2 and 3 are tuned with."),
    "table2": ("table2:EXPERIMENT", "The Transformer and the systems it replaced, tuned alike."),
    "table3": ("table3:EXPERIMENT", "Variations of the Transformer, and parts left out of it."),
    "gradients": ("gradients:EXPERIMENT", "What arrives of a gradient at words far away."),
    "heads": ("heads:EXPERIMENT", "What the heads of a trained Transformer attend to."),
    "figures": ("figures:EXPERIMENT", "Schedule, sinusoids, label smoothing."),
    "sqrt-dk": ("attention:SCALING", "Why scores are divided by the square root of d_k."),
    "permutation": ("attention:PERMUTATION", "Attention without positions can't tell orders apart."),
    "label-smoothing": ("label_smoothing:EXPERIMENT", "Perplexity, BLEU and calibration."),
    "norm": (
        "normalization:EXPERIMENT",
        "Normalization before or after a sub-layer, with and without warm-up.",
    ),
    "ingredients": (
        "ingredients:EXPERIMENT",
        "From the paper's recipe to ours, one ingredient after the other.",
    ),
    "text-size": (
        "text_size:EXPERIMENT",
        "Three systems on an eighth, a quarter, a half and all of the text.",
    ),
    "extrapolation": ("extrapolation:EXPERIMENT", "Positions at lengths beyond training."),
    "recall": ("recall:EXPERIMENT", "What each kind of attention finds again at a distance."),
    "wmt14": ("wmt14:EXPERIMENT", "The paper's base model, from the download to both kinds of BLEU."),
}

# What `headwise reproduce all` runs: the rows of a stage depend on what those before have chosen or trained.
STAGES = (
    ("table1", "sqrt-dk", "permutation", "extrapolation", "recall", "trials"),
    ("table2", "table3", "ingredients"),
    ("text-size", "gradients"),
    ("heads", "norm"),
)


@dataclass(frozen=True)
class Experiment:
    """An experiment: `rows` makes its rows at a scale, `find` evaluates their results.

    If rows depend on results of others, `tune` returns the scale with what these decide.
    """

    name: str
    title: str
    rows: Callable[[Scale], Sequence[ExperimentRow]]
    find: Callable[[Results], Finding]
    seeds: tuple[int, ...] = (1,)  # none: the scale's
    scale: str = ""  # the only one that it is run at; empty: any
    tune: Callable[[Scale, Path], Scale] | None = None

    def at(self, scale: Scale, results: Path) -> Scale:
        """Return the scale with the choices that depend on recorded results, if any do."""
        return self.tune(scale, results) if self.tune is not None else scale


def find_experiment(name: str) -> Experiment:
    """Import an experiment by name; raises `ConfigError` with all names."""
    if name not in NAMES:
        from headwise.experiments.paper import TABLES

        if name in TABLES:
            raise ConfigError(f"{name}: expected --show beside it, as no experiment is about it, found none")
        known = suggestion(name, (*NAMES, "all", "report", "list"))
        raise ConfigError(f"reproduce: expected the name of an experiment, found {name!r} {known}")
    module, _, attribute = NAMES[name][0].partition(":")
    return getattr(importlib.import_module(f"headwise.experiments.{module}"), attribute)


@dataclass(frozen=True)
class RowJob:
    """A row with a seed."""

    row: ExperimentRow
    seed: int

    def record(self, results: Path) -> Record | None:
        """Return the job's record, None if there is none or if its identity is another one."""
        record = read_record(record_file(results, self.row.scale, self.row.name, self.seed))
        return record if record is not None and record.identity == self.row.identity(self.seed) else None


def plan(
    experiment: Experiment,
    scale: Scale,
    *,
    results: Path | None = None,
    rows: Sequence[str] = (),
    seeds: Sequence[int] = (),
) -> list[RowJob]:
    """Return the jobs of an experiment: the rows that match a pattern in `rows`, with each seed.

    Rows that depend on others' results need `results`, their folder; those whose others aren't recorded are left out.
    Raises `ConfigError` for a pattern without a match.
    """
    if results is not None:
        scale = experiment.at(scale, results)
    all_rows = list(experiment.rows(scale))
    for pattern in rows:
        if not any(fnmatch.fnmatchcase(row.name, pattern) for row in all_rows):
            raise ConfigError(
                f"--rows: expected a name or pattern of {', '.join(row.name for row in all_rows)}, found {pattern!r}"
            )
    chosen = [row for row in all_rows if selected(row, rows)]
    return [RowJob(row, seed) for seed in (seeds or experiment.seeds or scale.seeds) for row in chosen]


def selected(row: ExperimentRow, patterns: Sequence[str]) -> bool:
    """Whether a row's name matches one of the patterns, or there are none."""
    return not patterns or any(fnmatch.fnmatchcase(row.name, pattern) for pattern in patterns)


def run(jobs: Sequence[RowJob], place: Place, say: Callable[[str], None]) -> None:
    """Run and record every job that has no record yet; a job that another process is running is skipped."""
    for job in jobs:
        if job.record(place.results) is not None:
            say(f"{job.row.name} (seed {job.seed}): recorded already")
            continue
        try:
            with hold(place.lock(job.row.name, job.seed)):
                if job.record(place.results) is None:  # another process may have finished it
                    _run_job(job, place, say)
        except LockedError:
            say(f"{job.row.name} (seed {job.seed}): another process is at it")


def _run_job(job: RowJob, place: Place, say: Callable[[str], None]) -> None:
    row, seed = job.row, job.seed
    command = shlex.join(row.command(seed, place))
    say(f"$ {command}")
    folder = record_file(place.results, row.scale, row.name, seed).parent
    with disk_errors(folder):  # before hours of training
        folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    result = row.run(seed, place)
    recipe = {
        **environment(),
        **result.pop("checksums", {}),
        "seconds": round(time.perf_counter() - began, 1),
    }
    record = Record(row.name, row.scale, seed, row.identity(seed), command, rounded(result), recipe)
    say(f"{write_record(record, place.results)}: written after {recipe['seconds']:,.0f} s")


def stage_jobs(place: Place, stage: Sequence[str]) -> list[tuple[str, RowJob]]:
    """Return the jobs of a stage's experiments at the scale, each with the name of its experiment."""
    return [
        (name, job)
        for name in stage
        if (experiment := find_experiment(name)).scale in ("", place.scale.name)
        for job in plan(experiment, place.scale, results=place.results)
    ]


def unfinished(place: Place, stage: Sequence[str], rows: Sequence[str] = ()) -> list[tuple[str, RowJob]]:
    """Return a stage's jobs without a record; only of rows that match a pattern in `rows`, if there are any."""
    return [
        (name, job)
        for name, job in stage_jobs(place, stage)
        if job.record(place.results) is None and selected(job.row, rows)
    ]


def finish(
    place: Place,
    workers: int,
    say: Callable[[str], None],
    stages: Sequence[Sequence[str]] = STAGES,
    rows: Sequence[str] = (),
) -> None:
    """Run what is unfinished of all stages, one after the other: `workers` rows at a time, one thread each.

    Only rows that match a pattern in `rows`, if there are any. Every row is a command of its own, which holds the row,
    so a second call, or one after a kill, continues what is left. Raises `TrainingError`, after all others, for rows
    that failed.
    """
    failed: list[str] = []
    stopped = threading.Event()
    for stage in stages:
        jobs = unfinished(place, stage, rows)
        say(f"{', '.join(stage)}: {len(jobs)} rows to run, {workers} at a time")
        pool = ThreadPoolExecutor(workers)
        try:
            children = [pool.submit(_run_child, name, job, place, stopped) for name, job in jobs]
            for (_, job), child in zip(jobs, children, strict=True):
                if child.result():
                    failed.append(f"{job.row.name} (seed {job.seed})")
        finally:
            pool.shutdown(cancel_futures=True)
    if failed:
        raise TrainingError(
            f"all: expected every row to end well, found {len(failed)} that failed: {', '.join(failed)}"
        )


def _run_child(name: str, job: RowJob, place: Place, stopped: threading.Event) -> int:
    """Run one row in a process of its own; returns its exit code.

    Raises `KeyboardInterrupt` if the row was stopped; `stopped` then keeps others from being started.
    """
    if stopped.is_set():
        raise KeyboardInterrupt
    device = [] if place.machine.device is None else ["--device", place.machine.device]
    command = python_command(
        *("-m", "headwise", "reproduce", name, "--scale", place.scale.name),
        *("--rows", job.row.name, "--seeds", str(job.seed), "--threads", "1", *device),
        *("--processes", str(place.machine.processes)),
        *("--out", str(place.runs), "--results", str(place.results)),
    )
    environment = {**child_environment(), "OMP_NUM_THREADS": "1"}
    code = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode
    if code in INTERRUPTED:
        stopped.set()
        raise KeyboardInterrupt
    return code


def collect(experiment: Experiment, scale: Scale, results: Path, seeds: Sequence[int] = ()) -> Results:
    """Return the recorded results of an experiment, of `seeds` or, by default, of all that are recorded."""
    scale = experiment.at(scale, results)
    rows = list(experiment.rows(scale))
    records = {
        row.name: [
            record
            for seed in (seeds or recorded_seeds(results, row.scale, row.name))
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
