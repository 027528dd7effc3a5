"""Table 3: every variation of the Transformer, relative to a base that is scaled to the corpus."""

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
_EQUAL_IN_PAPER = 0.1  # BLEU: rows this close are called nearly identical there (section 6.2, row E)
_EQUAL_HERE = 0.3  # BLEU: what another seed changes without more seeds to tell


def row_name(preset: str) -> str:
    """Name the row of a preset."""
    return preset if preset.startswith("table3-") else f"table3-{preset}"


def row(preset: str, scale: Scale) -> TrainingRow:
    """Make one row: the base of the scale, changed as the paper's row changes its own; no averaging (section 6.2)."""
    file, changes = scale.base.file, scale.base.changes
    base = Config.load(file, changes)
    scaled = scaled_changes(preset, base.model, base.training.max_steps)
    if preset in scale.rates:
        scaled.append(f"schedule.peak={scale.rates[preset]:g}")
    elif base.schedule.peak is not None:  # as in the paper's formula, the rate goes with d_model^-0.5
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
    """All twenty, base first."""
    return [row(line.preset, scale) for line in TABLE_3]


def find(results: Results) -> Finding:
    """Print both tables as one, and judge what the paper reads off its own."""
    table = Table(
        f"Table 3 on development data, relative to base ({results.scale.about})",
        (
            "row", "here", "paper PPL", "PPL", "paper BLEU", "BLEU", "paper Δ", "Δ", "direction",
            "paper parameters", "parameters",
        ),
        tuple(_line(results, line) for line in TABLE_3),
        "Δ: BLEU less base's, a mean over the seeds that both have, with its 95 % interval where there are several. "
        "Parameters relative to base. Direction: whether Δ has the paper's sign; nearly identical rows (paper's Δ "
        f"within {_EQUAL_IN_PAPER}) agree within {_EQUAL_HERE} BLEU, others are too close to tell there. BLEU is the "
        f"finished model's, by beam search. Base trains for {results.scale.budget}.{_rates(results.scale)}",
    )  # fmt: skip
    charts = (
        [_chart(results)] if any(results.values(row_name(line.preset), BLEU) for line in TABLE_3[1:]) else []
    )
    return Finding([table], charts, _claims(results))


def _rates(scale: Scale) -> str:
    """Say which rows have a rate of their own."""
    return "".join(
        f" {variation(preset).label.capitalize()} has a peak rate of its own, {rate:g}, chosen on development data: "
        "with base's by d_model^-0.5 it does not learn to translate."
        for preset, rate in scale.rates.items()
    )


def _line(results: Results, line: Variation) -> tuple[str, ...]:
    name, base = row_name(line.preset), TABLE_3[0]
    made = next(r for r in results.rows if r.name == name)
    assert isinstance(made, TrainingRow)
    difference = results.difference(name, row_name("base"), BLEU)
    paper = line.bleu - base.bleu
    ours, theirs = results.mean(name, "parameters"), results.mean(row_name("base"), "parameters")
    return (
        f"({line.group}) {line.label}" if line.group else line.label,
        _here(results.scale, made) if line is not base else _shape(made),
        f"{line.perplexity:.2f}",
        results.cell(name, PERPLEXITY),
        f"{line.bleu:.1f}",
        results.cell(name, BLEU, 1),
        "" if line is base else f"{paper:+.1f}",
        "" if line is base or difference is None else difference.text(1, sign=True),
        "" if line is base or difference is None else _direction(paper, difference.value),
        "" if line.parameters is None else f"{line.parameters / 65:.2f}",
        "–" if ours is None or theirs is None else f"{ours.value / theirs.value:.2f}",
    )


def _here(scale: Scale, made: TrainingRow) -> str:
    """What the row changes in this scale's base, without the names of sections."""
    changes = [c for c in made.changes if c not in scale.base.changes and "average_last" not in c]
    return ", ".join(change.partition(".")[2] for change in changes)


def _shape(made: TrainingRow) -> str:
    config = made.configuration()
    model = config.model
    return (
        f"N={model.encoder_layers}, d_model={model.d_model}, d_ff={model.d_ff}, h={model.heads}, "
        f"dropout={model.dropout:g}, {config.training.max_steps:,} steps"
    )


def _direction(paper: float, ours: float) -> str:
    here = _sign(ours)
    if here == _sign(paper, _EQUAL_IN_PAPER):
        return "agrees"
    return "differs" if here else "too close"


def _sign(difference: float, equal: float = _EQUAL_HERE) -> int:
    """Return 0 for a difference within `equal`, both as they are printed."""
    return 0 if abs(round(difference, 1)) <= equal else 1 if difference > 0 else -1


def _claims(results: Results) -> list[Claim]:
    """What section 6.2 concludes from the table."""
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
    held, said = True, []
    for preset, sign in expected:
        difference = results.difference(row_name(preset), row_name("base"), BLEU)
        if difference is None:
            held, words = held and sign < 0, "diverged"
        else:
            held &= _sign(difference.value) == sign
            words = f"{difference.text(1, sign=True)} BLEU"
        paper = variation(preset).bleu - TABLE_3[0].bleu
        said.append(f"{variation(preset).label} {words} (paper {paper:+.1f})")
    seeds = min(len(results.records[name]) for name in (row_name("base"), *names))
    many = f"{seeds} seed{'s' if seeds > 1 else ''}"
    because = f"Against base ({results.scale.name}, {many}): {'; '.join(said)}."
    return Claim(text, decide(held), because if held else because + _likelier(results, expected))


def _likelier(results: Results, expected: list[tuple[str, int]]) -> str:
    """Name rows that should have been better and are so in perplexity, which moves less by chance than BLEU."""
    base = results.mean(row_name("base"), PERPLEXITY)
    if base is None:
        return ""
    found = {preset: results.mean(row_name(preset), PERPLEXITY) for preset, sign in expected if sign > 0}
    lower = "; ".join(
        f"{variation(preset).label} {mean.value:.2f}"
        for preset, mean in found.items()
        if mean is not None and mean.value < base.value
    )
    return lower and f" Perplexity is lower, though: {lower} (base {base.value:.2f})."


def _dropout_claim(results: Results) -> Claim:
    """Dropout can't help against overfitting where there is none: the loss without it still falls at the end."""
    without = "table3-d-drop0"
    claim = _claim(results, "(D) Dropout is very helpful in avoiding overfitting", [(without, -1)])
    curves = [record.result.get("curve", []) for record in results.records[without]]
    falls = all(curve and curve[-1]["loss"] == min(point["loss"] for point in curve) for curve in curves)
    if claim.status != "not confirmed here" or not falls:
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
        for place, line in enumerate(shown):
            found = results.difference(row_name(line.preset), row_name("base"), BLEU)
            assert found is not None
            axis.errorbar(found.value, place, xerr=found.half or 0.0, fmt="o", color="C0", capsize=2)
            axis.plot(line.bleu - TABLE_3[0].bleu, place, "x", color="C3")
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
