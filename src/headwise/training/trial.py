"""How many processes train fastest here: some optimizer steps with each number, which leave the model as it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from headwise.config import Config
from headwise.training.gradients import compute_gradients
from headwise.training.optimizer import Adam
from headwise.training.parallel import World
from headwise.training.task import Task
from headwise.training.workers import Workers

_SECONDS = 2.0  # of a trial, after its first step
_LEAST_STEPS = 3  # of a trial, after its first step
_STEP = 2.0  # seconds of a trial's step, at the most; else only some examples of each batch are computed
_WORTH = 60.0  # seconds of training from which on workers, who take seconds to start, can pay
_GAIN = 1.05  # how much faster more processes must be


@dataclass(frozen=True)
class Trial:
    """What a trial does: `fraction` is the inverse of the share of each batch that is computed."""

    fraction: int
    seconds: float


def candidates(threads: int) -> list[int]:
    """Numbers of processes to try on so many CPU threads: one, one for each thread, and halves in between."""
    return sorted({1, threads, *(threads // part for part in (2, 4) if threads // part > 1)})


def choose_processes(
    task: Task,
    config: Config,
    threads: int,
    numbers: Sequence[int],
    workers: Workers,
    say: Callable[[str], None],
) -> int:
    """Return which of `numbers` of processes, the first of which is 1, is the fastest, and say why.

    Workers are started only where there is a choice and the training is long enough to gain by it. Afterwards the
    parameters are what they were; random generators aren't.
    """
    if len(numbers) == 1:
        return 1
    alone = World()
    whole = time_steps(task, config, alone, Trial(1, 0.0)).seconds
    trial = Trial(max(1, math.ceil(whole / _STEP)), _SECONDS)
    left = config.training.max_steps * whole
    if config.training.max_minutes is not None:
        left = min(left, config.training.max_minutes * 60)
    if left < _WORTH:
        return 1
    speeds = {1: time_steps(task, config, alone, trial)}
    workers.keep(max(numbers) - 1)
    for number in numbers[1:]:
        order = {"do": "try", "fraction": trial.fraction, "seconds": trial.seconds}
        world = workers.meet(number, threads, order)
        speeds[number] = time_steps(task, config, world, trial)
        world.leave()
    torch.set_num_threads(threads)
    best = max(speeds, key=lambda number: speeds[number].tokens_per_second)
    if speeds[best].tokens_per_second < _GAIN * speeds[1].tokens_per_second:
        best = 1
    shown = ", ".join(
        f"{speed.tokens_per_second:,.0f} with {_amount(number, 'process', 'processes')} of "
        f"{_amount(max(1, threads // number), 'thread', 'threads')}"
        for number, speed in speeds.items()
    )
    say(f"training.processes={best}: target tokens/s in a trial: {shown}")
    return best


@dataclass(frozen=True)
class Speed:
    """What a trial measured: its fastest step, as whatever else runs here can only make a step slower."""

    seconds: float
    tokens: int

    @property
    def tokens_per_second(self) -> float:
        """Target tokens of all ranks."""
        return self.tokens / self.seconds


def time_steps(task: Task, config: Config, world: World, trial: Trial) -> Speed:
    """Time optimizer steps on the first batches, at a learning rate of zero; every rank calls this."""
    device = torch.device("cpu")
    batches = task.batches(0, 1)
    batches.share(world.rank, world.size * trial.fraction)
    stream = iter(batches)
    given = [next(stream) for _ in range(config.batch.accumulate)]
    batches.close()
    task.model.train()
    parameters = [p for p in task.model.parameters() if p.requires_grad]
    optimizer = Adam(parameters, config.optimizer)
    times: list[float] = []
    tokens, going = 0, True
    while going:
        began = time.perf_counter()
        tokens = compute_gradients(task, given, parameters, world, device).tokens
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - began)
        # The first step warms up.
        (left,) = world.sum(
            float(world.first and (len(times) <= _LEAST_STEPS or sum(times[1:]) < trial.seconds))
        )
        going = bool(left)
    return Speed(min(times[1:]), tokens)


def _amount(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
