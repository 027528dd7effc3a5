"""Table 3: variations of the Transformer and ablations of it, each with a rate of its own, trained to the end.

Differences to base are means over paired seeds, and one within its interval decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwise.experiments.charts import difference_chart
from headwise.experiments.harness.outcome import BLEU, Claim, Finding, Table, compare
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import TrainingRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.paper import TABLE_3, row_name
from headwise.experiments.scales import Scale
from headwise.experiments.trials import (
    BUDGETS,
    budget_note,
    originals,
    to_the_end,
    tuned_row,
    with_choices,
)
from headwise.experiments.variations import ablation_rows, variation_row

_BASE = "table3-base"

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


def rows(scale: Scale) -> list[TrainingRow]:
    """Return a row for each variation and ablation whose trials are done, with the best rate tried.

    At a scale without trials, all of them, with base's rate scaled by their width.
    """
    if scale.name not in BUDGETS:
        return [*(variation_row(line.preset, scale) for line in TABLE_3), *ablation_rows(scale)]
    return [
        to_the_end(tuned_row(scale, original, name, original.label, float(scale.chosen[name])))
        for name, original in originals(scale).items()
        if name in scale.chosen
    ]


def find(results: Results) -> Finding:
    """Compare every row with base, over paired seeds."""
    scale = results.scale
    table = Table(
        f"Table 3 on development data ({scale.about})",
        (
            "row", "here", "rate, times its own", "seeds", "parameters", "PPL", "BLEU", "Δ to base",
            "paper parameters", "paper PPL", "paper BLEU", "paper Δ",
        ),
        tuple(_table_row(results, row) for row in results.rows if isinstance(row, TrainingRow)),
        f"{budget_note(scale)} Δ: BLEU less base's, a mean over paired seeds with its 95 % interval. Parameters "
        "relative to base.",
    )  # fmt: skip
    allowed = {row.name for row in results.rows} | (originals(scale).keys() if scale.name in BUDGETS else set())
    claims = [
        _undecided_at_the_lowest_rate(results, name, compare(results, text, name, _BASE, BLEU, sign, "base"))
        for name, (text, sign) in _CLAIMS.items()
        if name in allowed
    ]
    chart = difference_chart(
        results, f"table3-{scale.name}", "BLEU of each variation relative to base, here and in the paper"
    )
    return Finding([table], [chart] if chart is not None else [], claims)


def _undecided_at_the_lowest_rate(results: Results, name: str, claim: Claim) -> Claim:
    """Return the claim; undecided if the row is worse than base with the lowest rate tried, which was its best."""
    budget, difference = BUDGETS.get(results.scale.name), results.difference(name, _BASE, BLEU.path)
    if budget is None or difference is None or difference.value >= 0 or claim.status == "undecided":
        return claim
    if float(results.scale.chosen[name]) > min(budget.multiples):
        return claim
    why = "The lowest rate that was tried was its best, so a lower one may be better."
    return Claim(claim.text, "undecided", f"{claim.because} {why}")


def _table_row(results: Results, row: TrainingRow) -> tuple[str, ...]:
    papers = {row_name(line.preset): line for line in TABLE_3}
    paper, base = papers.get(row.name), TABLE_3[0]
    sizes = results.mean(row.name, "parameters"), results.mean(_BASE, "parameters")
    here = (
        f"({paper.group}) {row.label}" if paper is not None and paper.group else row.label,
        _base_text(row) if row.name == _BASE else _changes_text(results.scale, row),
        results.scale.chosen.get(row.name, "–"),
        results.seeds(row.name),
        "–" if sizes[0] is None or sizes[1] is None else f"{sizes[0].value / sizes[1].value:.2f}",
        results.cell(row.name, "dev.perplexity"),
        results.cell(row.name, BLEU.path),
        "" if row.name == _BASE else results.difference_cell(row.name, _BASE, BLEU.path),
    )
    if paper is None:
        return (*here, "", "", "", "")
    return (
        *here,
        "" if paper.parameters is None else f"{paper.parameters / 65:.2f}",
        f"{paper.perplexity:.2f}",
        f"{paper.bleu:.1f}",
        "" if paper is base else f"{paper.bleu - base.bleu:+.1f}",
    )


def _changes_text(scale: Scale, row: TrainingRow) -> str:
    """Return what the row has unlike this scale's base, beside its rate, without the section names of the keys."""
    original = originals(scale)[row.name] if scale.name in BUDGETS else row
    base = variation_row("base", scale).changes
    changes = [change for change in original.changes if change in row.changes and change not in base]
    return ", ".join(change.partition(".")[2] for change in changes)


def _base_text(row: TrainingRow) -> str:
    config = row.configuration()
    model = config.model
    return (
        f"N={model.encoder_layers}, d_model={model.d_model}, d_ff={model.d_ff}, h={model.heads}, "
        f"dropout={model.dropout:g}, {config.training.max_steps:,} steps of {config.batch.tokens:,} tokens"
    )


EXPERIMENT = Experiment(
    "table3", "Table 3: variations of the Transformer, and ablations", rows, find, seeds=(), tune=with_choices
)
