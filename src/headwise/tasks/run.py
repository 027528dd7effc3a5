"""Training runs of any task: from a configuration to a trained model in a run directory."""

from __future__ import annotations

import json
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from headwise.characters import unwritable
from headwise.checkpoints import read_state
from headwise.config import Config
from headwise.errors import CheckpointError, ConfigError
from headwise.files import hold, remove_partial, write_text
from headwise.metrics import MEASURED, averaged_scores
from headwise.models.build import ARCHITECTURES, build_for_training
from headwise.models.counting import parameter_count
from headwise.nn.attention import registered
from headwise.nn.device import find_device, find_precision
from headwise.nn.positions import position_encoding
from headwise.plugins import import_modules
from headwise.shipped.runs import find_run
from headwise.tasks.base import Prepared, TaskKind
from headwise.tasks.registry import TASKS, find_task
from headwise.training.checkpoint import Checkpoints
from headwise.training.loop import Trainer
from headwise.training.monitor import record_measured
from headwise.training.parallel.workers import READY, Workers, join
from headwise.training.parallel.world import World
from headwise.training.products_trial import find_products
from headwise.training.progress import Progress
from headwise.training.resolution import resolve, resolve_again, resolve_by_trials, summary
from headwise.training.trial import likely_workers, possible_numbers, take_part
from headwise.weights import UnfinishedRunWarning

WORK = "headwise.tasks.run:work"  # what a worker process runs
_STOP_TIMEOUT = 5.0  # seconds for the first process to stop this one
_MAIN = "__main__"  # a script or notebook, which no other process can import


@dataclass(frozen=True)
class TrainingResult:
    """Result of `train`: the run, its progress, and the scores of the averaged model on the development set."""

    run: Path
    progress: Progress
    parameters: int
    scores: dict[str, float]


def train(
    config: Config,
    run: Path,
    *,
    restart: bool = False,
    quiet: bool = False,
    listener: Callable[[dict[str, Any]], None] | None = None,
) -> TrainingResult:
    """Prepare the data, then train in the run directory, or resume from its last checkpoint.

    `listener` is called with each record of metrics.jsonl, in this process. With `restart`, the results of an earlier
    training are removed first; without a checkpoint to resume from, the rest of an interrupted restart is. Raises a
    `HeadwiseError` for what the user can fix: data, configuration, device, disk, or a directory with other content.
    """
    kind, device = checked_task(config, run)
    config = _with_imports(config)
    world, device = _join(config, kind, device)
    threads = torch.get_num_threads()

    def say(line: str) -> None:
        if world.first and not quiet:
            print(line, file=sys.stderr, flush=True)

    resources = ExitStack()
    workers: Workers | None = None
    try:
        world.on_first(lambda: resources.enter_context(hold(run)))
        latest = None if restart else Checkpoints(run).latest()
        if latest is None and not restart:
            world.on_first(lambda: _check_no_model(run))
        known = world.in_turn(lambda: resolve(config, run, latest, world))
        fresh = world.size == 1 and latest is None and device.type == "cpu"
        shared = fresh and kind.shares_batches
        if world.size == 1:
            threads = known.training.threads or threads
            torch.set_num_threads(threads)
            workers = resources.enter_context(Workers(WORK, job_of(known, run)))
            workers.prepare(likely_workers(known.training, threads if shared else 1))
        prepared = world.in_turn(lambda: _prepared(kind, known, run, latest, say))
        model = build_for_training(lambda: kind.build(known, prepared), known, device, fits=True)
        task = kind.task(known, prepared, model)
        if latest is None:
            world.on_first(lambda: _remove_earlier_training(run, restart, say))
        for line in [*([f"{prepared.directory}: found ready"] if prepared.reused else []), *prepared.report]:
            say(line)
        before = averaged_scores(run)
        choice = shared and known.training.processes == "auto" and len(possible_numbers(threads, model)) > 1
        resolved, began = known, time.perf_counter()
        if workers is not None:
            resolved = resolve_by_trials(task, known, threads, workers, say, fresh=fresh, shared=shared)
        trial = time.perf_counter() - began if choice else None
        while True:
            if workers is not None:
                torch.set_num_threads(resolved.training.threads or threads)
                order = {"do": "train", "trial": trial, **job_of(resolved, run)}
                world = workers.gather(int(resolved.training.processes), threads, order)
            trainer = Trainer(task, resolved, run, device=device, world=world, quiet=quiet, trial=trial)
            trainer.monitor.listener = listener
            world.on_first(partial(_write_begun, run, resolved, prepared))
            say(summary(resolved, model, device, world))
            progress = trainer.fit()
            if workers is None or not trainer.trial_is_due:
                break
            world.leave()
            world, began = World(), time.perf_counter()
            say(f"step {progress.step}: trying the numbers of processes again")
            resolved = resolve_again(task, known, resolved, threads, workers, say)
            trial = time.perf_counter() - began
        if world.first:
            record_measured(run, before, kind.signatures(), task.measured())
    except RuntimeError:
        # If a worker has exited, the collective operation fails with an unspecific error; raise the worker's own.
        if workers is not None and (failure := workers.failure()) is not None:
            raise failure from None
        raise
    finally:
        world.leave()
        resources.close()
        torch.set_num_threads(threads)
    scores = {key: value for key, value in averaged_scores(run).items() if key not in ("kind", "step")}
    return TrainingResult(run, progress, parameter_count(model), scores)


def _join(config: Config, kind: TaskKind, device: torch.device) -> tuple[World, torch.device]:
    """Join the ranks of torchrun, if any; return them and this one's device. Sets this rank's share of the threads."""
    world = World.join(config.training.device, shares_batches=kind.shares_batches)
    if config.training.threads:
        torch.set_num_threads(max(1, config.training.threads // world.local_size))
    if world.size > 1 and device.type == "cuda":
        device = torch.device("cuda", world.local_rank)
    return world, device


def _write_begun(run: Path, resolved: Config, prepared: Prepared) -> None:
    """Write what a run begins with, after the last checkpoint, if any, has been loaded."""
    remove_partial(run / "*")
    prepared.save(run)
    write_text(run / "config.yaml", resolved.to_yaml())


def _prepared(kind: TaskKind, config: Config, run: Path, latest: Path | None, say: Callable[[str], None]) -> Prepared:
    """Prepare a run's data, or find it prepared; raises `CheckpointError` if a checkpoint was trained with other."""
    trained: dict[str, str] = {} if latest is None else read_state(latest)["identity"]
    prepared = kind.prepare(config, run / "prepared", expected=trained.get("data"), say=say)
    for key, checksum in prepared.identity().items():
        if trained.get(key, checksum) != checksum:
            raise CheckpointError(
                f"{latest}: was trained with {key} {trained[key]}, found {checksum} in {prepared.directory}; "
                "use --restart to begin anew"
            )
    return prepared


def _with_imports(config: Config) -> Config:
    """Name the modules of a configuration's parts in it, for child processes and for who opens the run.

    Parts that a script or a notebook registers itself, which no other process can import, train in one process.
    """
    modules = _modules_of(config)
    changes: list[str] = []
    if _MAIN in modules:
        modules.remove(_MAIN)
        if config.training.processes not in ("auto", 1):
            raise ConfigError(
                f"training.processes: expected 1, as a part of the model is registered by the script itself, which "
                f"other processes can't import, found {config.training.processes}; put it into a module"
            )
        changes.append("training.processes=1")
    import_modules(modules)
    return config.with_overrides([*changes, f"imports={json.dumps(modules)}"]) if modules or changes else config


def _modules_of(config: Config) -> list[str]:
    """Return the modules outside Headwise that a configuration names, and those that register its parts."""
    model = config.model
    modules = {*config.imports, TASKS.get(config.task, "headwise").partition(":")[0]}
    if model.architecture in ARCHITECTURES:
        modules.add(ARCHITECTURES[model.architecture].__module__)
    with suppress(ConfigError):  # an unknown name is an error when the model is built
        modules.add(position_encoding(model.positions).module)
    for name in (model.attention, model.cross_attention or model.attention):
        with suppress(ConfigError):
            modules.add(registered(name).module)
    return sorted(module for module in modules if module.partition(".")[0] != "headwise")


def checked_task(config: Config, run: Path) -> tuple[TaskKind, torch.device]:
    """Return the task and the device of a configuration; raises `ConfigError` and `DeviceError` if it is invalid."""
    if unwritable(str(run)):  # safetensors requires UTF-8
        raise ConfigError(f"{run}: expected a run directory whose name is UTF-8, found another")
    kind = find_task(config.task)
    kind.check(config)
    start = config.training.initialize_from
    if start is not None and find_run(start).resolve() == run.resolve():
        raise ConfigError(f"training.initialize_from: expected another run than the one to train, found {start}")
    find_products(config.training.products)
    device = find_device(config.training.device)
    find_precision(config.training.precision, device)
    if not kind.shares_batches and config.training.processes not in ("auto", 1):
        raise ConfigError(
            f"training.processes: expected 1 for task {config.task}, whose loss is of a whole batch, "
            f"found {config.training.processes}"
        )
    if device.type != "cpu" and config.training.processes not in ("auto", 1):
        raise ConfigError(
            f"training.processes: expected 1 on {device} (torchrun starts a process for each of several), "
            f"found {config.training.processes}"
        )
    return kind, device


def work(received: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Train as a worker process (`Workers`), whose job and then orders are `received`.

    The first process has locked the run directory and prepared the data. After `READY`, carries out orders to time
    steps (`headwise.training.trial`) or to train until the training ends. Raises a `HeadwiseError`, like `train`.
    """
    job = next(received)
    warnings.simplefilter("ignore", UnfinishedRunWarning)  # the first process has said it
    config, run = Config.from_tree(job["config"]), Path(job["run"])
    kind = find_task(config.task)
    device = torch.device("cpu")
    prepared = kind.prepare(config, run / "prepared", expected=None, say=lambda _: None)
    model = build_for_training(lambda: kind.build(config, prepared), config, device)
    task = kind.task(config, prepared, model)
    yield READY
    try:
        for order in received:
            world = join(order)
            try:
                if order["do"] == "train":
                    resolved = Config.from_tree(order["config"])
                    trainer = Trainer(task, resolved, run, device=device, world=world, quiet=True, trial=order["trial"])
                    world.on_first(lambda: None)  # the first process writes the run's files
                    trainer.fit()
                    if not trainer.trial_is_due:
                        return
                else:
                    take_part(task, config, world, order)
            finally:
                world.leave()
    except RuntimeError:
        # If the first process failed, it ends this one during the wait, and no second error is printed.
        time.sleep(_STOP_TIMEOUT)
        raise


def job_of(config: Config, run: Path) -> dict[str, Any]:
    """Return the job of a worker process, for `headwise.training.parallel.workers.Workers`."""
    return {"config": config.model_dump(mode="json"), "run": str(run)}


def _check_no_model(run: Path) -> None:
    """Raise `CheckpointError` for a model that no checkpoint here could make again, as an imported run's."""
    if (run / "model.safetensors").exists() and not Checkpoints(run).steps():
        raise CheckpointError(
            f"{run}: expected a new directory, or a checkpoint to resume from, found a trained model without one; use "
            "another run directory, or --restart to replace the model"
        )


def _remove_earlier_training(run: Path, restart: bool, say: Callable[[str], None]) -> None:
    """Remove the results of an earlier training, but not the prepared data, before a training that doesn't resume.

    `latest` goes first and the checkpoints go last. So after a kill in between, nothing resumes, and the next training
    finds checkpoints without `latest` and removes the rest.
    """
    checkpoints = Checkpoints(run)
    if not restart:
        if not (steps := checkpoints.steps()):
            return
        say(
            f"{run}: found {len(steps)} checkpoints up to step {steps[-1]} and no `latest` to resume from, as an "
            "interrupted start leaves them; removing them"
        )
    checkpoints.forget()
    for name in ("metrics.jsonl", MEASURED, "curves.png", "model.safetensors"):
        (run / name).unlink(missing_ok=True)
    shutil.rmtree(run / "tensorboard", ignore_errors=True)
    checkpoints.remove()
