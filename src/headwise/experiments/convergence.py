"""Tables 2 and 3 with every model trained until it learns no more, tuned alike (see `trials`), over several seeds.

`headwise reproduce all --scale tiny` runs the trials, and then what was chosen with every seed. Differences are means
over paired seeds, and one within its interval decides nothing. The time and the operations that a quality takes are
read from the same runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from matplotlib.figure import Figure

from headwise.experiments import table3
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Status, Table, plain
from headwise.experiments.harness.records import Mean, Results, mean
from headwise.experiments.harness.rows import TrainingRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.harness.scoring import minutes_to
from headwise.experiments.paper import TABLE_3, variation
from headwise.experiments.scales import ARCHITECTURES, Scale
from headwise.experiments.trials import BUDGETS, DEV, originals, system_row, variation_row, with_choices
from headwise.models.counting import training_flops

_TEST = "test.tokenized_bleu.score"
_EQUAL = 0.3  # BLEU: models that differ by less are called nearly identical
_COLORS = dict(zip(ARCHITECTURES, ("C1", "C3", "C5", "C9", "C2", "C0"), strict=True))


def system_rows(scale: Scale) -> list[TrainingRow]:
    """Return a row for each system of table 2 whose trials are done, with the settings of the best one."""
    return [
        system_row(
            scale,
            system,
            f"converged-{system}",
            ARCHITECTURES[system],
            BUDGETS[scale.name].trials_of(system)[scale.chosen[system]],
        )
        for system in scale.comparison.models
        if system in scale.chosen
    ]


def variation_rows(scale: Scale) -> list[TrainingRow]:
    """Return a row for each row of table 3 and its ablation whose trials are done, with the best rate tried."""
    allowed = originals(scale) if scale.name in BUDGETS else {}
    return [
        variation_row(scale, row, f"converged-{name}", row.label, float(scale.chosen[name]))
        for name, row in allowed.items()
        if name in scale.chosen
    ]


def judge(text: str, difference: Mean | None, expected: int, because: str) -> Claim:
    """Return a claim on a difference of BLEU over paired seeds: whether its whole interval has the expected sign.

    `expected` 0 claims that models are nearly identical. A difference within its interval decides nothing; the number
    of seeds that would is estimated from its deviation.
    """
    if difference is None:
        return Claim(text, "not run yet", because)
    if difference.half is None:
        return Claim(text, "undecided", f"{because} One seed decides nothing.")
    value, half = difference.value, difference.half
    low, high = value - half, value + half
    status: Status = "undecided"
    if expected == 0:
        if max(-low, high) <= _EQUAL:
            status = "confirmed here"
        elif low > _EQUAL or high < -_EQUAL:
            status = "refuted here"
    elif low > 0 or high < 0:
        status = "confirmed here" if value * expected > 0 else "refuted here"
    if status == "undecided" and expected and value:
        deviation = half * math.sqrt(difference.count) / difference.quantile
        seeds = max(difference.count + 1, math.ceil((1.96 * deviation / value) ** 2))
        because += f" About {seeds} seeds would decide it."
    return Claim(text, status, because)


def _level(results: Results) -> float | None:
    """Return the development BLEU that every recorded system with attention reaches with every seed, rounded down."""
    best = [
        max((point["bleu"] for point in record.result["curve"] if "bleu" in point), default=0.0)
        for row in results.rows
        for record in results.records[row.name]
        if not row.name.endswith("-sutskever") and "diverged" not in record.result
    ]
    return float(int(min(best))) if best and min(best) >= 1 else None


def _costs(results: Results, name: str, level: float | None) -> tuple[Mean, Mean] | None:
    """Return the minutes and the operations of training until development BLEU reaches a level, over seeds."""
    row = next(row for row in results.rows if row.name == name)
    assert isinstance(row, TrainingRow)
    minutes, operations = [], []
    for record in results.records[name]:
        points = record.result.get("curve", [])
        needed = minutes_to(points, level) if level else None
        if needed is None:
            return None
        per_minute = (
            record.result["target_tokens"]
            * points[-1]["step"]
            / record.result["steps"]
            / points[-1]["minutes"]
        )
        minutes.append(needed)
        operations.append(training_flops(row.configuration(), needed * per_minute, results.scale.sentence))
    return (mean(minutes), mean(operations)) if minutes else None


def find_systems(results: Results) -> Finding:
    """Compare the systems of table 2 at convergence: quality, and the cost of a quality that all reach."""
    level, scale = _level(results), results.scale
    rows = []
    for row in results.rows:
        costs = _costs(results, row.name, level)
        rows.append(
            (
                row.label,
                scale.chosen[row.name.removeprefix("converged-")],
                str(len(results.records[row.name])),
                results.cell(row.name, DEV),
                results.cell(row.name, _TEST),
                results.cell(row.name, "test.bleu.score"),
                results.cell(row.name, "steps", 0),
                "–" if costs is None else costs[0].text(1),
                "–" if costs is None else f"{costs[1].value:.1e}",
            )
        )
    to_level = f"to {level:.0f} dev BLEU" if level else "to BLEU"
    table = Table(
        f"Table 2 at convergence, at equal parameters ({scale.about})",
        (
            "system", "trial", "seeds", "dev BLEU", "BLEU as the paper", "sacreBLEU", "steps", f"min {to_level}",
            f"operations {to_level}",
        ),
        tuple(rows),
        _note(scale) + " Mean over seeds with its 95 % interval. Time and operations to a quality are read from the "
        "same runs, between validations.",
    )  # fmt: skip
    charts = [_quality_chart(results)] if any(results.records.values()) else []
    return Finding([table], charts, [_best_claim(results), _cost_claim(results, level)])


def _note(scale: Scale) -> str:
    budget = BUDGETS.get(scale.name)
    return "" if budget is None else f"Every run trains {budget.text}; the last 4 checkpoints are averaged."


def _best_claim(results: Results) -> Claim:
    text = "Trained until it learns no more, the Transformer is better than the systems of its size that it replaced"
    scores = {row.name: results.mean(row.name, _TEST) for row in results.rows}
    means = {name: score.value for name, score in scores.items() if score is not None}
    if "converged-transformer" not in means or len(means) < len(results.scale.comparison.models):
        return Claim(text, "not run yet", _missing(results))
    best = max((name for name in means if name != "converged-transformer"), key=lambda name: means[name])
    difference = results.difference("converged-transformer", best, _TEST)
    label = ARCHITECTURES[best.removeprefix("converged-")]
    because = (
        f"{results.cell('converged-transformer', _TEST)} BLEU against {results.cell(best, _TEST)} of {label}."
    )
    if difference is not None:
        because += f" Difference over {difference.count} paired seeds: {difference.text(2, sign=True)}."
    return judge(text, difference, 1, because)


def _cost_claim(results: Results, level: float | None) -> Claim:
    text = "The Transformer reaches a quality that all reach with fewer operations of training"
    costs = {row.name: _costs(results, row.name, level) for row in results.rows}
    reached = {name: cost[1] for name, cost in costs.items() if cost is not None}
    if "converged-transformer" not in reached or len(reached) < len(results.scale.comparison.models) - 1:
        return Claim(text, "not run yet", _missing(results))
    ours = reached.pop("converged-transformer")
    best = min(reached, key=lambda name: reached[name].value)
    other, label = reached[best], ARCHITECTURES[best.removeprefix("converged-")]
    because = f"{ours.value:.1e} operations to {level:.0f} dev BLEU against {other.value:.1e} of {label}."
    if ours.half is None or other.half is None:
        return Claim(text, "undecided", f"{because} One seed decides nothing.")
    apart = abs(ours.value - other.value) > math.hypot(ours.half, other.half)
    decided: Status = "confirmed here" if ours.value < other.value else "refuted here"
    return Claim(text, decided if apart else "undecided", because)


def _missing(results: Results) -> str:
    return f"`headwise reproduce all --scale {results.scale.name}` continues what isn't finished."


def _quality_chart(results: Results) -> Chart:
    """Return the chart of test BLEU against the operations of the whole training, with intervals."""

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for row in results.rows:
            score, tokens = results.mean(row.name, _TEST), results.mean(row.name, "target_tokens")
            if score is None or tokens is None:
                continue
            assert isinstance(row, TrainingRow)
            operations = training_flops(row.configuration(), tokens.value, results.scale.sentence)
            color = _COLORS[row.name.removeprefix("converged-")]
            axis.errorbar(
                operations,
                score.value,
                yerr=score.half or 0.0,
                fmt="o",
                color=color,
                capsize=2,
                label=row.label,
            )
        axis.set_xscale("log")
        axis.set(xlabel="operations of training", ylabel="test BLEU, 95 % interval")
        axis.legend(frameon=False, fontsize=7)

    name = f"table2-converged-{results.scale.name}"
    return Chart(name, "Quality of each system at convergence against the operations of its training", draw)


# Claim of section 6.2 or 3 -> the rows that it is about, each with the sign that it says they have against base.
_CLAIMS: Mapping[str, Mapping[str, int]] = {
    "(A) A single head is worse than several": {"table3-a-h1": -1},
    "(A) Too many heads are worse, too": {"table3-a-h32": -1},
    "(B) Smaller keys hurt": {"table3-b-dk16": -1, "table3-b-dk32": -1},
    "(C) Bigger models are better": {"table3-c-d1024": 1, "table3-c-ff4096": 1},
    "(D) Dropout is very helpful in avoiding overfitting": {"table3-d-drop0": -1},
    "(D) Label smoothing improves BLEU": {"table3-d-ls0": -1},
    "(E) Learned positions are nearly identical to sinusoids": {"table3-e-learned": 0},
    "The big model is the best": {"table3-big": 1},
    "The model needs to be told positions": {"ablation-positions": -1},
    "The model needs residual connections": {"ablation-residuals": -1},
    "The model needs the division by √d_k": {"ablation-scaling": -1},
}


def find_variations(results: Results) -> Finding:
    """Compare every row of table 3 with base at convergence, over paired seeds."""
    base = "converged-table3-base"
    papers = {table3.row_name(line.preset): line.bleu - TABLE_3[0].bleu for line in TABLE_3}
    rows = []
    for row in results.rows:
        name = row.name.removeprefix("converged-")
        difference = results.difference(row.name, base, DEV) if row.name != base else None
        rows.append(
            (
                row.label,
                results.scale.chosen[name],
                str(len(results.records[row.name])),
                results.cell(row.name, "dev.perplexity"),
                results.cell(row.name, DEV),
                "–" if difference is None else difference.text(2, sign=True),
                f"{papers[name]:+.1f}" if name in papers else "",
            )
        )
    table = Table(
        f"Table 3 at convergence, on development data ({results.scale.about})",
        ("row", "rate, times its own", "seeds", "PPL", "BLEU", "Δ to base", "paper Δ"),
        tuple(rows),
        _note(results.scale) + " Δ: a mean over paired seeds with its 95 % interval.",
    )
    allowed = originals(results.scale) if results.scale.name in BUDGETS else {}
    claims = [
        claim
        for text, expected in _CLAIMS.items()
        if set(expected) <= set(allowed)
        for claim in _variation_claims(results, text, expected)
    ]
    compared = [row for row in results.rows if results.difference(row.name, base, DEV) and row.name != base]
    return Finding(
        [table], [_difference_chart(results, [row.name for row in compared])] if compared else [], claims
    )


def _variation_claims(results: Results, text: str, expected: Mapping[str, int]) -> Iterator[Claim]:
    """Yield a claim for each row: at convergence one of them may be decided where another isn't."""
    labels = {row.name: row.label for row in results.rows}
    for name, sign in expected.items():
        row = f"converged-{name}"
        difference = results.difference(row, "converged-table3-base", DEV) if row in labels else None
        of = f" ({labels.get(row, variation(name).label)})" if len(expected) > 1 else ""
        because = _missing(results)
        if difference is not None:
            because = (
                f"{difference.text(2, sign=True)} BLEU against base over {difference.count} paired seeds."
            )
        yield judge(f"At convergence: {text}{of}", difference, sign, because)


def _difference_chart(results: Results, names: Sequence[str]) -> Chart:
    """Return the dot plot of differences to base, here and in the paper."""
    papers = {table3.row_name(line.preset): line.bleu - TABLE_3[0].bleu for line in TABLE_3}
    labels = {row.name: row.label for row in results.rows}

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for y, name in enumerate(names):
            difference = results.difference(name, "converged-table3-base", DEV)
            assert difference is not None
            axis.errorbar(difference.value, y, xerr=difference.half or 0.0, fmt="o", color="C0", capsize=2)
            paper = papers.get(name.removeprefix("converged-"))
            if paper is not None:
                axis.plot(paper, y, "x", color="C3")
        axis.axvline(0, color="0.7", linewidth=1)
        axis.set_yticks(range(len(names)), [labels[name] for name in names], fontsize=8)
        axis.invert_yaxis()
        axis.set(xlabel="BLEU less base's: here (dots, 95 % interval) and in the paper (crosses)")

    name = f"table3-converged-{results.scale.name}"
    return Chart(name, "BLEU of each variation at convergence relative to base", draw, (8, 5.4))


SYSTEMS = Experiment(
    "table2-converged", "Table 2 at convergence", system_rows, find_systems, seeds=(), tune=with_choices
)
VARIATIONS = Experiment(
    "table3-converged", "Table 3 at convergence", variation_rows, find_variations, seeds=(), tune=with_choices
)
