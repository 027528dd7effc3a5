"""How each system of table 2 was tuned: all with the same learning rates, for the same number of steps."""

from __future__ import annotations

import math

from headwise.experiments.harness.outcome import Claim, Finding, Table, decide
from headwise.experiments.harness.registry import Experiment, Results
from headwise.experiments.harness.rows import TrainingRow, replaced
from headwise.experiments.scales.scale import ARCHITECTURES, Scale

_PERPLEXITY = "dev.perplexity"


def row_name(system: str, rate: float) -> str:
    """Name the row of a system and a rate."""
    return f"tuning-{system}-{rate:g}"


def rows(scale: Scale) -> list[TrainingRow]:
    """Every system with every rate; none at a scale whose rates come from the literature."""
    contest = scale.comparison
    made = []
    for name in contest.models:
        for rate in contest.tried:
            recipe = contest.system(name, rate)
            short = (
                f"training.max_steps={contest.steps}",
                f"schedule.warmup={contest.steps // 2}",
                f"training.validate_every={contest.steps}",
                "training.validate_bleu=false",
                "training.best_by=loss",
                "training.average_last=1",  # a mean over so few steps says more of their beginning than of the rate
            )
            label = f"{ARCHITECTURES[name]}, rate {rate:g}"
            made.append(
                TrainingRow(
                    row_name(name, rate),
                    label,
                    scale.name,
                    recipe.file,
                    replaced(recipe.changes, short),
                    scored=False,
                )
            )
    return made


def best_rate(results: Results, system: str) -> float | None:
    """Return the rate with the lowest development perplexity, None where one is missing."""
    tried = results.scale.comparison.tried
    if not tried or results.missing(*(row_name(system, rate) for rate in tried)):
        return None
    found = {rate: results.mean(row_name(system, rate), _PERPLEXITY) for rate in tried}
    return min(tried, key=lambda rate: math.inf if (score := found[rate]) is None else score.value)


def find(results: Results) -> Finding:
    """Lay the scores out, and hold the rates that table 2 takes to the best of them."""
    contest = results.scale.comparison
    if not contest.tried:
        text = "Each system's learning rate is the best of those tried"
        return Finding(claims=[Claim(text, "not testable at this scale", f"Here: {contest.treatment}.")])
    table = Table(
        f"Development perplexity after {contest.steps:,} steps by peak learning rate ({results.scale.about})",
        ("system", *(f"{rate:g}" for rate in contest.tried), "taken for table 2"),
        tuple(
            (
                ARCHITECTURES[name],
                *(results.cell(row_name(name, rate), _PERPLEXITY) for rate in contest.tried),
                f"{contest.rates[name]:g}",
            )
            for name in contest.models
        ),
        f"Alike for all: {contest.treatment}.",
    )
    return Finding([table], (), [_claim(results)])


def _claim(results: Results) -> Claim:
    text = "Each system's learning rate is the best of those tried"
    contest = results.scale.comparison
    best = {name: best_rate(results, name) for name in contest.models}
    missing = [name for name, rate in best.items() if rate is None]
    if missing:
        because = f"Not tried to the end at scale {results.scale.name}: {', '.join(missing)}."
        return Claim(text, "not run yet", because)
    others = [name for name, rate in best.items() if rate != contest.rates[name]]
    because = f"{len(contest.tried)} rates for each of {len(best)} systems, {contest.steps:,} steps each"
    return Claim(
        text, decide(not others), because + (f"; not so for {', '.join(others)}." if others else ".")
    )


EXPERIMENT = Experiment("tuning", "Tuning of the systems of table 2", rows, find)
