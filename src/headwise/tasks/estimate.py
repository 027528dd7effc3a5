"""Estimate of a training before it begins: parameters, operations, memory, speed, time and energy.

Operations are those that torch's counter sees in the forward and backward pass of the first step's batches, and
activations what autograd saves in the batch of most tokens among the first ones. The speed is that of some steps on
this machine, with as many processes as training would use, or a share of a GPU's peak. By how much these steps need
more memory than the counted parts is measured, too: tensors inside an operation, freed memory that the allocator keeps,
and the code that oneDNN compiles for each shape.
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from headwise.clock import in_words
from headwise.config import Config
from headwise.errors import ConfigError
from headwise.files import hold
from headwise.models.build import build_for_training
from headwise.models.counting import parameter_count
from headwise.nn.device import use_threads
from headwise.nn.memory import PeakMemory, machine_memory, saved_bytes
from headwise.tasks.run import WORK, checked_task, job_of
from headwise.training.optimizer import state_keys
from headwise.training.parallel.replica import replicate
from headwise.training.parallel.workers import Workers
from headwise.training.parallel.world import World
from headwise.training.task import Task
from headwise.training.trial import Trial, amount, choose_processes, possible_numbers, time_steps

# Assumed share of a GPU's peak: 0.3 to 0.5 is usual for Transformers (Chowdhery et al. 2022).
UTILIZATION = 0.35
_PROBE_SECONDS = 8.0
_BATCHES = 16  # among which that of most tokens is looked for
_FLOAT = 4  # bytes


@dataclass(frozen=True)
class Gpu:
    """A GPU by its maker's data sheet: dense bfloat16 (V100: float16; P100: float32) operations/s, bytes, watts."""

    name: str
    peak: float
    memory: float
    watts: float


GPUS = {
    gpu.name.lower(): gpu
    for gpu in (
        Gpu("P100", 10.6e12, 16e9, 300),
        Gpu("V100", 125e12, 32e9, 300),
        Gpu("A100", 312e12, 80e9, 400),
        Gpu("L40S", 362e12, 48e9, 350),
        Gpu("H100", 989e12, 80e9, 700),
        Gpu("H200", 989e12, 141e9, 700),
        Gpu("B200", 2250e12, 180e9, 1000),
    )
}


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of a training by part, in one process or on one device without sharding.

    `program` are the interpreter and its libraries, and `other` is what steps on this machine needed beside all that;
    both are 0 where they aren't measured.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    program: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return self.state + self.unshared

    @property
    def unshared(self) -> int:
        """What every device needs."""
        return self.activations + self.program + self.other

    @property
    def state(self) -> int:
        """What FSDP divides over the devices: parameters, gradients and the optimizer's moments."""
        return self.parameters + self.gradients + self.optimizer


@dataclass(frozen=True)
class Estimate:
    """What a training needs. `tokens` and `flops` are per step and per target token; `watts` is None if unknown."""

    parameters: int
    tokens: int
    flops: float
    memory: MemoryEstimate
    tokens_per_second: float
    place: str
    steps: int
    watts: float | None
    available: float | None  # bytes of memory of a device or of the machine

    @property
    def seconds(self) -> float:
        """Duration of all steps."""
        return self.steps * self.tokens / self.tokens_per_second

    @property
    def devices(self) -> int | None:
        """Least number of devices whose memory holds the training, sharded if it is more than one; None if none."""
        if self.available is None or self.memory.total <= self.available:
            return 1
        left = self.available - self.memory.unshared
        return math.ceil(self.memory.state / left) if left > 0 else None

    def record(self) -> dict[str, Any]:
        """Return the estimate as JSON values."""
        kilowatt_hours = None if self.watts is None else self.watts * self.seconds / 3.6e6
        memory = {**asdict(self.memory), "total": self.memory.total}
        derived = {"seconds": self.seconds, "kilowatt_hours": kilowatt_hours, "devices": self.devices}
        return {**asdict(self), "memory": memory, **derived}

    def lines(self) -> list[str]:
        """Return the estimate as lines of text."""
        memory = self.memory
        parts = ", ".join(f"{name} {_bytes(size)}" for name, size in asdict(memory).items())
        energy = "unknown (give --watts)"
        if self.watts is not None:
            energy = f"{self.watts * self.seconds / 3.6e6:,.2f} kWh at {self.watts:g} W"
        fits = "none: the activations of a batch don't fit; use a smaller batch.tokens"
        if self.devices == 1:
            fits = "1"
        elif self.devices is not None:
            fits = f"{self.devices}, with training.parallel=fsdp"
        return [
            f"parameters: {self.parameters:,}",
            f"operations: {self.flops / 1e6:,.1f} MFLOP per target token, forward and backward pass",
            f"step: {self.tokens:,} target tokens, {self.flops * self.tokens / 1e12:,.3f} TFLOP",
            f"memory: {_bytes(memory.total)} ({parts})",
            f"speed: {self.tokens_per_second:,.0f} target tokens/s {self.place}",
            f"time: {in_words(self.seconds)} for {self.steps:,} steps, without validations and checkpoints",
            f"energy: {energy}",
            f"least number of devices: {fits}",
        ]


def estimate(config: Config, run: Path, *, gpu: str | None = None, watts: float | None = None) -> Estimate:
    """Estimate a training that `headwise.tasks.run.train` would begin; the data is prepared as for it.

    With `gpu`, a name in `GPUS`, the speed, the memory and the power are a GPU's. Raises a `HeadwiseError` as `train`
    does, and `ConfigError` for an unknown GPU.
    """
    known = None if gpu is None else find_gpu(gpu)
    kind, device = checked_task(config, run)
    use_threads(config.training.threads)
    config = config.model_copy(update={"data": config.data.with_languages()})
    with hold(run):
        prepared = kind.prepare(config, run / "prepared", expected=None, say=_say)
        peak = PeakMemory()
        model = build_for_training(lambda: kind.build(config, prepared), config, device)
        task = kind.task(config, prepared, model)
        floats = _FLOAT * parameter_count(model)
        first = _first_batches(task, config.batch.accumulate + _BATCHES)
        activations = _largest_activations(task, config, first)
        parts = MemoryEstimate(floats, floats, _moments(model, config), activations)
        tokens, flops = _count_step(task, first[: config.batch.accumulate])
        if known is None:
            speed, place = _probe(task, config, run, shares_batches=kind.shares_batches)
            available = machine_memory()
            if device.type == "cpu" and (largest := peak.largest()) is not None:
                parts = replace(parts, program=peak.before or 0)
                parts = replace(parts, other=max(0, largest - parts.total))
        else:
            speed, available = UTILIZATION * known.peak / flops, known.memory
            watts = known.watts if watts is None else watts
            place = f"on one {known.name}, at an assumed {UTILIZATION:.0%} of its {known.peak / 1e12:g} TFLOP/s"
    steps, minutes = config.training.max_steps, config.training.max_minutes
    if minutes is not None:
        steps = min(steps, math.ceil(minutes * 60 * speed / tokens))
    return Estimate(parameter_count(model), tokens, flops, parts, speed, place, steps, watts, available)


def find_gpu(name: str) -> Gpu:
    """Return a GPU of `GPUS` by name; raises `ConfigError` for an unknown one."""
    if name not in GPUS:
        raise ConfigError(f"--gpu: expected one of {', '.join(GPUS)}, found {name}")
    return GPUS[name]


def _moments(model: nn.Module, config: Config) -> int:
    """Return the bytes of the optimizer's moments: two of each parameter for Adam, one for Muon."""
    keys = state_keys(model, config.optimizer)
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    return _FLOAT * sum(sizes[name] * len(moments - {"step"}) for name, moments in keys.items())


def _first_batches(task: Task, number: int) -> list[Any]:
    """Return the first batches of a training in one process; the model is set to training."""
    task.model.train()
    batches = task.batches()
    stream = iter(batches)
    first = [next(stream) for _ in range(number)]
    batches.close()
    return first


def _largest_activations(task: Task, config: Config, first: list[Any]) -> int:
    """Return the bytes that autograd saves in the batch of most tokens among the first ones."""
    largest = max(first, key=lambda batch: batch.target_tokens)
    replica = replicate(task, World(), config.training, next(task.model.parameters()).device)
    (loss, _), size = saved_bytes(task.model, lambda: replica.loss(largest))
    loss.backward()
    replica.close()
    task.model.zero_grad(set_to_none=True)
    return size


def _count_step(task: Task, first: list[Any]) -> tuple[int, float]:
    """Return the target tokens of the first step, of these batches, and its operations per token."""
    with FlopCounterMode(display=False) as counter:
        for batch in first:
            task.loss(batch).total.backward()
    task.model.zero_grad(set_to_none=True)
    tokens = sum(batch.target_tokens for batch in first)
    return tokens, counter.get_total_flops() / tokens


def _probe(task: Task, config: Config, run: Path, *, shares_batches: bool) -> tuple[float, str]:
    """Return the target tokens/s of some steps, and where they ran, with the processes that training would use."""
    threads, processes = torch.get_num_threads(), config.training.processes
    with Workers(WORK, job_of(config, run)) as workers:
        if processes == "auto":
            numbers = possible_numbers(threads, task.model) if shares_batches else [1]
            on_cpu = next(task.model.parameters()).device.type == "cpu"
            division = choose_processes(task, config, threads, numbers if on_cpu else [1], workers, _say)
            processes = division.processes
            torch.set_num_threads(division.threads)
        trial = Trial(1, _PROBE_SECONDS)
        world = workers.gather(int(processes), threads, {"do": "try", **asdict(trial)})
        try:
            speed = time_steps(task, config, world, trial)
        finally:
            world.leave()
            torch.set_num_threads(threads)
    return speed.mean, f"on this machine in {amount(int(processes), 'process', 'processes')}, measured"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _bytes(size: float) -> str:
    return f"{size / 1e9:,.2f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"
