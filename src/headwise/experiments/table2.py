"""Table 2: the Transformer and earlier systems, at equal parameters and at equal training time, and their tuning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headwise.config import Config
from headwise.experiments.charts import quality_chart, trained_systems
from headwise.experiments.harness.outcome import Finding, Table
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import TrainingRow, replaced
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.harness.scoring import minutes_to
from headwise.experiments.paper import System, system
from headwise.experiments.scales import ARCHITECTURES, RowRecipe, Scale
from headwise.models.counting import training_flops

_PAPER = {
    "gnmt": "GNMT + RL",
    "convs2s": "ConvS2S",
    "transformer": "Transformer (base model)",
    "transformer-big": "Transformer (big)",
    "transformer-fr": "Transformer (base model)",
    "transformer-big-fr": "Transformer (big)",
}
_LABELS = {
    **ARCHITECTURES,
    "transformer-big": "Transformer (big)",
    "transformer-fr": "Transformer (base), English→French",
    "transformer-big-fr": "Transformer (big), English→French",
}
_TOKENIZED, _SACRE, _PERPLEXITY = "test.tokenized_bleu.score", "test.bleu.score", "test.perplexity.word"
_DEV_PERPLEXITY = "dev.perplexity"


def rows(scale: Scale) -> list[TrainingRow]:
    """Return the rows of all systems: at equal parameters, the scale's further rows, and at equal training time."""
    equal_parameters = systems(scale)
    further_rows = [
        TrainingRow(
            f"table2-{name}", _LABELS[name], scale.name, recipe.file, recipe.changes, test=recipe.test
        )
        for name, recipe in scale.more.items()
    ]
    equal_time = [
        TrainingRow(
            f"table2-time-{name}",
            _LABELS[name],
            scale.name,
            recipe.file,
            replaced(recipe.changes, _time_limit(recipe, scale)),
        )
        for name, recipe in scale.systems.items()
    ]
    return [*equal_parameters, *further_rows, *equal_time]


def systems(scale: Scale) -> list[TrainingRow]:
    """Return the rows of all systems at equal parameters."""
    return [
        TrainingRow(f"table2-{name}", _LABELS[name], scale.name, recipe.file, recipe.changes)
        for name, recipe in scale.systems.items()
    ]


def _time_limit(recipe: RowRecipe, scale: Scale) -> list[str]:
    """Return overrides that limit training by time, with a schedule that doesn't depend on the number of steps."""
    overrides = [f"training.max_minutes={scale.minutes:g}", "training.max_steps=10000000", *scale.timed]
    falls_to_zero = Config.load(recipe.file, recipe.changes).schedule.name in {"linear", "cosine"}
    return [*overrides, "schedule.name=inverse_sqrt"] if falls_to_zero else overrides


def find(results: Results) -> Finding:
    """Tabulate all systems at equal parameters and at equal training time; `convergence` judges them."""
    scale = results.scale
    level = _target_bleu(results)
    tables = [
        systems_table(
            results, "", f"At equal parameters ({scale.about})", level, [*scale.systems, *scale.more]
        ),
        systems_table(
            results,
            "time-",
            f"At equal training time, {scale.minutes:g} minutes each",
            None,
            list(scale.systems),
        ),
    ]
    text = (
        "Development BLEU against operations of training, of systems stopped after equal steps, and the paper's table "
        "(lines: during training; dots: finished models, hollow for one seed)"
    )
    charts = [quality_chart(results, "table2-", f"table2-{scale.name}", text)]
    return Finding(tables, charts if any(trained_systems(results, "table2-")) else [])


def _target_bleu(results: Results) -> float | None:
    """Return a development BLEU that every system with attention reaches: the lowest of their best, rounded down.

    None if it is below 1.
    """
    names = [name for name in results.scale.systems if name != "sutskever"]
    records = [results.first(f"table2-{name}") for name in names]
    best = [
        max((point["bleu"] for point in record.result.get("curve", []) if "bleu" in point), default=0.0)
        for record in records
        if record is not None
    ]
    return float(int(min(best))) if best and min(best) >= 1 else None


def _curve(results: Results, name: str, kind: str = "") -> list[dict[str, float]]:
    """Return a run's validations, with minutes from its tokens and the system's speed; [] if that is unknown."""
    record = results.first(f"table2-{kind}{name}")
    if record is None or "diverged" in record.result:
        return []
    speeds = _speeds(results, name)
    if speeds is None:
        return []
    minutes = record.result["target_tokens"] / speeds["speed"] / 60
    return [
        {**point, "minutes": minutes * point["step"] / record.result["steps"]}
        for point in record.result["curve"]
    ]


def _speeds(results: Results, name: str) -> dict[str, float] | None:
    """Return target tokens per second in training and sentences per second in decoding.

    They come from the run at equal training time alone, where a system has one: these runs need the same conditions for
    all systems, the others don't.
    """
    timed = f"table2-time-{name}"
    record = results.first(timed if any(row.name == timed for row in results.rows) else f"table2-{name}")
    if record is None or "diverged" in record.result:
        return None
    result = record.result
    share, minutes = 1.0, result["seconds"] / 60
    if result["curve"]:  # its minutes exclude validation
        last = result["curve"][-1]
        share, minutes = last["step"] / result["steps"], last["minutes"]
    return {
        "speed": result["target_tokens"] * share / minutes / 60,
        "decoded": result["decoding"]["sentences_per_second"],
    }


def systems_table(
    results: Results, kind: str, title: str, level: float | None, names: Sequence[str]
) -> Table:
    """Return the table of the named systems: at equal training time with the kind `time-`.

    `level` is the development BLEU to which the time is given.
    """
    scale = results.scale
    to_level = f"min to {level:.0f} dev BLEU" if level else "min to BLEU"
    return Table(
        title,
        (
            "system", "parameters", "BLEU as the paper", "sacreBLEU", "PPL", "min", to_level, "target tokens/s",
            "operations", "sentences/s decoded", "paper BLEU", "paper operations",
        ),
        tuple(_table_row(results, kind, name, level) for name in names),
        f"{_bleu_note(scale)} PPL: of a word of the test set. Minutes and speeds: tokens at the speed of the run by "
        f"the clock; operations by formula, forward and backward. {_paper_note(scale)} "
        f"Alike for all systems: {scale.comparison.treatment}. {_tuning_note(scale)}"
        + (" A rate that would fall to zero falls with the steps' inverse square root here." if kind else ""),
    )  # fmt: skip


def _bleu_note(scale: Scale) -> str:
    if scale.test.form == "given":
        return "BLEU as the paper: on the text as it is given, without another tokenization."
    compounds = ", German compounds split at hyphens" if scale.test.compounds else ""
    return f"BLEU as the paper: text tokenized as Moses does it{compounds}; sacreBLEU on plain text (wmt14/full)."


def _paper_note(scale: Scale) -> str:
    if scale.test.form == "given":
        return "The paper's columns are newstest2014, another task: compare orders, not values."
    return "The paper's columns are of the same test set."


def _tuning_note(scale: Scale) -> str:
    rates = ", ".join(f"{rate:g}" for rate in scale.comparison.tried)
    if not rates:
        return "Each one's own: its model and its learning rate."
    return (
        f"Each one's own: its model, and the learning rate; `headwise reproduce tuning --scale {scale.name}` tries "
        f"{rates} with all of them for {scale.comparison.steps:,} steps."
    )


def _table_row(results: Results, kind: str, name: str, level: float | None) -> tuple[str, ...]:
    row = f"table2-{kind}{name}"
    record = results.first(row)
    paper = system(_PAPER[name]) if name in _PAPER else None
    measured: tuple[str, ...] = ("–",) * 9
    if record is not None and "diverged" in record.result:
        measured = ("", "diverged", *("–",) * 7)
    elif record is not None:
        result, speeds = record.result, _speeds(results, name)
        tokens = result["target_tokens"]
        reached = minutes_to(_curve(results, name, kind), level) if level else None
        measured = (
            f"{result['parameters'] / 1e6:.2f} M",
            results.cell(row, _TOKENIZED),
            results.cell(row, _SACRE),
            results.cell(row, _PERPLEXITY),
            "–" if speeds is None else f"{tokens / speeds['speed'] / 60:.1f}",
            "–" if reached is None else f"{reached:.1f}",
            "–" if speeds is None else f"{speeds['speed']:,.0f}",
            f"{_flops(results, row, result):.1e}",
            "–" if speeds is None else f"{speeds['decoded']:.1f}",
        )
    return (_LABELS[name], *measured, *_paper_cells(paper, name.endswith("-fr")))


def _flops(results: Results, row: str, result: dict[str, Any]) -> float:
    training_row = next(r for r in results.rows if r.name == row)
    assert isinstance(training_row, TrainingRow)
    return training_flops(training_row.configuration(), result["target_tokens"], results.scale.sentence)


def _paper_cells(paper: System | None, french: bool) -> tuple[str, str]:
    if paper is None:
        return ("", "")
    cost = paper.flops or (paper.flops_en_fr if french else paper.flops_en_de)
    return (str(paper.en_fr if french else paper.en_de), "" if cost is None else f"{cost:.1e}")


EXPERIMENT = Experiment("table2", "Table 2: against the systems it replaced", rows, find)


def tuning_row_name(system: str, rate: float) -> str:
    """Return the name of the row of a system and a rate."""
    return f"tuning-{system}-{rate:g}"


def tuning_rows(scale: Scale) -> list[TrainingRow]:
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
                    tuning_row_name(name, rate),
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
    if not tried or results.missing(*(tuning_row_name(system, rate) for rate in tried)):
        return None
    perplexities = {rate: results.mean(tuning_row_name(system, rate), _DEV_PERPLEXITY) for rate in tried}
    return min(
        tried, key=lambda rate: math.inf if (perplexity := perplexities[rate]) is None else perplexity.value
    )


def find_tuning(results: Results) -> Finding:
    """Tabulate the perplexities by rate, and what table 2 takes."""
    comparison = results.scale.comparison
    if not comparison.tried:
        return Finding()
    table = Table(
        f"Development perplexity after {comparison.steps:,} steps by peak learning rate ({results.scale.about})",
        ("system", *(f"{rate:g}" for rate in comparison.tried), "lowest", "taken for table 2"),
        tuple(
            (
                ARCHITECTURES[name],
                *(results.cell(tuning_row_name(name, rate), _DEV_PERPLEXITY) for rate in comparison.tried),
                "–" if (best := best_rate(results, name)) is None else f"{best:g}",
                f"{comparison.rates[name]:g}",
            )
            for name in comparison.models
        ),
        f"Alike for all: {comparison.treatment}.",
    )
    return Finding([table])


TUNING = Experiment("tuning", "Tuning of the systems of table 2", tuning_rows, find_tuning)
