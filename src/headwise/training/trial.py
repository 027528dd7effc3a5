"""Selection of `training.processes=auto` by a trial, which times some optimizer steps with each number."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from headwise.config import Config, TrainingConfig
from headwise.nn.memory import TRAINING, machine_memory
from headwise.training.gradients import LossNotFinite, compute_gradients
from headwise.training.optimizer import build_optimizer
from headwise.training.parallel.replica import replicate
from headwise.training.parallel.workers import Workers
from headwise.training.parallel.world import World
from headwise.training.task import Task

_SHARE = 0.005  # duration of a trial without its first step, as a share of the training
_LEAST_SECONDS, _SECONDS = 0.7, 2.0  # bounds of this duration
_STEP = 2.0  # seconds; if a step takes longer, only a part of the examples of each batch is computed
_LONGEST_STEP = 10.0  # seconds that a step of one thread may take before its speed is known
_HOPELESS = 4.0  # a division that begins so many times slower than another one isn't tried again
WORTH = 60.0  # seconds of training from which on workers, which take seconds to start, may pay off
_MANY_STEPS = 500  # of a training that is likely to be worth it, before a step has been timed
_FEW_WORKERS = 7  # most workers that are started before that
_FEWEST_STEPS = 20  # of a training for which the threads are tried
# In which the candidates take turns; the best round of each counts, as others may have been disturbed.
_ROUNDS = 3
GAIN = 1.05  # least speedup of more processes, and of the native library's products


@dataclass(frozen=True)
class Trial:
    """Settings of a trial: `seconds` of steps, at least `steps`, that compute one of `fraction` parts of each batch."""

    fraction: int
    seconds: float
    steps: int = 3  # without the first step


@dataclass(frozen=True)
class Division:
    """Number of processes, and of CPU threads of all of them."""

    processes: int
    threads: int

    def __str__(self) -> str:
        each = amount(max(1, self.threads // self.processes), "thread", "threads")
        return f"{amount(self.processes, 'process', 'processes')} of {each}"


def candidates(threads: int) -> list[int]:
    """Return the numbers of processes to try: 1, one per CPU thread, and a half and a quarter of those."""
    return sorted({1, threads, *(threads // part for part in (2, 4) if threads // part > 1)})


def possible_numbers(threads: int, model: nn.Module) -> list[int]:
    """Return the candidates of which as many copies of the model fit into the machine's memory, and always 1."""
    memory = machine_memory()
    process_memory = sum(p.numel() for p in model.parameters()) * TRAINING
    return [n for n in candidates(threads) if n == 1 or memory is None or n * process_memory < memory]


def likely_workers(options: TrainingConfig, threads: int) -> int:
    """Return the number of workers that a training needs or tries; 0 if they may not be worth their start."""
    if options.processes != "auto":
        return options.processes - 1
    short = options.max_steps < _MANY_STEPS or (options.max_minutes or math.inf) * 60 < WORTH
    return 0 if short else min(max(candidates(threads)) - 1, _FEW_WORKERS)


def choose_processes(
    task: Task,
    config: Config,
    threads: int,
    numbers: Sequence[int],
    workers: Workers,
    say: Callable[[str], None],
    usual: Division | None = None,
) -> Division:
    """Return the fastest division of CPU threads among one of the `numbers` of processes, and print the speeds.

    The `usual` division, by default one process with all threads, is kept where no other is clearly faster. The first
    of the numbers is 1; one process is tried with one thread, too, as several threads wait for each other
    where other programs use the processors. Workers are started only if there is a choice and the training is long
    enough to gain by it. The parameters are unchanged afterwards, if all gradients were finite; the random generators
    aren't. Where a loss isn't finite, nothing is divided, and the training reports the loss when it meets it again.
    """
    usual = usual or Division(1, threads)
    if len(numbers) == 1 or config.training.max_steps < _FEWEST_STEPS:
        return usual
    try:
        speeds = _measure(task, config, threads, numbers, workers)
    except LossNotFinite as problem:
        say(f"training.processes={usual.processes}: the trial ended early, because {problem}")
        return usual
    finally:
        torch.set_num_threads(threads)
    best = fastest(usual, speeds)
    measured = ", ".join(f"{speed:,.0f} with {division}" for division, speed in speeds.items())
    say(f"training.processes={best.processes}: target tokens/s in a trial: {measured}")
    return best


def fastest(usual: Division, speeds: Mapping[Division, float]) -> Division:
    """Return the fastest division, or the usual one if that is about as fast or wasn't measured."""
    best = max(speeds, key=lambda division: speeds[division])
    return best if speeds[best] >= GAIN * speeds.get(usual, math.inf) else usual


def _measure(
    task: Task, config: Config, threads: int, numbers: Sequence[int], workers: Workers
) -> dict[Division, float]:
    """Return the target tokens/s of each division; of one process only if the training is too short for workers.

    Raises `LossNotFinite`.
    """
    alone = World()
    one = [Division(1, threads), Division(1, 1)]
    speeds: dict[Division, float] = {}
    steps: dict[Division, float] = {}
    fraction = 1
    for division in one:
        torch.set_num_threads(division.threads)
        speed = time_steps(task, config, alone, Trial(fraction, 0.0, steps=1))
        speeds[division], steps[division] = speed.typical, fraction * speed.seconds
        fraction = max(1, math.ceil(threads * speed.seconds / _LONGEST_STEP))  # for one thread
    whole = min(steps.values())
    training = training_seconds(config, whole)
    if training < WORTH:
        return speeds
    seconds = min(_SECONDS, max(_LEAST_SECONDS, _SHARE * training)) / _ROUNDS
    trial = Trial(max(1, math.ceil(whole / _STEP)), seconds, steps=1)
    promising = [division for division in one if _HOPELESS * speeds[division] > max(speeds.values())]
    # The most first, so that all workers start at once.
    divisions = [*promising, *(Division(number, threads) for number in sorted(numbers[1:], reverse=True))]
    rounds: dict[Division, list[float]] = {division: [] for division in divisions}
    for _ in range(_ROUNDS):
        for division in divisions:
            world = alone
            torch.set_num_threads(division.threads)
            if division.processes > 1:
                world = workers.meet(division.processes, threads, {"do": "try", **asdict(trial)})
            try:
                rounds[division].append(time_steps(task, config, world, trial).typical)
            finally:
                world.leave()
    return speeds | {division: max(found) for division, found in rounds.items()}


def take_part(task: Task, config: Config, world: World, order: Mapping[str, Any]) -> None:
    """Time steps in a worker, as an order of `choose_processes` says."""
    with contextlib.suppress(LossNotFinite):  # the first process has the same exception and ends the trial
        time_steps(task, config, world, Trial(order["fraction"], order["seconds"], order["steps"]))


@dataclass(frozen=True)
class Speed:
    """Speed of a trial: `seconds` is the median duration of a step, the others are target tokens/s of all ranks.

    `typical` is the median over the steps, as some may have been slowed down by other programs; `mean` counts them all.
    """

    seconds: float
    typical: float
    mean: float


def time_steps(task: Task, config: Config, world: World, trial: Trial) -> Speed:
    """Time optimizer steps on the first batches, with a learning rate of zero; every rank calls this.

    Each step has batches of its own, as in training: oneDNN compiles code for the first product of a shape, and a step
    whose shapes are known is up to twice as fast. Leaves no gradients. Raises `LossNotFinite`, on every rank.
    """
    device = torch.device("cpu")
    batches = task.batches()
    if world.size * trial.fraction > 1:
        batches.share(world.rank, world.size * trial.fraction)
    stream = iter(batches)
    replica = replicate(task, world, config.training, device)
    replica.model.train()
    optimizer = build_optimizer(replica.model, config.optimizer, world)
    times: list[float] = []
    tokens: list[int] = []
    running = True
    try:
        while running:
            step_batches = [next(stream) for _ in range(config.batch.accumulate)]
            began = time.perf_counter()
            tokens.append(compute_gradients(replica, step_batches, world, device).tokens)
            optimizer.step()
            optimizer.zero_grad()
            times.append(time.perf_counter() - began)
            # The first step is a warm-up.
            (unfinished,) = world.from_first(len(times) <= trial.steps or sum(times[1:]) < trial.seconds)
            running = bool(unfinished)
    finally:
        batches.close()
        optimizer.zero_grad()  # after an exception, the gradients of a part of the batches are left
        replica.close()
    times, tokens = times[1:], tokens[1:]
    rates = [count / seconds for count, seconds in zip(tokens, times, strict=True)]
    return Speed(statistics.median(times), statistics.median(rates), sum(tokens) / sum(times))


def training_seconds(config: Config, step: float) -> float:
    """Return the duration of a training, estimated from that of a step in seconds."""
    seconds = config.training.max_steps * step
    limit = config.training.max_minutes
    return seconds if limit is None else min(seconds, limit * 60)


def amount(number: int, one: str, more: str) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else more}"
