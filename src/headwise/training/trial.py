"""Selection of `training.processes=auto`: a trial of some optimizer steps with each number of processes."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from headwise.config import Config
from headwise.training.gradients import LossNotFinite, compute_gradients
from headwise.training.optimizer import Adam
from headwise.training.parallel import World
from headwise.training.task import Task
from headwise.training.workers import Workers

_SECONDS = 2.0  # duration of a trial, without its first step
_LEAST_STEPS = 3  # least steps of a trial, without its first step
_STEP = 2.0  # seconds; if a step takes longer, only a part of the examples of each batch is computed
_WORTH = 60.0  # seconds of training from which on workers, which take seconds to start, may pay off
_GAIN = 1.05  # least speedup of more processes


@dataclass(frozen=True)
class Trial:
    """Settings of a trial: `seconds` of steps that compute one of `fraction` parts of each batch."""

    fraction: int
    seconds: float


def candidates(threads: int) -> list[int]:
    """Return the numbers of processes to try: 1, one per CPU thread, and a half and a quarter of those."""
    return sorted({1, threads, *(threads // part for part in (2, 4) if threads // part > 1)})


def choose_processes(
    task: Task,
    config: Config,
    threads: int,
    numbers: Sequence[int],
    workers: Workers,
    say: Callable[[str], None],
) -> int:
    """Return the fastest of the `numbers` of processes, of which the first is 1, and print the measured speeds.

    Workers are started only if there is a choice and the training is long enough to gain by it. The parameters are
    unchanged afterwards, if all gradients were finite; the random generators aren't. Where a loss isn't finite, the
    result is 1, and the training reports the loss when it meets it again.
    """
    if len(numbers) == 1:
        return 1
    try:
        speeds = _measure(task, config, threads, numbers, workers)
    except LossNotFinite as problem:
        say(f"training.processes=1: the trial ended early, because {problem}")
        return 1
    if speeds is None:
        return 1
    best = max(speeds, key=lambda number: speeds[number].tokens_per_second)
    if speeds[best].tokens_per_second < _GAIN * speeds[1].tokens_per_second:
        best = 1
    measured = ", ".join(
        f"{speed.tokens_per_second:,.0f} with {_amount(number, 'process', 'processes')} of "
        f"{_amount(max(1, threads // number), 'thread', 'threads')}"
        for number, speed in speeds.items()
    )
    say(f"training.processes={best}: target tokens/s in a trial: {measured}")
    return best


def _measure(
    task: Task, config: Config, threads: int, numbers: Sequence[int], workers: Workers
) -> dict[int, Speed] | None:
    """Return the speed with each number of processes; None if the training is too short to gain by workers.

    Raises `LossNotFinite`.
    """
    alone = World()
    whole = time_steps(task, config, alone, Trial(1, 0.0)).seconds
    trial = Trial(max(1, math.ceil(whole / _STEP)), _SECONDS)
    training_seconds = config.training.max_steps * whole
    if config.training.max_minutes is not None:
        training_seconds = min(training_seconds, config.training.max_minutes * 60)
    if training_seconds < _WORTH:
        return None
    speeds = {1: time_steps(task, config, alone, trial)}
    workers.keep(max(numbers) - 1)
    try:
        for number in numbers[1:]:
            world = workers.meet(number, threads, {"do": "try", **asdict(trial)})
            try:
                speeds[number] = time_steps(task, config, world, trial)
            finally:
                world.leave()
    finally:
        torch.set_num_threads(threads)
    return speeds


def take_part(task: Task, config: Config, world: World, order: Mapping[str, Any]) -> None:
    """Time steps in a worker, as an order of `choose_processes` says."""
    with contextlib.suppress(LossNotFinite):  # the first process has the same exception and ends the trial
        time_steps(task, config, world, Trial(order["fraction"], order["seconds"]))


@dataclass(frozen=True)
class Speed:
    """Duration and target tokens of a trial's fastest step; other steps may have been slowed down by other programs."""

    seconds: float
    tokens: int

    @property
    def tokens_per_second(self) -> float:
        """Target tokens per second, of all ranks together."""
        return self.tokens / self.seconds


def time_steps(task: Task, config: Config, world: World, trial: Trial) -> Speed:
    """Time optimizer steps on the first batches, with a learning rate of zero; every rank calls this.

    Leaves no gradients. Raises `LossNotFinite`, on every rank.
    """
    device = torch.device("cpu")
    batches = task.batches(0, 1)
    batches.share(world.rank, world.size * trial.fraction)
    stream = iter(batches)
    step_batches = [next(stream) for _ in range(config.batch.accumulate)]
    batches.close()
    task.model.train()
    parameters = [p for p in task.model.parameters() if p.requires_grad]
    optimizer = Adam(parameters, config.optimizer)
    times: list[float] = []
    tokens, running = 0, True
    try:
        while running:
            began = time.perf_counter()
            tokens = compute_gradients(task, step_batches, parameters, world, device).tokens
            optimizer.step()
            optimizer.zero_grad()
            times.append(time.perf_counter() - began)
            # The first step is a warm-up.
            (unfinished,) = world.from_first(len(times) <= _LEAST_STEPS or sum(times[1:]) < trial.seconds)
            running = bool(unfinished)
    finally:
        optimizer.zero_grad()  # after an exception, the gradients of a part of the batches are left
    return Speed(min(times[1:]), tokens)


def _amount(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
