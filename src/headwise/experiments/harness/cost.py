"""Cost estimates of rows: parameters, operations, training time, and the price of the GPUs for that time.

The time is that of a step timed on this machine, or of the operations at an assumed share of a GPU's peak.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from headwise.clock import in_words
from headwise.config import Config
from headwise.experiments.harness.outcome import Table
from headwise.experiments.harness.rows import Place, TrainingRow
from headwise.experiments.harness.runner import RowJob
from headwise.models.build import build_model, training_precision, weightless
from headwise.models.counting import parameter_count, training_flops
from headwise.nn.device import find_device
from headwise.tasks.estimate import UTILIZATION, Gpu
from headwise.training.loss import smoothed_cross_entropy

_PROBE_TOKENS = 1024  # per side in a step timed on a CPU; on a GPU it has a process's share of the batch
_FILLED = 0.9  # share of a batch's token budget that isn't padding

_TIMED = "one pass forward and backward, timed now, times the tokens of the row"
_ASSUMED = (
    f"the operations at an assumed {UTILIZATION:.0%} of each GPU's peak, more than the share of a small batch reaches: "
    "on the machine itself, without --gpu, the same command times it"
)


@dataclass(frozen=True)
class Cost:
    """Cost estimate of a job; only `job` and `command` are known if it is `recorded` or its row isn't trained."""

    job: RowJob
    command: str
    recorded: bool = False
    parameters: int | None = None
    flops: float | None = None
    tokens: float | None = None
    minutes: float | None = None


def parameters(config: Config) -> int:
    """Return the number of parameters of a configuration's model, without allocating it."""
    size = config.subwords.size
    return parameter_count(weightless(lambda: build_model(config.model, size, size)))


def estimates(jobs: Sequence[RowJob], place: Place, say: Callable[[str], None], gpu: Gpu | None = None) -> list[Cost]:
    """Return the estimates of all jobs, on GPUs of a kind or else on this machine.

    Here, each model to be trained is built and timed once, on random tokens.
    """
    seconds_by_model: dict[str, float] = {}
    return [_estimate(job, place, seconds_by_model, say, gpu) for job in jobs]


def _estimate(
    job: RowJob,
    place: Place,
    seconds_by_model: dict[str, float],
    say: Callable[[str], None],
    gpu: Gpu | None,
) -> Cost:
    row = job.row
    command = shlex.join(row.command(job.seed, place))
    if job.record(place.results) is not None:
        return Cost(job, command, recorded=True)
    if not isinstance(row, TrainingRow):
        return Cost(job, command)
    config = row.configuration(job.seed).with_overrides(place.machine.changes())
    sentence = place.scale.sentence
    padded = float(config.batch.tokens * config.batch.accumulate * config.training.max_steps)
    tokens = _FILLED * padded
    if gpu is not None:
        seconds = training_flops(config, padded, sentence) / (UTILIZATION * gpu.peak)
    else:
        model = f"{config.model.model_dump_json()} {config.subwords.size}"
        if model not in seconds_by_model:
            say(f"timing {row.name}")
            seconds_by_model[model] = _seconds_per_token(config, sentence, place.machine.processes)
        seconds = padded * seconds_by_model[model]
    minutes = seconds / 60 / place.machine.processes
    if config.training.max_minutes is not None and minutes > config.training.max_minutes:
        tokens *= config.training.max_minutes / minutes
        minutes = config.training.max_minutes
    return Cost(
        job,
        command,
        parameters=parameters(config),
        flops=training_flops(config, tokens, sentence),
        tokens=tokens,
        minutes=minutes,
    )


def _seconds_per_token(config: Config, sentence: int, processes: int) -> float:
    """Time a forward and a backward pass, per token; the second of two, because the first is a warm-up."""
    device = find_device(config.training.device)
    size = _PROBE_TOKENS if device.type == "cpu" else config.batch.tokens // processes
    threads = torch.get_num_threads()
    if config.training.threads:
        torch.set_num_threads(config.training.threads)
    try:
        model = build_model(config.model, config.subwords.size, config.subwords.size).to(device)
        model.compute_dtype = training_precision(config, device)
        tokens = torch.randint(4, config.subwords.size, (max(1, size // sentence), sentence), device=device)
        mask = torch.ones_like(tokens, dtype=torch.bool)
        seconds = 0.0
        for _ in range(2):
            began = time.perf_counter()
            hidden = model(tokens, mask, tokens).flatten(0, 1)
            loss, _ = smoothed_cross_entropy(
                *model.projection(hidden), tokens.flatten(), config.training.label_smoothing
            )
            loss.backward()
            loss.item()
            seconds = time.perf_counter() - began
    finally:
        torch.set_num_threads(threads)
    return seconds / tokens.numel()


def table(costs: Sequence[Cost], *, gpu: Gpu | None = None, processes: int = 1, price: float | None = None) -> Table:
    """Return the table of the estimates, with their sum; `price` is that of a GPU for an hour, in any currency."""
    rows = [
        (
            cost.job.row.name,
            str(cost.job.seed),
            "" if cost.parameters is None else f"{cost.parameters / 1e6:,.2f} M",
            "" if cost.tokens is None else f"{cost.tokens / 1e6:,.1f} M",
            "" if cost.flops is None else f"{cost.flops:.1e}",
            _time_cell(cost),
            _price_cell(cost.minutes, processes, price),
        )
        for cost in costs
    ]
    total = sum(cost.minutes or 0.0 for cost in costs)
    rows.append(("all", "", "", "", "", in_words(60 * total), _price_cell(total, processes, price)))
    columns = ("row", "seed", "parameters", "target tokens", "operations", "time", "price")
    priced = len(columns) if price is not None else -1
    return Table(
        "Estimated cost on this machine" if gpu is None else f"Least cost on {processes} {gpu.name}",
        columns[:priced],
        tuple(row[:priced] for row in rows),
        f"Time: {_TIMED if gpu is None else _ASSUMED}; the optimizer, the sum of the gradients over "
        "processes, validation and whatever else the machine is doing come on top."
        + (f" Price: {processes} GPUs at {price:g} an hour each." if price is not None else ""),
    )


def _price_cell(minutes: float | None, processes: int, price: float | None) -> str:
    return "" if minutes is None or price is None else f"{minutes / 60 * processes * price:,.2f}"


def _time_cell(cost: Cost) -> str:
    if cost.recorded:
        return "recorded already"
    return "measured, not trained" if cost.minutes is None else in_words(60 * cost.minutes)
