"""Tables 2 and 3 with every model trained until it learns no more, tuned alike (see `trials`), over several seeds.

`headwise reproduce all --scale tiny` runs the trials, and then what was chosen with every seed. Differences are means
over paired seeds, and one within its interval decides nothing. The time and the operations that a quality takes are
read from the same runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headwise.experiments.charts import difference_chart, length_chart, quality_chart, trained_systems
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
from headwise.experiments.harness.scoring import minutes_to
from headwise.experiments.paper import TABLE_3, row_name
from headwise.experiments.scales import ARCHITECTURES, Scale
from headwise.experiments.trials import (
    BUDGETS,
    PATIENCE,
    originals,
    system_row,
    to_the_end,
    variation_row,
    with_choices,
)
from headwise.models.counting import training_flops

_TEST = "test.tokenized_bleu.score"
_OURS = "converged-transformer"
_RISE = "Last rise: of development BLEU, in the last six validations."


def system_rows(scale: Scale) -> list[TrainingRow]:
    """Return a row for each system of table 2 whose trials are done, with the settings of the best one."""
    rows = []
    for system in scale.comparison.models:
        if system in scale.chosen:
            trial = BUDGETS[scale.name].trials_of(system)[scale.chosen[system]]
            row = system_row(scale, system, f"converged-{system}", ARCHITECTURES[system], trial)
            rows.append(to_the_end(scale, row))
    return rows


def variation_rows(scale: Scale) -> list[TrainingRow]:
    """Return a row for each row of table 3 and its ablation whose trials are done, with the best rate tried."""
    if scale.name not in BUDGETS:
        return []
    rows = []
    for name, original in originals(scale).items():
        if name in scale.chosen:
            rate = float(scale.chosen[name])
            row = variation_row(scale, original, f"converged-{name}", original.label, rate)
            rows.append(to_the_end(scale, row, BUDGETS[scale.name].variations))
    return rows


def _validated(record: Record) -> list[float]:
    """Return the development BLEU of each validation of a training; none if it diverged."""
    return [point["bleu"] for point in record.result.get("curve", []) if "bleu" in point]


def _rises(results: Results, name: str) -> dict[int, float]:
    """Return by how much development BLEU rose in the last six validations of a row's trainings, by seed."""
    curves = {record.seed: _validated(record) for record in results.records.get(name, [])}
    return {seed: scores[-1] - scores[-1 - PATIENCE :][0] for seed, scores in curves.items() if scores}


def _rise_cell(results: Results, name: str) -> str:
    rises = _rises(results, name)
    return f"{mean(list(rises.values())).value:+.1f}" if rises else "–"


def compare_converged(
    results: Results, text: str, row: str, other: str, measure: Measure, expected: int, against: str
) -> Claim:
    """Return what `compare` does of two rows at convergence, undecided where one was still catching up.

    A training that ended with its budget may not have learned all: nothing is decided where another six validations
    with the gains of the last six would decide otherwise, or nothing.
    """
    claim = compare(results, text, row, other, measure, expected, against)
    difference = results.difference(row, other, measure.path)
    ours, theirs = _rises(results, row), _rises(results, other)
    gains = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    decided = claim.status in ("confirmed", "refuted")
    if measure.unit != BLEU.unit or not decided or difference is None or not gains:
        return claim
    later = replace(difference, value=difference.value + mean(gains).value)
    if judge(text, later, expected, measure.unit).status == claim.status:
        return claim
    rises = f"{_rise_cell(results, row)} and {_rise_cell(results, other)} BLEU"
    end = f"But they gained {rises} in their last six validations: a longer training may decide otherwise."
    return Claim(text, "undecided", f"{claim.because} {end}")


def _level(results: Results) -> float | None:
    """Return the development BLEU that every recorded system with attention reaches with every seed, rounded down."""
    best = [
        max(_validated(record), default=0.0)
        for row in results.rows
        for record in results.records[row.name]
        if not row.name.endswith("-sutskever") and "diverged" not in record.result
    ]
    return float(int(min(best))) if best and min(best) >= 1 else None


def _costs(results: Results, name: str, level: float | None) -> dict[int, tuple[float, float]]:
    """Return the minutes and operations of training until development BLEU reaches a level, by seed.

    Nothing if a seed doesn't reach it: a mean over those that do would say too little.
    """
    row = next(row for row in results.rows if row.name == name)
    assert isinstance(row, TrainingRow)
    costs = {}
    for record in results.records[name]:
        points = record.result.get("curve", [])
        minutes = minutes_to(points, level) if level else None
        if minutes is None:
            return {}
        last, result = points[-1], record.result
        per_minute = result["target_tokens"] * last["step"] / result["steps"] / last["minutes"]
        operations = training_flops(row.configuration(), minutes * per_minute, results.scale.sentence)
        costs[record.seed] = (minutes, operations)
    return costs


def find_systems(results: Results) -> Finding:
    """Compare the systems of table 2 at convergence: quality, and the cost of a quality that all reach."""
    level, scale = _level(results), results.scale
    rows = []
    for row in results.rows:
        costs = list(_costs(results, row.name, level).values())
        rows.append(
            (
                row.label,
                scale.chosen[row.name.removeprefix("converged-")],
                results.seeds(row.name),
                results.cell(row.name, BLEU.path),
                results.cell(row.name, _TEST),
                results.cell(row.name, "test.bleu.score"),
                results.cell(row.name, "steps", 0),
                _rise_cell(results, row.name),
                mean([minutes for minutes, _ in costs]).text(1) if costs else "–",
                f"{mean([operations for _, operations in costs]).value:.1e}" if costs else "–",
            )
        )
    to_level = f"to {level:.0f} dev BLEU" if level else "to BLEU"
    table = Table(
        f"Table 2 at convergence, at equal parameters ({scale.about})",
        (
            "system", "trial", "seeds", "dev BLEU", "BLEU as the paper", "sacreBLEU", "steps", "last rise",
            f"min {to_level}", f"operations {to_level}",
        ),
        tuple(rows),
        f"{note(scale)} {_RISE} Mean over seeds with its 95 % interval. Time and operations to a quality are read from "
        "the same runs, between validations.",
    )  # fmt: skip
    name = f"table2-converged-{scale.name}"
    text = (
        "Development BLEU against operations of training, of systems trained to convergence, and the paper's table "
        "(lines: during training; dots: finished models; 95 % intervals)"
    )
    trained = any(trained_systems(results, "converged-"))
    charts = (
        [
            quality_chart(results, "converged-", name, text),
            length_chart(results, "converged-", f"length-{scale.name}"),
        ]
        if trained
        else []
    )
    claims = [_best_claim(results), _length_claim(results), _cost_claim(results, level)]
    return Finding([table], [chart for chart in charts if chart is not None], claims)


def note(scale: Scale) -> str:
    """Return how every run at convergence is trained, and the command that runs what isn't yet."""
    if scale.name not in BUDGETS:
        return ""
    return (
        f"Every run trains {BUDGETS[scale.name].text}; the last 4 checkpoints are averaged. {_missing(scale)}"
    )


def _best_other(results: Results) -> str | None:
    """Return the row of the best system besides the Transformer; None before every system has a record.

    A system all of whose seeds diverged isn't the best one.
    """
    names = [row.name for row in results.rows]
    if len(names) < len(results.scale.comparison.models) or results.missing(*names):
        return None
    scores = {name: results.mean(name, _TEST) for name in names if name != _OURS}
    means = {name: score.value for name, score in scores.items() if score is not None}
    return max(means, key=means.__getitem__, default=None)


def _against(name: str) -> str:
    return f"the best of the others, {ARCHITECTURES[name.removeprefix('converged-')]}"


def _best_claim(results: Results) -> Claim:
    text = "Tuned alike and within one budget, the Transformer is better than the systems of its size that it replaced"
    best = _best_other(results)
    if best is None:
        return Claim(text, "not run yet", _missing(results.scale))
    return compare_converged(results, text, _OURS, best, Measure(_TEST, "BLEU"), 1, _against(best))


def _length_claim(results: Results) -> Claim:
    text = "The Transformer gains on the system that is best besides it with the length of the sentence"
    best = _best_other(results)
    if best is None:
        return Claim(text, "not run yet", _missing(results.scale))
    record = next((record for record in results.records[_OURS] if "test" in record.result), None)
    if record is None:
        return Claim(text, "undecided", f"{_OURS} diverged with every seed.")
    groups = list(record.result["test"]["by_length"])
    longest, shortest = ((_OURS, best, f"test.by_length.{groups[place]}.bleu") for place in (-1, 0))
    of = (
        f"BLEU of its difference, in the fifth of longest sentences (more than {groups[-2]} words) against the "
        f"shortest (at most {groups[0]}), to {_against(best)}"
    )
    return judge_gain(results, text, longest, shortest, of, _missing(results.scale))


def _cost_claim(results: Results, level: float | None) -> Claim:
    text = "The Transformer reaches a quality that all reach with fewer operations of training"
    costs = {row.name: _costs(results, row.name, level) for row in results.rows}
    if _best_other(results) is None:
        return Claim(text, "not run yet", _missing(results.scale))
    ours = costs.pop(_OURS)
    reached = {name: cost for name, cost in costs.items() if cost}
    if not ours or not reached:
        return Claim(text, "undecided", f"Not every seed reaches it ({_OURS}: {results.seeds(_OURS)}).")
    best = min(reached, key=lambda name: mean([operations for _, operations in reached[name].values()]).value)
    shares = [100 * (ours[seed][1] / other[1] - 1) for seed, other in reached[best].items() if seed in ours]
    if not shares:
        return Claim(text, "not run yet", _missing(results.scale))
    label = ARCHITECTURES[best.removeprefix("converged-")]
    of = f"% operations to {level:.0f} development BLEU, against the cheapest other one, {label}"
    return judge(text, mean(shares), -1, of, digits=0)


def _missing(scale: Scale) -> str:
    return f"`headwise reproduce all --scale {scale.name}` continues what isn't finished, the trials first."


# Row -> the claim of section 6.2 or 3 about it, and the sign that this says it has against base.
_CLAIMS: Mapping[str, tuple[str, int]] = {
    "table3-a-h1": ("(A) A single head is worse than several", -1),
    "table3-a-h32": ("(A) Too many heads are worse, too", -1),
    "table3-b-dk16": ("(B) Smaller keys hurt (d_k = 16)", -1),
    "table3-b-dk32": ("(B) Smaller keys hurt (d_k = 32)", -1),
    "table3-c-d1024": ("(C) Bigger models are better (d_model = 1024)", 1),
    "table3-c-ff4096": ("(C) Bigger models are better (d_ff = 4096)", 1),
    "table3-d-drop0": ("(D) A model without dropout is worse", -1),
    "table3-e-learned": ("(E) Learned positions are nearly identical to sinusoids", 0),
    "table3-big": ("The big model is better than base", 1),
    "ablation-positions": ("A model without positions is worse (section 3.5)", -1),
    "ablation-residuals": ("A model without residual connections is worse (section 3.1)", -1),
    "ablation-scaling": ("A model without the division by √d_k is worse (section 3.2.1)", -1),
}


def find_variations(results: Results) -> Finding:
    """Compare every row of table 3 with base at convergence, over paired seeds."""
    base = "converged-table3-base"
    papers = {row_name(line.preset): line.bleu - TABLE_3[0].bleu for line in TABLE_3}
    rows = []
    for row in results.rows:
        name = row.name.removeprefix("converged-")
        rows.append(
            (
                row.label,
                results.scale.chosen[name],
                results.seeds(row.name),
                results.cell(row.name, "dev.perplexity"),
                results.cell(row.name, BLEU.path),
                _rise_cell(results, row.name),
                "–" if row.name == base else results.difference_cell(row.name, base, BLEU.path),
                f"{papers[name]:+.1f}" if name in papers else "",
            )
        )
    table = Table(
        f"Table 3 at convergence, on development data ({results.scale.about})",
        ("row", "rate, times its own", "seeds", "PPL", "BLEU", "last rise", "Δ to base", "paper Δ"),
        tuple(rows),
        f"{note(results.scale)} {_RISE} Δ: a mean over paired seeds with its 95 % interval.",
    )
    allowed = originals(results.scale) if results.scale.name in BUDGETS else {}
    claims = [
        compare_converged(results, text, f"converged-{name}", base, BLEU, sign, "base")
        for name, (text, sign) in _CLAIMS.items()
        if name in allowed
    ]
    text = "BLEU of each variation at convergence relative to base, here and in the paper"
    chart = difference_chart(results, "converged-", f"table3-converged-{results.scale.name}", text)
    return Finding([table], [chart] if chart is not None else [], claims)


SYSTEMS = Experiment(
    "table2-converged", "Table 2 at convergence", system_rows, find_systems, seeds=(), tune=with_choices
)
VARIATIONS = Experiment(
    "table3-converged", "Table 3 at convergence", variation_rows, find_variations, seeds=(), tune=with_choices
)
