"""Selection of `training.processes=auto` and `training.products=auto` by trials.

A trial of the processes times some optimizer steps with each number. A trial of the matrix products times the largest
products of one step, by torch and by the native library in turns.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.config import Config, TrainingConfig
from headwise.nn.device import find_precision
from headwise.nn.linear import Products, use_products
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
_WORTH = 60.0  # seconds of training from which on workers, which take seconds to start, may pay off
_MANY_STEPS = 500  # of a training that is likely to be worth it, before a step has been timed
_FEW_WORKERS = 7  # most workers that are started before that
_GAIN = 1.05  # least speedup of more processes, and of the native library's products
_SHAPES = 8  # number of shapes whose products are timed: those with the most operations
_OPERATIONS = 4e8  # least operations of a timed product: larger ones get fewer rows
_LEAST_ROWS = 256
_PRODUCT_SECONDS = 0.4  # least duration of a trial of products
_LEAST_ROUNDS = 3


@dataclass(frozen=True)
class Trial:
    """Settings of a trial: `seconds` of steps, at least `steps`, that compute one of `fraction` parts of each batch."""

    fraction: int
    seconds: float
    steps: int = 3  # without the first step


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
    short = options.max_steps < _MANY_STEPS or (options.max_minutes or math.inf) * 60 < _WORTH
    return 0 if short else min(max(candidates(threads)) - 1, _FEW_WORKERS)


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
    best = max(speeds, key=lambda number: speeds[number].typical)
    if speeds[best].typical < _GAIN * speeds[1].typical:
        best = 1
    measured = ", ".join(
        f"{speed.typical:,.0f} with {_amount(number, 'process', 'processes')} of "
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
    whole = time_steps(task, config, alone, Trial(1, 0.0, steps=1)).seconds
    training = _training_seconds(config, whole)
    if training < _WORTH:
        return None
    trial = Trial(max(1, math.ceil(whole / _STEP)), min(_SECONDS, max(_LEAST_SECONDS, _SHARE * training)))
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
    batches = task.batches(0, 1)
    if world.size * trial.fraction > 1:
        batches.share(world.rank, world.size * trial.fraction)
    stream = iter(batches)
    replica = replicate(task, world, config.training, device)
    replica.model.train()
    dtype = find_precision(config.training.precision, device)
    optimizer = build_optimizer(replica.model, config.optimizer, world=world, dtype=dtype)
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


def choose_products(
    task: Task, config: Config, threads: int, native: Products, say: Callable[[str], None]
) -> str:
    """Return the faster of `torch` and `native`, and print the measured speeds.

    Both compute the products of one optimizer step, each with its gradients, with the CPU `threads` of one process.
    The choice is `torch` if the training is too short to gain by another one, or has no float32 products. The
    parameters are unchanged afterwards; the random generators aren't. Where a loss isn't finite, the choice is `torch`,
    and the training reports the loss when it meets it again.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        recorded = _RecordedProducts()
        with use_products(recorded):
            seconds = time_steps(task, config, World(), Trial(1, 0.0, steps=1)).seconds
        if not recorded.rows or _training_seconds(config, seconds) < _WORTH:
            return "torch"
        speeds = _time_products(recorded.rows, {"torch": Products(), "native": native})
    except LossNotFinite as problem:
        say(f"training.products=torch: the trial ended early, because {problem}")
        return "torch"
    finally:
        torch.set_num_threads(before)
    best = "native" if speeds["native"] > _GAIN * speeds["torch"] else "torch"
    measured = ", ".join(f"{speed / 1e9:.1f} with {name}" for name, speed in speeds.items())
    say(
        f"training.products={best}: GFLOP/s of a step's matrix products in a trial with "
        f"{_amount(threads, 'thread', 'threads')}: {measured}"
    )
    return best


class _RecordedProducts(Products):
    """torch's products; `rows` are those of each call, by the (inputs, outputs) of the linear map."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], list[int]] = {}

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        self.rows.setdefault((weight.size(1), weight.size(0)), []).append(x.size(0))
        return super().forward(x, weight, bias)


class _Example:
    """A linear map whose products are timed: the largest of one shape, or some of its rows."""

    def __init__(self, inputs: int, outputs: int, rows: list[int]) -> None:
        timed = min(max(rows), max(_LEAST_ROWS, math.ceil(_OPERATIONS / (2 * inputs * outputs))))
        self.operations = 6 * inputs * outputs * sum(rows)  # of one step
        self.share = timed / sum(rows)
        self.x, self.gradient = torch.ones(timed, inputs), torch.ones(timed, outputs)
        self.weight = torch.ones(outputs, inputs)

    def time(self, products: Products) -> float:
        """Return the duration of the products in one step in seconds, extrapolated from the timed rows."""
        began = time.perf_counter()
        products.forward(self.x, self.weight)
        products.input_gradient(self.gradient, self.weight)
        products.weight_gradient(self.gradient, self.x)
        return (time.perf_counter() - began) / self.share


def _time_products(
    rows: dict[tuple[int, int], list[int]], candidates: dict[str, Products]
) -> dict[str, float]:
    """Return the operations per second of each candidate; they take turns."""
    largest = sorted(rows, key=lambda shape: -shape[0] * shape[1] * sum(rows[shape]))[:_SHAPES]
    examples = [_Example(*shape, rows[shape]) for shape in largest]
    times = {
        name: [[example.time(products)] for example in examples] for name, products in candidates.items()
    }
    end = time.perf_counter() + _PRODUCT_SECONDS
    rounds = 0
    while rounds < _LEAST_ROUNDS or time.perf_counter() < end:
        for number, example in enumerate(examples):
            for name, products in candidates.items():
                times[name][number].append(example.time(products))
        rounds += 1
    operations = sum(example.operations for example in examples)
    # The fastest call counts; others may have been slowed down by other programs. The first one is a warm-up.
    return {name: operations / sum(min(t[1:]) for t in times[name]) for name in candidates}


def _training_seconds(config: Config, step: float) -> float:
    """Return the duration of a training, estimated from that of a step in seconds."""
    seconds = config.training.max_steps * step
    limit = config.training.max_minutes
    return seconds if limit is None else min(seconds, limit * 60)


def _amount(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
