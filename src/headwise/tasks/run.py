"""A training run, whatever is learned in it: from a configuration to a trained model in a run directory."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from headwise.characters import unwritable
from headwise.config import Config
from headwise.errors import CheckpointError, ConfigError
from headwise.files import hold, remove_partial, write_text
from headwise.models.counting import parameter_count
from headwise.nn.device import find_device, find_precision
from headwise.nn.memory import TRAINING, check_fits
from headwise.tasks.base import Prepared, TaskKind, set_precision
from headwise.tasks.registry import find_task
from headwise.training.checkpoint import Checkpoints, read_state
from headwise.training.loop import Trainer
from headwise.training.monitor import read_metrics
from headwise.training.parallel import World
from headwise.training.progress import Progress

# Keys that may change when a run resumes, for every task: they decide how long, how often and where, not what is
# computed.
_MAY_CHANGE = (
    "data.workers",
    "decoding",
    "training.max_steps",
    "training.max_minutes",
    "training.validate_every",
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
    precision = find_precision(config.training.precision, device)
    if config.training.threads:
        torch.set_num_threads(config.training.threads)
    world = World.join(config.training.device)
    if world.size > 1 and device.type == "cuda":
        device = torch.device("cuda", world.local_rank)

    def say(line: str) -> None:
        if world.first and not quiet:
            print(line, file=sys.stderr, flush=True)

    held = ExitStack()
    try:
        world.on_first(lambda: held.enter_context(hold(run)))
        latest = None if restart else Checkpoints(run).latest()
        prepared = world.in_turn(lambda: _prepare(kind, config, run, latest, say))
        check_fits(
            lambda: kind.build(config, prepared), config.model, config.subwords.size, device, each=TRAINING
        )
        torch.manual_seed(config.training.seed)
        model = kind.build(config, prepared).to(device)
        set_precision(model, precision)
        if latest is None:
            world.on_first(lambda: _make_way(run, restart, say))
        task = kind.task(config, prepared, model)
        trainer = Trainer(task, config, run, device=device, world=world, quiet=quiet)
        world.on_first(lambda: _write_down(config, run, prepared))
        if prepared.reused:
            say(f"{prepared.directory}: found ready")
        for line in [*prepared.report, _summary(config, model, device, precision, world)]:
            say(line)
        progress = trainer.fit()
    finally:
        held.close()
        world.leave()
    return TrainedRun(run, progress, parameter_count(model), _last_scores(run))


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


def _summary(
    config: Config, model: torch.nn.Module, device: torch.device, precision: torch.dtype, world: World
) -> str:
    name = str(precision).removeprefix("torch.")
    ranks = f", {world.size} processes" if world.size > 1 else ""
    return (
        f"{parameter_count(model):,} parameters, {name} on {device}{ranks}, configuration {config.digest()}"
    )
