"""Table 2: the Transformer and the systems that it replaced, at equal parameters, tuned alike and trained to the end.

`headwise reproduce all` runs the trials (see `trials`), and then what was chosen with every seed. Differences are means
over paired seeds, and one within its interval decides nothing. The time and the operations that a quality takes are
read from the same runs. At the scale wmt14, which has no trials, each system has its authors' settings.
"""

from __future__ import annotations

from headwise.experiments.charts import length_chart, quality_chart, trained_systems
from headwise.experiments.harness.outcome import (
    BLEU,
    Claim,
    Finding,
    Measure,
    Table,
    compare,
    judge,
    judge_gain,
)
from headwise.experiments.harness.records import Record, Results, mean
from headwise.experiments.harness.rows import TrainingRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.harness.scoring import spent_until
from headwise.experiments.paper import System, system
from headwise.experiments.scales import ARCHITECTURES, RowRecipe, Scale, system_row_name
from headwise.experiments.trials import (
    BUDGETS,
    budget_note,
    how_to_continue,
    system_row,
    to_the_end,
    with_choices,
)
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
_TOKENIZED, _SACRE = "test.tokenized_bleu.score", "test.bleu.score"
OURS = system_row_name("transformer")


def rows(scale: Scale) -> list[TrainingRow]:
    """Return a row for each system whose trials are done, with the settings of the best one.

    At a scale without trials, all systems and the scale's further rows.
    """
    if scale.name not in BUDGETS:
        systems = {name: scale.comparison.recipe(name) for name in scale.comparison.models}
        return [_as_it_is(name, recipe, scale) for name, recipe in {**systems, **scale.more}.items()]
    budget = BUDGETS[scale.name]
    return [
        to_the_end(
            system_row(scale, name, system_row_name(name), _LABELS[name], budget.trials_of(name)[scale.chosen[name]])
        )
        for name in scale.comparison.models
        if name in scale.chosen
    ]


def _as_it_is(name: str, recipe: RowRecipe, scale: Scale) -> TrainingRow:
    return TrainingRow(system_row_name(name), _LABELS[name], scale.name, recipe.file, recipe.changes, test=recipe.test)


def _system(row: str) -> str:
    return row.removeprefix("table2-")


def find(results: Results) -> Finding:
    """Compare the systems: quality, and the cost of a quality that all reach."""
    level, name = _level(results), results.scale.name
    charts = []
    if any(trained_systems(results)):
        text = (
            "Development BLEU against operations of training, and the paper's table (lines: during training; dots: "
            "finished models; 95 % intervals)"
        )
        charts = [
            quality_chart(results, f"table2-{name}", text),
            length_chart(results, f"length-{name}"),
        ]
    claims = [
        _undecided_while_missing(results, claim)
        for claim in (_best_claim(results), _length_claim(results), _cost_claim(results, level))
    ]
    table = systems_table(results, f"Table 2, at equal parameters ({results.scale.about})", level)
    return Finding([table], [chart for chart in charts if chart is not None], claims)


def systems_table(results: Results, title: str, level: float | None = None) -> Table:
    """Return the table of all rows; `level` is the development BLEU to which time and operations are given."""
    to_level = f"to {level:.0f} dev BLEU" if level else "to BLEU"
    scale = results.scale
    return Table(
        title,
        (
            "system", "trial", "seeds", "parameters", "dev BLEU", "BLEU as the paper", "sacreBLEU", "steps",
            "target tokens/s", f"min {to_level}", f"operations {to_level}", "operations", "paper BLEU",
            "paper operations",
        ),
        tuple(_table_row(results, row, level) for row in results.rows if isinstance(row, TrainingRow)),
        f"{_bleu_note(scale)} {budget_note(scale)} Alike for all systems: {scale.comparison.treatment}. Means over "
        "seeds, of BLEU and time with their 95 % interval. Time and operations to a quality are read from the same "
        "runs, between validations; operations are by formula, forward and backward."
        f"{_time_note(results)} {_paper_note(scale)}",
    )  # fmt: skip


def _bleu_note(scale: Scale) -> str:
    if scale.test.form == "given":
        return "BLEU as the paper: on the text as it is given, without another tokenization."
    compounds = ", German compounds split at hyphens" if scale.test.compounds else ""
    return f"BLEU as the paper: text tokenized as Moses does it{compounds}; sacreBLEU on plain text (wmt14/full)."


def _time_note(results: Results) -> str:
    if not any(record.on_gpu for records in results.records.values() for record in records):
        return ""
    return " Times are of the runs on a CPU: on a GPU, many runs shared it."


def _paper_note(scale: Scale) -> str:
    if scale.test.form == "given":
        return "The paper's columns are newstest2014, another task: compare orders, not values."
    return "The paper's columns are of the same test set."


def _table_row(results: Results, row: TrainingRow, level: float | None) -> tuple[str, ...]:
    name = _system(row.name)
    records = [record for record in results.records[row.name] if "diverged" not in record.result]
    timed = [record for record in records if not record.on_gpu]
    minutes = [spent_until(record.result["curve"], level, "minutes") for record in timed] if level else []
    reached = [each for each in minutes if each is not None]
    costs = _costs(results, row, level)
    parameters, steps, tokens = (results.mean(row.name, key) for key in ("parameters", "steps", "target_tokens"))
    speeds = [_tokens_a_minute(record) / 60 for record in timed]
    operations = None if tokens is None else training_flops(row.configuration(), tokens.value, results.scale.sentence)
    paper = system(_PAPER[name]) if name in _PAPER else None
    return (
        row.label,
        results.scale.chosen.get(name, "–"),
        results.seeds(row.name),
        "–" if parameters is None else f"{parameters.value / 1e6:.2f} M",
        results.cell(row.name, BLEU.path),
        results.cell(row.name, _TOKENIZED),
        results.cell(row.name, _SACRE),
        "–" if steps is None else f"{steps.value:,.0f}",
        f"{mean(speeds).value:,.0f}" if speeds else "–",
        mean(reached).text(1) if reached and len(reached) == len(minutes) else "–",
        f"{mean(list(costs.values())).value:.1e}" if costs else "–",
        "–" if operations is None else f"{operations:.1e}",
        *_paper_cells(paper, name.endswith("-fr")),
    )


def _paper_cells(paper: System | None, french: bool) -> tuple[str, str]:
    if paper is None:
        return ("", "")
    cost = paper.flops or (paper.flops_en_fr if french else paper.flops_en_de)
    return (str(paper.en_fr if french else paper.en_de), "" if cost is None else f"{cost:.1e}")


def _tokens_a_minute(record: Record) -> float:
    """Return the target tokens of a minute of training, validation excluded as far as the record tells it."""
    result = record.result
    if not result["curve"]:
        return result["target_tokens"] / result["seconds"] * 60
    last = result["curve"][-1]
    return result["target_tokens"] * last["step"] / result["steps"] / last["minutes"]


def _level(results: Results) -> float | None:
    """Return the development BLEU that every recorded system with attention reaches with every seed, rounded down."""
    best = [
        max((point["bleu"] for point in record.result["curve"] if "bleu" in point), default=0.0)
        for row in results.rows
        for record in results.records[row.name]
        if row.name != system_row_name("sutskever") and "diverged" not in record.result
    ]
    return float(int(min(best))) if best and min(best) >= 1 else None


def _costs(results: Results, row: TrainingRow, level: float | None) -> dict[int, float]:
    """Return the operations of training until development BLEU reaches a level, by seed.

    Nothing if a seed doesn't reach it: a mean over those that do would say too little.
    """
    costs = {}
    for record in results.records[row.name]:
        result = record.result
        steps = spent_until(result.get("curve", []), level, "step") if level else None
        if steps is None:
            return {}
        tokens = result["target_tokens"] * steps / result["steps"]
        costs[record.seed] = training_flops(row.configuration(), tokens, results.scale.sentence)
    return costs


def _best_other(results: Results) -> str | None:
    """Return the row with the best development BLEU besides the Transformer's; None before both have a record.

    A system all of whose seeds diverged isn't the best one.
    """
    if results.missing(OURS):
        return None
    names = (system_row_name(name) for name in results.scale.comparison.models)
    scores = {name: results.mean(name, BLEU.path) for name in names if name != OURS}
    means = {name: score.value for name, score in scores.items() if score is not None}
    return max(means, key=means.__getitem__, default=None)


def _undecided_while_missing(results: Results, claim: Claim) -> Claim:
    """Return the claim with what was found so far; undecided while a system, which may be the best, has no record."""
    missing = results.missing(*map(system_row_name, results.scale.comparison.models))
    if not missing or claim.status == "not run yet":
        return claim
    left = "; ".join(ARCHITECTURES[_system(name)] for name in missing)
    return Claim(claim.text, "undecided", f"{claim.because} Not run yet: {left}.")


def _against(row: str) -> str:
    return f"the best of the others, {ARCHITECTURES[_system(row)]}"


def _best_claim(results: Results) -> Claim:
    text = "Tuned alike and within one budget, the Transformer is better than the systems of its size that it replaced"
    best = _best_other(results)
    if best is None:
        return Claim(text, "not run yet", how_to_continue(results.scale))
    return compare(results, text, OURS, best, Measure(_TOKENIZED, "BLEU"), 1, _against(best))


def _length_claim(results: Results) -> Claim:
    text = "The Transformer gains on the system that is best besides it with the length of the sentence"
    best = _best_other(results)
    if best is None:
        return Claim(text, "not run yet", how_to_continue(results.scale))
    record = next((record for record in results.records[OURS] if "test" in record.result), None)
    if record is None:
        return Claim(text, "undecided", f"{OURS} diverged with every seed.")
    groups = list(record.result["test"]["by_length"])
    longest, shortest = ((OURS, best, f"test.by_length.{groups[place]}.bleu") for place in (-1, 0))
    of = (
        f"BLEU in the fifth of longest sentences (more than {groups[-2]} words) against the shortest (at most "
        f"{groups[0]}), relative to {_against(best)}"
    )
    return judge_gain(results, text, longest, shortest, of, how_to_continue(results.scale))


def _cost_claim(results: Results, level: float | None) -> Claim:
    text = "The Transformer reaches a quality that all reach with fewer operations of training"
    if _best_other(results) is None:
        return Claim(text, "not run yet", how_to_continue(results.scale))
    costs = {row.name: _costs(results, row, level) for row in results.rows if isinstance(row, TrainingRow)}
    ours = costs.pop(OURS)
    reached = {name: cost for name, cost in costs.items() if cost}
    if not ours or not reached:
        return Claim(text, "undecided", f"Not every seed reaches it ({OURS}: {results.seeds(OURS)}).")
    best = min(reached, key=lambda name: mean(list(reached[name].values())).value)
    shares = [100 * (ours[seed] / other - 1) for seed, other in reached[best].items() if seed in ours]
    if not shares:
        return Claim(text, "not run yet", how_to_continue(results.scale))
    of = f"% operations to {level:.0f} development BLEU, against the cheapest other one, {ARCHITECTURES[_system(best)]}"
    return judge(text, mean(shares), -1, of, digits=0)


EXPERIMENT = Experiment("table2", "Table 2: against the systems it replaced", rows, find, seeds=(), tune=with_choices)
