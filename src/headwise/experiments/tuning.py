"""Learning-rate tuning of table 2's systems: the same rates for all, for the same number of steps."""

from __future__ import annotations

import math

from headwise.experiments.harness.outcome import Claim, Finding, Table, decide
from headwise.experiments.harness.registry import Experiment, Results
from headwise.experiments.harness.rows import TrainingRow, replaced
from headwise.experiments.scales.scale import ARCHITECTURES, Scale

_PERPLEXITY = "dev.perplexity"


def row_name(system: str, rate: float) -> str:
    """Return the name of the row of a system and a rate."""
    return f"tuning-{system}-{rate:g}"


def rows(scale: Scale) -> list[TrainingRow]:
    """Return a row for every system and rate; none at a scale whose rates come from the literature."""
    comparison = scale.comparison
    training_rows = []
    for name in comparison.models:
        for rate in comparison.tried:
            recipe = comparison.system(name, rate)
            overrides = (
                f"training.max_steps={comparison.steps}",
                f"schedule.warmup={comparison.steps // 2}",
                f"training.validate_every={comparison.steps}",
                "training.validate_bleu=false",
                "training.best_by=loss",
                "training.average_last=1",  # over so few steps, an average says more about early steps than the rate
            )
            label = f"{ARCHITECTURES[name]}, rate {rate:g}"
            training_rows.append(
                TrainingRow(
                    row_name(name, rate),
                    label,
                    scale.name,
                    recipe.file,
                    replaced(recipe.changes, overrides),
                    scored=False,
                )
            )
    return training_rows


def best_rate(results: Results, system: str) -> float | None:
    """Return the rate with the lowest development perplexity, None if a result is missing."""
    tried = results.scale.comparison.tried
    if not tried or results.missing(*(row_name(system, rate) for rate in tried)):
        return None
    perplexities = {rate: results.mean(row_name(system, rate), _PERPLEXITY) for rate in tried}
    return min(
        tried, key=lambda rate: math.inf if (perplexity := perplexities[rate]) is None else perplexity.value
    )


def find(results: Results) -> Finding:
    """Tabulate the perplexities, and check that table 2 uses each system's best rate."""
    comparison = results.scale.comparison
    if not comparison.tried:
        text = "Each system's learning rate is the best of those tried"
        return Finding(claims=[Claim(text, "not testable at this scale", f"Here: {comparison.treatment}.")])
    table = Table(
        f"Development perplexity after {comparison.steps:,} steps by peak learning rate ({results.scale.about})",
        ("system", *(f"{rate:g}" for rate in comparison.tried), "taken for table 2"),
        tuple(
            (
                ARCHITECTURES[name],
                *(results.cell(row_name(name, rate), _PERPLEXITY) for rate in comparison.tried),
                f"{comparison.rates[name]:g}",
            )
            for name in comparison.models
        ),
        f"Alike for all: {comparison.treatment}.",
    )
    return Finding([table], (), [_claim(results)])


def _claim(results: Results) -> Claim:
    text = "Each system's learning rate is the best of those tried"
    comparison = results.scale.comparison
    best = {name: best_rate(results, name) for name in comparison.models}
    missing = [name for name, rate in best.items() if rate is None]
    if missing:
        because = f"Not tried to the end at scale {results.scale.name}: {', '.join(missing)}."
        return Claim(text, "not run yet", because)
    other_than_best = [name for name, rate in best.items() if rate != comparison.rates[name]]
    because = (
        f"{len(comparison.tried)} rates for each of {len(best)} systems, {comparison.steps:,} steps each"
    )
    return Claim(
        text,
        decide(not other_than_best),
        because + (f"; not so for {', '.join(other_than_best)}." if other_than_best else "."),
    )


EXPERIMENT = Experiment("tuning", "Tuning of the systems of table 2", rows, find)
