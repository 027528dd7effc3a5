"""Training runs of any task: from a configuration to a trained model in a run directory."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headwise.characters import unwritable
from headwise.config import Config
from headwise.config.keys import changed_keys
from headwise.errors import CheckpointError, ConfigError
from headwise.files import hold, remove_partial, write_text
from headwise.models.counting import parameter_count
from headwise.native.library import Library, find_library
from headwise.nn.device import find_device, find_precision
from headwise.nn.linear import Products
from headwise.nn.memory import TRAINING, check_fits
from headwise.nn.native_gemm import NativeProducts
from headwise.tasks.base import Prepared, TaskKind, set_precision
from headwise.tasks.registry import find_task
from headwise.training.checkpoint import Checkpoints, read_state
from headwise.training.loop import Trainer
from headwise.training.monitor import MEASURED, averaged_scores, record_measured
from headwise.training.parallel.workers import READY, Workers, join
from headwise.training.parallel.world import World
from headwise.training.progress import Progress
from headwise.training.task import Task
from headwise.training.trial import (
    choose_processes,
    choose_products,
    likely_workers,
    possible_numbers,
    take_part,
)

WORK = "headwise.tasks.run:work"  # what a worker process runs
_STOP_TIMEOUT = 5.0  # seconds for the first process to stop this one


@dataclass(frozen=True)
class TrainedRun:
    """Result of `train`: the run, its progress, and the scores of the averaged model on the development set."""

    run: Path
    progress: Progress
    parameters: int
    scores: dict[str, float]


def train(config: Config, run: Path, *, restart: bool = False, quiet: bool = False) -> TrainedRun:
    """Prepare the data, then train in the run directory, or resume from its last checkpoint.

    With `restart`, the results of an earlier training are removed first; without a checkpoint to resume from, the rest
    of an interrupted restart is removed. Raises a `HeadwiseError` for problems that the user can fix: data,
    configuration, device, disk, or a directory with other content.
    """
    kind, device = checked_task(config, run)
    if config.training.threads:
        torch.set_num_threads(config.training.threads)
    world = World.join(config.training.device, shares_batches=kind.shares_batches)
    if world.size > 1 and device.type == "cuda":
        device = torch.device("cuda", world.local_rank)
    threads = torch.get_num_threads()

    def say(line: str) -> None:
        if world.first and not quiet:
            print(line, file=sys.stderr, flush=True)

    resources = ExitStack()
    workers: Workers | None = None
    try:
        world.on_first(lambda: resources.enter_context(hold(run)))
        latest = None if restart else Checkpoints(run).latest()
        config = _with_known_choices(config, run, latest, world)
        config = config.model_copy(update={"data": config.data.with_languages()})
        can_choose = world.size == 1 and latest is None and device.type == "cpu"
        can_share = can_choose and kind.shares_batches
        if world.size == 1:
            workers = resources.enter_context(Workers(WORK, job_of(config, run)))
            workers.prepare(likely_workers(config.training, threads if can_share else 1))
        prepared = world.in_turn(lambda: _prepare(kind, config, run, latest, say))
        _check_memory(kind, config, prepared, device)
        model, task = build(kind, config, prepared, device)
        if latest is None:
            world.on_first(lambda: _remove_earlier_training(run, restart, say))
        _report_data(prepared, say)
        if workers is not None:
            processes = config.training.processes
            if processes == "auto":
                numbers = possible_numbers(threads, model) if can_share else [1]
                processes = choose_processes(task, config, threads, numbers, workers, say)
                config = config.with_overrides([f"training.processes={processes}"])
            if config.training.products == "auto" and can_choose:
                config = _with_fastest_products(task, config, max(1, threads // processes), say)
            world = workers.gather(processes, threads, {"do": "train", **job_of(config, run)})

        def begin() -> None:
            _write_run_files(config, run, prepared)
            say(_summary(config, model, device, world))

        before = averaged_scores(run)
        progress = _fit(task, config, run, device, world, begin, quiet=quiet)
        if world.first:
            record_measured(run, before, kind.signatures())
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
    return TrainedRun(run, progress, parameter_count(model), scores)


def checked_task(config: Config, run: Path) -> tuple[TaskKind, torch.device]:
    """Return the task and the device of a configuration; raises `ConfigError` and `DeviceError` if it is invalid."""
    if unwritable(str(run)):  # safetensors requires UTF-8
        raise ConfigError(f"{run}: expected a run directory whose name is UTF-8, found another")
    kind = find_task(config.task)
    kind.check(config)
    start = config.training.initialize_from
    if start is not None and Path(start).resolve() == run.resolve():
        raise ConfigError(
            f"training.initialize_from: expected another run than the one to train, found {start}"
        )
    device = find_device(config.training.device)
    find_precision(config.training.precision, device)
    _find_products(config)
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


def _check_memory(kind: TaskKind, config: Config, prepared: Prepared, device: torch.device) -> None:
    """Refuse a model whose training doesn't fit into memory; without `training.processes`, for one process."""
    processes = 1 if config.training.processes == "auto" else config.training.processes
    check_fits(
        lambda: kind.build(config, prepared),
        config.model,
        config.subwords.size,
        device,
        each=TRAINING * processes,
    )


def _report_data(prepared: Prepared, say: Callable[[str], None]) -> None:
    """Print the report on the prepared data."""
    if prepared.reused:
        say(f"{prepared.directory}: found ready")
    for line in prepared.report:
        say(line)


def work(received: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Train as a worker process (`Workers`), whose job and then orders are `received`.

    The first process has locked the run directory and prepared the data. After `READY`, carries out orders to time
    steps (`headwise.training.trial`) until an order to train. Raises a `HeadwiseError`, like `train`.
    """
    job = next(received)
    config, run = Config.from_tree(job["config"]), Path(job["run"])
    kind = find_task(config.task)
    device = torch.device("cpu")
    prepared = kind.prepare(config, run / "prepared", expected=None, say=lambda _: None)
    _, task = build(kind, config, prepared, device)
    yield READY
    try:
        for order in received:
            world = join(order)
            try:
                if order["do"] == "train":
                    config = Config.from_tree(order["config"])
                    _fit(task, config, run, device, world, lambda: None, quiet=True)
                    return
                take_part(task, config, world, order)
            finally:
                world.leave()
    except RuntimeError:
        # If the first process failed, it ends this one during the wait, and no second error is printed.
        time.sleep(_STOP_TIMEOUT)
        raise


def _fit(
    task: Task,
    config: Config,
    run: Path,
    device: torch.device,
    world: World,
    begin: Callable[[], None],
    *,
    quiet: bool,
) -> Progress:
    """Train on every rank; the first one calls `begin` after the run's last checkpoint, if any, has been loaded."""
    products = _find_products(config)
    trainer = Trainer(task, config, run, device=device, world=world, products=products, quiet=quiet)
    world.on_first(begin)
    return trainer.fit()


def build(
    kind: TaskKind, config: Config, prepared: Prepared, device: torch.device
) -> tuple[torch.nn.Module, Task]:
    """Build the model on its device, and its training task."""
    torch.manual_seed(config.training.seed)
    model = kind.build(config, prepared).to(device)
    set_precision(model, find_precision(config.training.precision, device))
    return model, kind.task(config, prepared, model)


def _with_known_choices(config: Config, run: Path, latest: Path | None, world: World) -> Config:
    """Replace `auto` by what the run was begun with, if it resumes; raises `ConfigError`.

    This concerns `training.processes` and `training.products`.
    """
    ours = config.training
    known = ours
    if latest is not None and (run / "config.yaml").exists():
        known = Config.load(run / "config.yaml").training
    changes = []
    if world.size > 1 and ours.processes != "auto":
        if known is ours or known.processes != ours.processes:
            raise ConfigError(
                f"training.processes: expected auto under torchrun, which decides the number, found {ours.processes}"
            )
        changes.append("training.processes=auto")
    if world.size == 1 and ours.processes == "auto":
        changes.append(f"training.processes={known.processes}")
    if ours.products == "auto":
        changes.append(f"training.products={known.products}")
    return config.with_overrides(changes) if changes else config


def job_of(config: Config, run: Path) -> dict[str, Any]:
    """Return the job of a worker process, for `headwise.training.parallel.workers.Workers`."""
    return {"config": config.model_dump(mode="json"), "run": str(run)}


def _find_products(config: Config) -> Products:
    """Return the matrix products of `training.products`; raises `ConfigError` where these can't be used."""
    if config.training.products != "native":
        return Products()
    library = find_library()
    if isinstance(library, Library):
        return NativeProducts(library)
    raise ConfigError(
        f"training.products: expected torch, because the native library can't be used ({library}), found native"
    )


def _with_fastest_products(task: Task, config: Config, threads: int, say: Callable[[str], None]) -> Config:
    """Replace `training.products=auto` by the faster choice with the CPU threads of one process."""
    if find_precision(config.training.precision, torch.device("cpu")) != torch.float32:
        return config
    library = find_library()
    products = "torch"
    if isinstance(library, Library):
        products = choose_products(task, config, threads, NativeProducts(library), say)
    else:
        say(f"training.products=torch, because the native library can't be used: {library}")
    return config.with_overrides([f"training.products={products}"])


def _prepare(
    kind: TaskKind, config: Config, run: Path, latest: Path | None, say: Callable[[str], None]
) -> Prepared:
    """Prepare the data; if the run has a checkpoint, check that it can resume with this configuration and data."""
    identity: dict[str, str] = {}
    if latest is None:
        _check_config_file(run)
    else:
        _check_resumable(config, run)
        identity = read_state(latest)["identity"]
    prepared = kind.prepare(config, run / "prepared", expected=identity.get("data"), say=say)
    for key, checksum in prepared.identity().items():
        if identity.get(key, checksum) != checksum:
            raise CheckpointError(
                f"{latest}: was trained with {key} {identity[key]}, found {checksum} in {prepared.directory}; "
                "use --restart to begin anew"
            )
    return prepared


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


def _write_run_files(config: Config, run: Path, prepared: Prepared) -> None:
    """Write config.yaml and the files for inference, and remove files that a kill left half-written."""
    remove_partial(run / "*")
    prepared.save(run)
    write_text(run / "config.yaml", config.to_yaml())


def _check_config_file(run: Path) -> None:
    """Raise `CheckpointError` if the folder has a config.yaml that Headwise didn't write."""
    file = run / "config.yaml"
    if file.exists():
        try:
            Config.load(file)
        except ConfigError as error:
            raise CheckpointError(
                f"{run}: expected a new folder or a run, found one whose config.yaml Headwise can't have written "
                f"({error})"
            ) from None


def _check_resumable(config: Config, run: Path) -> None:
    """Raise `CheckpointError` if a key has changed that must not change when the run resumes."""
    file = run / "config.yaml"
    if not file.exists():
        raise CheckpointError(f"{file}: there is no such file, though {run} has checkpoints; use --restart")
    if changed := changed_keys(Config.load(file), config):
        raise CheckpointError(
            f"{run}: was begun with {'; with '.join(changed)}; keep what it was begun with to go on, use another run "
            "directory, or --restart to begin anew"
        )


def _summary(config: Config, model: torch.nn.Module, device: torch.device, world: World) -> str:
    name = str(find_precision(config.training.precision, device)).removeprefix("torch.")
    ranks = f", {world.size} processes" if world.size > 1 else ""
    products = ", native matrix products" if config.training.products == "native" else ""
    size = f"{parameter_count(model):,} parameters"
    return f"{size}, {name} on {device}{ranks}{products}, configuration {config.digest()}"
