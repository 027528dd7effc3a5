"""Resolution of a configuration: what is left open gets what the run was begun with, or what trials find fastest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from headwise.config import Config
from headwise.config.keys import changed_keys
from headwise.errors import CheckpointError, ConfigError
from headwise.models.counting import parameter_count
from headwise.training.parallel.workers import Workers
from headwise.training.parallel.world import World
from headwise.training.products_trial import choose_products
from headwise.training.task import Task
from headwise.training.trial import Division, choose_processes, possible_numbers


def resolve(config: Config, run: Path, latest: Path | None, world: World) -> Config:
    """Replace what the run directory and the files' names decide: languages, and `auto` where a run resumes.

    `auto` is replaced in `training.processes` and `training.products`; `latest` is the checkpoint to resume from.

    Raises `ConfigError` for a number of processes that isn't torchrun's, and `CheckpointError` where a key has changed
    that must not when a run resumes, or the directory has a config.yaml that Headwise didn't write.
    """
    file = run / "config.yaml"
    begun = Config.load(file) if latest is not None and file.exists() else None
    ours = config.training
    known = ours if begun is None else begun.training
    changes = []
    if world.size > 1 and ours.processes != "auto":
        if known is ours or known.processes != ours.processes:
            raise ConfigError(
                f"training.processes: expected auto under torchrun, which decides the number, found {ours.processes}"
            )
        changes.append("training.processes=auto")
    if world.size == 1 and ours.processes == "auto":
        changes.append(f"training.processes={known.processes}")
        if not ours.threads:  # that a trial may have chosen, too
            changes.append(f"training.threads={known.threads}")
    if ours.products == "auto":
        changes.append(f"training.products={known.products}")
    if latest is not None:
        _check_resumable(config, begun, run)
    elif file.exists():
        _check_own(file)
    resolved = config.with_overrides(changes)
    return resolved.model_copy(update={"data": resolved.data.with_languages()})


def resolve_by_trials(
    task: Task,
    config: Config,
    threads: int,
    workers: Workers,
    say: Callable[[str], None],
    *,
    fresh: bool,
    shared: bool,
    usual: Division | None = None,
) -> Config:
    """Replace `auto` by what trials find fastest, with the CPU `threads` of all processes, or with fewer.

    Processes are tried if they can share the batches (`shared`), against the `usual` division, and products if the
    training is `fresh` and on a CPU; otherwise there is one process, and products are left to be chosen when the run is
    begun anew.
    """
    processes, products, changes = config.training.processes, config.training.products, []
    if processes == "auto":
        numbers = possible_numbers(threads, task.model) if shared else [1]
        division = choose_processes(task, config, threads, numbers, workers, say, usual)
        processes = division.processes
        if division.threads != threads:
            threads = division.threads
            changes.append(f"training.threads={threads}")
    if products == "auto" and fresh:
        products = choose_products(task, config, max(1, threads // processes), say)
    return config.with_overrides([*changes, f"training.processes={processes}", f"training.products={products}"])


def resolve_again(
    task: Task, config: Config, resolved: Config, threads: int, workers: Workers, say: Callable[[str], None]
) -> Config:
    """Try the numbers of processes again during training, as other programs may have begun or ended since.

    `resolved` is what `resolve_by_trials` or this function made of `config` the last time.
    """
    now = resolved.training
    usual = Division(int(now.processes), now.threads or threads)
    config = config.with_overrides([f"training.products={now.products}"])
    return resolve_by_trials(task, config, threads, workers, say, fresh=False, shared=True, usual=usual)


def summary(config: Config, model: nn.Module, device: torch.device, world: World) -> str:
    """Return what is trained, and how, as one line."""
    name = str(getattr(model, "compute_dtype", torch.float32)).removeprefix("torch.")
    ranks = f", {world.size} processes" if world.size > 1 else ""
    products = ", native matrix products" if config.training.products == "native" else ""
    size = f"{parameter_count(model):,} parameters"
    return f"{size}, {name} on {device}{ranks}{products}, configuration {config.digest()}"


def _check_resumable(config: Config, begun: Config | None, run: Path) -> None:
    """Raise `CheckpointError` if a key has changed that must not change when the run resumes."""
    if begun is None:
        raise CheckpointError(
            f"{run / 'config.yaml'}: there is no such file, though {run} has checkpoints; use --restart"
        )
    if changed := changed_keys(begun, config):
        raise CheckpointError(
            f"{run}: was begun with {'; with '.join(changed)}; keep what it was begun with to go on, use another run "
            "directory, or --restart to begin anew"
        )


def _check_own(file: Path) -> None:
    """Raise `CheckpointError` if a config.yaml isn't one that Headwise wrote."""
    try:
        Config.load(file)
    except ConfigError as error:
        raise CheckpointError(
            f"{file.parent}: expected a new folder or a run, found one whose config.yaml Headwise can't have written "
            f"({error})"
        ) from None
