"""A training run, whatever is learned in it: from a configuration to a trained model in a run directory."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headwise.characters import unwritable
from headwise.config import Config
from headwise.errors import CheckpointError, ConfigError
from headwise.files import hold, remove_partial, write_text
from headwise.models.counting import parameter_count
from headwise.nn.device import find_device, find_precision
from headwise.nn.memory import TRAINING, check_fits, machine_memory
from headwise.tasks.base import Prepared, TaskKind, set_precision
from headwise.tasks.registry import find_task
from headwise.training.checkpoint import Checkpoints, read_state
from headwise.training.loop import Trainer
from headwise.training.monitor import read_metrics
from headwise.training.parallel import World
from headwise.training.progress import Progress
from headwise.training.task import Task
from headwise.training.trial import Trial, candidates, choose_processes, time_steps
from headwise.training.workers import Workers, report_ready

# Keys that may change when a run resumes, for every task: they decide how long, how often and where, not what is
# computed.
_MAY_CHANGE = (
    "data.workers",
    "decoding",
    "training.max_steps",
    "training.max_minutes",
    "training.validate_every",
    "training.validate_share",
    "training.patience",
    "training.checkpoint_every",
    "training.average_last",
    "training.device",
    "training.threads",
    "training.log_every",
    "training.tensorboard",
)


@dataclass(frozen=True)
class TrainedRun:
    """What `train` leaves: where, how far, and the scores of the averaged model on the development data."""

    run: Path
    progress: Progress
    parameters: int
    scores: dict[str, float]


def train(config: Config, run: Path, *, restart: bool = False, quiet: bool = False) -> TrainedRun:
    """Prepare the data, then train in `run` from wherever it stands; `config.yaml` is written there.

    `restart` removes what an earlier training left in `run` first; so does a start that finds nothing to resume from,
    only what an interrupted `restart` left. Raises a `HeadwiseError` for anything the user
    can mend: data, configuration, device, disk, or a run directory that holds something else.
    """
    if unwritable(str(run)):
        raise ConfigError(
            f"{run}: expected a run directory whose name is UTF-8, found another"
        )  # safetensors' demand
    kind = find_task(config.task)
    kind.check(config)
    device = find_device(config.training.device)
    find_precision(config.training.precision, device)
    if kind.shares_batches is False and config.training.processes not in ("auto", 1):
        raise ConfigError(
            f"training.processes: expected 1 for task {config.task}, whose loss is of a whole batch, "
            f"found {config.training.processes}"
        )
    if device.type != "cpu" and config.training.processes not in ("auto", 1):
        raise ConfigError(
            f"training.processes: expected 1 on {device} (torchrun starts a process for each of several), "
            f"found {config.training.processes}"
        )
    if config.training.threads:
        torch.set_num_threads(config.training.threads)
    world = World.join(config.training.device)
    if world.size > 1 and device.type == "cuda":
        device = torch.device("cuda", world.local_rank)
    budget = torch.get_num_threads()

    def say(line: str) -> None:
        if world.first and not quiet:
            print(line, file=sys.stderr, flush=True)

    held = ExitStack()
    workers: Workers | None = None
    try:
        world.on_first(lambda: held.enter_context(hold(run)))
        latest = None if restart else Checkpoints(run).latest()
        config = _with_known_processes(config, run, latest, world)
        prepared = world.in_turn(lambda: _prepare(kind, config, run, latest, say))
        each = TRAINING * (1 if config.training.processes == "auto" else config.training.processes)
        check_fits(
            lambda: kind.build(config, prepared), config.model, config.subwords.size, device, each=each
        )
        model, task = _build(kind, config, prepared, device)
        if latest is None:
            world.on_first(lambda: _make_way(run, restart, say))
        if prepared.reused:
            say(f"{prepared.directory}: found ready")
        for line in prepared.report:
            say(line)
        if world.size == 1:
            workers = held.enter_context(Workers("headwise.tasks.worker", _job(config, run)))
            processes = config.training.processes
            if processes == "auto":
                processes = 1
                if latest is None and device.type == "cpu" and kind.shares_batches:
                    processes = _fastest(task, config, workers, say)
                config = config.with_overrides([f"training.processes={processes}"])
            world = workers.gather(processes, budget, {"do": "train", **_job(config, run)})

        def begin() -> None:
            _write_down(config, run, prepared)
            say(_summary(config, model, device, world))

        progress = _fit(task, config, run, device, world, begin, quiet=quiet)
    except RuntimeError:
        # Where a worker has ended, whatever waits for it fails, and says only that.
        if workers is not None and (failure := workers.failure()) is not None:
            raise failure from None
        raise
    finally:
        world.leave()
        held.close()
        torch.set_num_threads(budget)
    return TrainedRun(run, progress, parameter_count(model), _last_scores(run))


def work(config: Config, run: Path, orders: Iterator[dict[str, Any]]) -> None:
    """Be a worker of a training in `run`, whose first process holds the folder and has prepared the data.

    Carries out orders to try how fast it goes (`headwise.training.trial`) until one to train. Raises a `HeadwiseError`
    as `train` does.
    """
    kind = find_task(config.task)
    device = torch.device("cpu")
    prepared = kind.prepare(config, run / "prepared", expected=None, say=lambda _: None)
    _, task = _build(kind, config, prepared, device)
    report_ready()
    for order in orders:
        world = World.join_local(order["rank"], order["size"], order["threads"], Path(order["meeting"]))
        try:
            if order["do"] == "train":
                config = Config.from_tree(order["config"])
                _fit(task, config, run, device, world, lambda: None, quiet=True)
                return
            time_steps(task, config, world, Trial(order["fraction"], order["seconds"]))
        finally:
            world.leave()


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
    """Train, on every rank; the first one calls `begin` once it is known that the run's checkpoint can be resumed."""
    trainer = Trainer(task, config, run, device=device, world=world, quiet=quiet)
    world.on_first(begin)
    return trainer.fit()


def _build(
    kind: TaskKind, config: Config, prepared: Prepared, device: torch.device
) -> tuple[torch.nn.Module, Task]:
    """Build the model, on its device, and the task of training it."""
    torch.manual_seed(config.training.seed)
    model = kind.build(config, prepared).to(device)
    set_precision(model, find_precision(config.training.precision, device))
    return model, kind.task(config, prepared, model)


def _with_known_processes(config: Config, run: Path, latest: Path | None, world: World) -> Config:
    """Return the configuration with the number of processes that a run resumes with, where it says `auto`."""
    wanted = config.training.processes
    if world.size > 1:
        if wanted != "auto":
            raise ConfigError(
                f"training.processes: expected auto under torchrun, which decides the number, found {wanted}"
            )
        return config
    if wanted != "auto" or latest is None or not (run / "config.yaml").exists():
        return config
    return config.with_overrides(
        [f"training.processes={Config.load(run / 'config.yaml').training.processes}"]
    )


def _job(config: Config, run: Path) -> dict[str, Any]:
    return {"config": config.model_dump(mode="json"), "run": str(run)}


def _fastest(task: Task, config: Config, workers: Workers, say: Callable[[str], None]) -> int:
    """Return how many processes train fastest, of the numbers whose models fit the memory of this machine."""
    memory = machine_memory()
    model = sum(p.numel() for p in task.model.parameters()) * TRAINING
    threads = torch.get_num_threads()
    numbers = [n for n in candidates(threads) if n == 1 or memory is None or n * model < memory]
    return choose_processes(task, config, threads, numbers, workers, say)


def _prepare(
    kind: TaskKind, config: Config, run: Path, latest: Path | None, say: Callable[[str], None]
) -> Prepared:
    """Prepare the data; where the run has a checkpoint, check first that it resumes with all this."""
    identity: dict[str, str] = {}
    if latest is None:
        _check_ours(run)
    else:
        _check_same(kind, config, run)
        identity = read_state(latest)["identity"]
    prepared = kind.prepare(config, run / "prepared", expected=identity.get("data"), say=say)
    for key, found in prepared.identity().items():
        if identity.get(key, found) != found:
            raise CheckpointError(
                f"{latest}: was trained with {key} {identity[key]}, found {found} in {prepared.directory}; "
                "use --restart to begin anew"
            )
    return prepared


def _make_way(run: Path, restart: bool, say: Callable[[str], None]) -> None:
    """Remove what an earlier training left, but for the prepared data, where a start is a fresh one.

    What was there before is gone, or is resumed from, as soon as `latest` is gone, or as long as it isn't: whenever a
    kill comes, the checkpoints go last, and the next start finds by them that there is more to remove.
    """
    checkpoints = Checkpoints(run)
    if not restart:
        if not (left := checkpoints.steps()):
            return
        say(
            f"{run}: found {len(left)} checkpoints up to step {left[-1]} and no `latest` to resume from, as an "
            "interrupted start leaves them; removing them"
        )
    checkpoints.forget()
    for name in ("metrics.jsonl", "curves.png", "model.safetensors"):
        (run / name).unlink(missing_ok=True)
    shutil.rmtree(run / "tensorboard", ignore_errors=True)
    checkpoints.remove()


def _write_down(config: Config, run: Path, prepared: Prepared) -> None:
    """Write what goes with the model to come, and clear away what a kill left half-written."""
    remove_partial(run / "*")
    prepared.save(run)
    write_text(run / "config.yaml", config.to_yaml())


def _check_ours(run: Path) -> None:
    """Refuse to write over another program's config.yaml."""
    file = run / "config.yaml"
    if file.exists():
        try:
            Config.load(file)
        except ConfigError as error:
            raise CheckpointError(
                f"{run}: expected a new folder or a run, found one whose config.yaml Headwise can't have written "
                f"({error})"
            ) from None


def _check_same(kind: TaskKind, config: Config, run: Path) -> None:
    """Check that a run resumes with the configuration it was begun with, or one that computes the same."""
    file = run / "config.yaml"
    if not file.exists():
        raise CheckpointError(f"{file}: there is no such file, though {run} has checkpoints; use --restart")
    may_change = (*_MAY_CHANGE, *kind.may_change)
    before, now = _flat(Config.load(file).model_dump(mode="json")), _flat(config.model_dump(mode="json"))
    changed = [
        f"{key}={before.get(key)}, found {key}={now.get(key)} now"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and not any(f"{key}.".startswith(f"{may}.") for may in may_change)
    ]
    if changed:
        raise CheckpointError(
            f"{run}: was begun with {'; with '.join(changed)}; keep what it was begun with to go on, use another run "
            "directory, or --restart to begin anew"
        )


def _last_scores(run: Path) -> dict[str, float]:
    """Scores of the averaged model on the development data, empty while training hasn't ended."""
    averaged = [r for r in read_metrics(run / "metrics.jsonl") if r["kind"] == "averaged"]
    return (
        {key: value for key, value in averaged[-1].items() if key not in {"kind", "step"}} if averaged else {}
    )


def _flat(tree: dict[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _summary(config: Config, model: torch.nn.Module, device: torch.device, world: World) -> str:
    name = str(find_precision(config.training.precision, device)).removeprefix("torch.")
    ranks = f", {world.size} processes" if world.size > 1 else ""
    return (
        f"{parameter_count(model):,} parameters, {name} on {device}{ranks}, configuration {config.digest()}"
    )
