"""Table 3: variations of the Transformer, relative to a base of a size suited to the corpus."""

from __future__ import annotations

from matplotlib.figure import Figure

from headwise.config import Config
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, decide, plain
from headwise.experiments.harness.paper import TABLE_3, Variation, variation
from headwise.experiments.harness.registry import Experiment, Results
from headwise.experiments.harness.rows import TrainingRow, replaced
from headwise.experiments.scales.scale import Scale
from headwise.experiments.scales.scaling import scaled_changes

BLEU, PERPLEXITY = "dev.bleu", "dev.perplexity"
_EQUAL_IN_PAPER = 0.1  # BLEU: the paper calls rows this close nearly identical (section 6.2, row E)
_EQUAL_HERE = 0.3  # BLEU: smaller differences may be due to the seed


def row_name(preset: str) -> str:
    """Return the name of a preset's row."""
    return preset if preset.startswith("table3-") else f"table3-{preset}"


def row(preset: str, scale: Scale) -> TrainingRow:
    """Return a preset's row: the scale's base with the paper's variation; no checkpoint averaging (section 6.2)."""
    file, changes = scale.base.file, scale.base.changes
    base = Config.load(file, changes)
    scaled = scaled_changes(preset, base.model, base.training.max_steps)
    if preset in scale.rates:
        scaled.append(f"schedule.peak={scale.rates[preset]:g}")
    elif base.schedule.peak is not None:  # as in the paper's formula, the rate scales with d_model^-0.5
        width = Config.load(file, (*changes, *scaled)).model.d_model
        if width != base.model.d_model:
            scaled.append(f"schedule.peak={base.schedule.peak * (base.model.d_model / width) ** 0.5:.6f}")
    return TrainingRow(
        row_name(preset),
        variation(preset).label,
        scale.name,
        file,
        replaced(changes, (*scaled, "training.average_last=1")),
    )


def rows(scale: Scale) -> list[TrainingRow]:
    """Return all twenty rows, base first."""
    return [row(line.preset, scale) for line in TABLE_3]


def find(results: Results) -> Finding:
    """Compare the paper's table with the results, and check the paper's conclusions."""
    table = Table(
        f"Table 3 on development data, relative to base ({results.scale.about})",
        (
            "row", "here", "paper PPL", "PPL", "paper BLEU", "BLEU", "paper Δ", "Δ", "direction",
            "paper parameters", "parameters",
        ),
        tuple(_table_row(results, line) for line in TABLE_3),
        "Δ: BLEU less base's, a mean over the seeds that both have, with its 95 % interval where there are several. "
        "Parameters relative to base. Direction: whether Δ has the paper's sign; nearly identical rows (paper's Δ "
        f"within {_EQUAL_IN_PAPER}) agree within {_EQUAL_HERE} BLEU, others are too close to tell there. BLEU is the "
        f"finished model's, by beam search. Base trains for {results.scale.budget}.{_rates_note(results.scale)}",
    )  # fmt: skip
    charts = (
        [_chart(results)] if any(results.values(row_name(line.preset), BLEU) for line in TABLE_3[1:]) else []
    )
    return Finding([table], charts, _claims(results))


def _rates_note(scale: Scale) -> str:
    """Return the note on rows with their own peak learning rate."""
    return "".join(
        f" {variation(preset).label.capitalize()} has a peak rate of its own, {rate:g}, chosen on development data: "
        "with base's by d_model^-0.5 it does not learn to translate."
        for preset, rate in scale.rates.items()
    )


def _table_row(results: Results, line: Variation) -> tuple[str, ...]:
    name, base = row_name(line.preset), TABLE_3[0]
    training_row = next(r for r in results.rows if r.name == name)
    assert isinstance(training_row, TrainingRow)
    difference = results.difference(name, row_name("base"), BLEU)
    paper = line.bleu - base.bleu
    parameters, base_parameters = (
        results.mean(name, "parameters"),
        results.mean(row_name("base"), "parameters"),
    )
    return (
        f"({line.group}) {line.label}" if line.group else line.label,
        _changes_text(results.scale, training_row) if line is not base else _base_text(training_row),
        f"{line.perplexity:.2f}",
        results.cell(name, PERPLEXITY),
        f"{line.bleu:.1f}",
        results.cell(name, BLEU, 1),
        "" if line is base else f"{paper:+.1f}",
        "" if line is base or difference is None else difference.text(1, sign=True),
        "" if line is base or difference is None else _direction(paper, difference.value),
        "" if line.parameters is None else f"{line.parameters / 65:.2f}",
        "–"
        if parameters is None or base_parameters is None
        else f"{parameters.value / base_parameters.value:.2f}",
    )


def _changes_text(scale: Scale, training_row: TrainingRow) -> str:
    """Return the row's changes to this scale's base, without the section names of the keys."""
    changes = [c for c in training_row.changes if c not in scale.base.changes and "average_last" not in c]
    return ", ".join(change.partition(".")[2] for change in changes)


def _base_text(training_row: TrainingRow) -> str:
    config = training_row.configuration()
    model = config.model
    return (
        f"N={model.encoder_layers}, d_model={model.d_model}, d_ff={model.d_ff}, h={model.heads}, "
        f"dropout={model.dropout:g}, {config.training.max_steps:,} steps"
    )


def _direction(paper: float, ours: float) -> str:
    sign = _sign(ours)
    if sign == _sign(paper, _EQUAL_IN_PAPER):
        return "agrees"
    return "differs" if sign else "too close"


def _sign(difference: float, equal: float = _EQUAL_HERE) -> int:
    """Return the sign of a difference, 0 if it is within `equal` after rounding as in the table."""
    return 0 if abs(round(difference, 1)) <= equal else 1 if difference > 0 else -1


def _claims(results: Results) -> list[Claim]:
    """Return the conclusions of section 6.2 as claims."""
    worse, better = -1, 1
    return [
        _claim(results, "(A) A single head is worse than several", [("table3-a-h1", worse)]),
        _claim(results, "(A) Too many heads are worse, too", [("table3-a-h32", worse)]),
        _claim(results, "(B) Smaller keys hurt", [("table3-b-dk16", worse), ("table3-b-dk32", worse)]),
        _claim(
            results,
            "(C) Bigger models are better",
            [
                ("table3-c-n2", worse),
                ("table3-c-d256", worse),
                ("table3-c-ff1024", worse),
                ("table3-c-d1024", better),
                ("table3-c-ff4096", better),
            ],
        ),
        _dropout_claim(results),
        _claim(results, "(E) Learned positions are nearly identical to sinusoids", [("table3-e-learned", 0)]),
        _claim(results, "The big model is the best", [("big", better)]),
    ]


def _claim(results: Results, text: str, expected: list[tuple[str, int]]) -> Claim:
    names = [row_name(preset) for preset, _ in expected]
    missing = results.missing(row_name("base"), *names)
    if missing:
        return Claim(text, "not run yet", f"Missing at scale {results.scale.name}: {', '.join(missing)}.")
    holds, comparisons = True, []
    for preset, sign in expected:
        difference = results.difference(row_name(preset), row_name("base"), BLEU)
        if difference is None:
            holds, comparison = holds and sign < 0, "diverged"
        else:
            holds &= _sign(difference.value) == sign
            comparison = f"{difference.text(1, sign=True)} BLEU"
        paper = variation(preset).bleu - TABLE_3[0].bleu
        comparisons.append(f"{variation(preset).label} {comparison} (paper {paper:+.1f})")
    seeds = min(len(results.records[name]) for name in (row_name("base"), *names))
    seed_count = f"{seeds} seed{'s' if seeds > 1 else ''}"
    because = f"Against base ({results.scale.name}, {seed_count}): {'; '.join(comparisons)}."
    return Claim(text, decide(holds), because if holds else because + _lower_perplexity(results, expected))


def _lower_perplexity(results: Results, expected: list[tuple[str, int]]) -> str:
    """Return a sentence on rows expected to be better that are so in perplexity, which is less noisy than BLEU."""
    base_perplexity = results.mean(row_name("base"), PERPLEXITY)
    if base_perplexity is None:
        return ""
    perplexities = {
        preset: results.mean(row_name(preset), PERPLEXITY) for preset, sign in expected if sign > 0
    }
    rows_text = "; ".join(
        f"{variation(preset).label} {mean.value:.2f}"
        for preset, mean in perplexities.items()
        if mean is not None and mean.value < base_perplexity.value
    )
    return rows_text and f" Perplexity is lower, though: {rows_text} (base {base_perplexity.value:.2f})."


def _dropout_claim(results: Results) -> Claim:
    """Return the claim on dropout, not testable if the loss without it still falls at the end: no overfitting."""
    without = "table3-d-drop0"
    claim = _claim(results, "(D) Dropout is very helpful in avoiding overfitting", [(without, -1)])
    curves = [record.result.get("curve", []) for record in results.records[without]]
    still_falling = all(
        curve and curve[-1]["loss"] == min(point["loss"] for point in curve) for curve in curves
    )
    if claim.status != "not confirmed here" or not still_falling:
        return claim
    because = (
        f"{claim.because} Without it the development loss still fell at the end: nothing was overfitted."
    )
    return Claim(claim.text, "not testable at this scale", because)


def _chart(results: Results) -> Chart:
    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        shown = [
            line for line in TABLE_3[1:] if results.difference(row_name(line.preset), row_name("base"), BLEU)
        ]
        for y, line in enumerate(shown):
            difference = results.difference(row_name(line.preset), row_name("base"), BLEU)
            assert difference is not None
            axis.errorbar(difference.value, y, xerr=difference.half or 0.0, fmt="o", color="C0", capsize=2)
            axis.plot(line.bleu - TABLE_3[0].bleu, y, "x", color="C3")
        axis.axvline(0, color="0.7", linewidth=1)
        labels = [f"({line.group}) {line.label}" if line.group else line.label for line in shown]
        axis.set_yticks(range(len(shown)), labels, fontsize=8)
        axis.invert_yaxis()
        axis.set(xlabel="BLEU less base's: here (dots, 95 % interval) and in the paper (crosses)")

    return Chart(
        f"table3-{results.scale.name}",
        "BLEU of each variation relative to base, here and in the paper",
        draw,
        (8, 5.4),
    )


EXPERIMENT = Experiment("table3", "Table 3: variations of the Transformer", rows, find, seeds=(1, 2))
