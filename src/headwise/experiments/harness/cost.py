"""Cost estimates of rows on this machine: parameters, operations, and training time from a timed step."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from headwise.config import Config
from headwise.experiments.harness.outcome import Table
from headwise.experiments.harness.rows import Place, TrainingRow
from headwise.experiments.harness.runner import RowJob
from headwise.models.build import build_model
from headwise.models.counting import parameter_count, training_flops
from headwise.nn.device import find_device, find_precision
from headwise.training.loss import smoothed_cross_entropy

_PROBE_TOKENS = 1024  # tokens per side in a timed step
_FILLED = 0.9  # share of a batch's token budget that isn't padding


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
    with torch.device("meta"):
        return parameter_count(build_model(config.model, config.subwords.size, config.subwords.size))


def estimates(jobs: Sequence[RowJob], place: Place, say: Callable[[str], None]) -> list[Cost]:
    """Return the estimates of all jobs; each model to be trained is built and timed once, on random tokens."""
    seconds_by_model: dict[str, float] = {}
    return [_estimate(job, place, seconds_by_model, say) for job in jobs]


def _estimate(
    job: RowJob, place: Place, seconds_by_model: dict[str, float], say: Callable[[str], None]
) -> Cost:
    row = job.row
    command = shlex.join(row.command(job.seed, place))
    if job.record(place.results) is not None:
        return Cost(job, command, recorded=True)
    if not isinstance(row, TrainingRow):
        return Cost(job, command)
    config = row.configuration(job.seed).with_overrides(place.machine.changes())
    sentence = place.scale.sentence
    model = f"{config.model.model_dump_json()} {config.subwords.size}"
    if model not in seconds_by_model:
        say(f"timing {row.name}")
        seconds_by_model[model] = _seconds_per_token(config, sentence)
    tokens = _FILLED * config.batch.tokens * config.batch.accumulate * config.training.max_steps
    minutes = tokens / _FILLED * seconds_by_model[model] / 60 / place.machine.processes
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


def _seconds_per_token(config: Config, sentence: int) -> float:
    """Time a forward and a backward pass, per token; the second of two, because the first is a warm-up."""
    device = find_device(config.training.device)
    threads = torch.get_num_threads()
    if config.training.threads:
        torch.set_num_threads(config.training.threads)
    try:
        model = build_model(config.model, config.subwords.size, config.subwords.size).to(device)
        model.compute_dtype = find_precision(config.training.precision, device)
        tokens = torch.randint(4, config.subwords.size, (_PROBE_TOKENS // sentence, sentence), device=device)
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


def table(costs: Sequence[Cost]) -> Table:
    """Return the table of the estimates, with their sum."""
    rows = [
        (
            cost.job.row.name,
            str(cost.job.seed),
            "" if cost.parameters is None else f"{cost.parameters / 1e6:,.2f} M",
            "" if cost.tokens is None else f"{cost.tokens / 1e6:,.1f} M",
            "" if cost.flops is None else f"{cost.flops:.1e}",
            _time_cell(cost),
        )
        for cost in costs
    ]
    total = sum(cost.minutes or 0.0 for cost in costs)
    return Table(
        "Estimated cost on this machine",
        ("row", "seed", "parameters", "target tokens", "operations", "time"),
        (*rows, ("all", "", "", "", "", duration(total))),
        f"Time: one pass forward and backward over {_PROBE_TOKENS} tokens, timed now, times the tokens of the row; "
        "validation and whatever else the machine is doing come on top.",
    )


def _time_cell(cost: Cost) -> str:
    if cost.recorded:
        return "recorded already"
    return "measured, not trained" if cost.minutes is None else duration(cost.minutes)


def duration(minutes: float) -> str:
    """Format minutes in a readable unit: `0.4 min`, `3.2 h`, `12.0 days`, `2.1 years`."""
    for limit, unit, size in ((90, "min", 1), (48 * 60, "h", 60), (2 * 365 * 1440, "days", 1440)):
        if minutes < limit:
            return f"{minutes / size:.1f} {unit}"
    return f"{minutes / (365 * 1440):.1f} years"
