"""Table 3: variations of the Transformer, relative to a base of a size suited to the corpus, and ablations of it."""

from __future__ import annotations

from headwise.config import ModelConfig, presets
from headwise.errors import ConfigError
from headwise.experiments.charts import difference_chart
from headwise.experiments.harness.outcome import BLEU, EQUAL, Finding, Status, Table, judge
from headwise.experiments.harness.records import Mean, Results
from headwise.experiments.harness.rows import TrainingRow, configured, replaced
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.paper import TABLE_3, Variation, row_name, variation
from headwise.experiments.scales import Scale

_BASE = "table3-base"
_PERPLEXITY, _TEST = "dev.perplexity", "test.bleu.score"
_EQUAL_IN_PAPER = 0.1  # BLEU: the paper calls rows this close nearly identical (section 6.2, row E)


def row(preset: str, scale: Scale) -> TrainingRow:
    """Return a preset's row: the scale's base with the paper's variation; no checkpoint averaging (section 6.2)."""
    file, changes = scale.base.file, scale.base.changes
    base = configured(file, changes)
    scaled = scaled_changes(preset, base.model, base.training.max_steps)
    if preset in scale.rates:
        scaled.append(f"schedule.peak={scale.rates[preset]:g}")
    elif base.schedule.peak is not None:  # as in the paper's formula, the rate scales with d_model^-0.5
        width = configured(file, (*changes, *scaled)).model.d_model
        if width != base.model.d_model:
            scaled.append(f"schedule.peak={base.schedule.peak * (base.model.d_model / width) ** 0.5:.6f}")
    return TrainingRow(
        row_name(preset),
        variation(preset).label,
        scale.name,
        file,
        replaced(changes, (*scaled, "training.average_last=1")),
    )


def scaled_changes(name: str, base: ModelConfig, steps: int) -> list[str]:
    """Return the overrides of row `name` of Table 3 for a base of another size, with the paper's ratios to its base.

    Label smoothing keeps the paper's value, P_drop the ratio. Raises `ConfigError` if a size isn't a whole number.
    """
    paper, row = presets.preset("base"), presets.preset(name)
    changes = []
    for key in ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads"):
        if getattr(row, key) != getattr(paper, key):
            value = _scaled_size(name, key, getattr(base, key), getattr(row, key), getattr(paper, key))
            changes.append(f"model.{key}={value}")
    for key, size in (("d_k", "key_size"), ("d_v", "value_size")):
        if getattr(row, key) is not None:
            value = _scaled_size(name, key, getattr(base, size), getattr(row, size), getattr(paper, size))
            changes.append(f"model.{key}={value}")
    if row.dropout != paper.dropout:
        changes.append(f"model.dropout={base.dropout * row.dropout / paper.dropout:.3g}")
    if row.positions != paper.positions:
        changes.append(f"model.positions={row.positions}")
    training = presets.TRAINING_DIFFERENCES.get(name, {})
    if "label_smoothing" in training:
        changes.append(f"training.label_smoothing={training['label_smoothing']}")
    if "max_steps" in training:
        changes.append(f"training.max_steps={steps * training['max_steps'] // 100_000}")
    return changes


def _scaled_size(name: str, key: str, ours: int, row: int, paper: int) -> int:
    value, remainder = divmod(ours * row, paper)
    if remainder or not value:
        raise ConfigError(
            f"{name}: expected a base whose {key} can be scaled by {row}/{paper} to a whole number, found {ours}"
        )
    return value


def rows(scale: Scale) -> list[TrainingRow]:
    """Return all twenty rows, base first."""
    return [row(line.preset, scale) for line in TABLE_3]


def find(results: Results) -> Finding:
    """Compare the paper's table with the results; its conclusions are judged at convergence (`convergence`)."""
    table = Table(
        f"Table 3 on development data, relative to base ({results.scale.about})",
        (
            "row", "here", "paper PPL", "PPL", "paper BLEU", "BLEU", "paper Δ", "Δ", "direction",
            "paper parameters", "parameters",
        ),
        tuple(_table_row(results, line) for line in TABLE_3),
        "Δ: BLEU less base's, a mean over the seeds that both have, with its 95 % interval where there are several. "
        "Parameters relative to base. Direction: whether Δ's whole interval has the paper's sign or, for rows that are "
        f"nearly identical in the paper (Δ within {_EQUAL_IN_PAPER}), lies within {EQUAL} BLEU. BLEU is the "
        f"finished model's, by beam search. Base trains for {results.scale.budget}.{_rates_note(results.scale)}",
    )  # fmt: skip
    text = "BLEU of each variation stopped after equal steps, relative to base, here and in the paper"
    chart = difference_chart(results, "", f"table3-{results.scale.name}", text)
    return Finding([table], [chart] if chart is not None else [])


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
    difference = results.difference(name, _BASE, BLEU.path)
    paper = line.bleu - base.bleu
    parameters, base_parameters = (
        results.mean(name, "parameters"),
        results.mean(_BASE, "parameters"),
    )
    return (
        f"({line.group}) {line.label}" if line.group else line.label,
        _changes_text(results.scale, training_row) if line is not base else _base_text(training_row),
        f"{line.perplexity:.2f}",
        results.cell(name, _PERPLEXITY),
        f"{line.bleu:.1f}",
        results.cell(name, BLEU.path, 1),
        "" if line is base else f"{paper:+.1f}",
        "" if line is base or difference is None else difference.text(1, sign=True),
        "" if line is base or difference is None else _direction(paper, difference),
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


def _direction(paper: float, difference: Mean) -> Status:
    """Return whether a difference has the paper's sign, or is as small where the paper's rows are nearly identical."""
    expected = 0 if abs(round(paper, 1)) <= _EQUAL_IN_PAPER else 1 if paper > 0 else -1
    return judge("", difference, expected, BLEU.unit).status


EXPERIMENT = Experiment("table3", "Table 3: variations of the Transformer", rows, find, seeds=(1, 2))


# Row -> (label, the override).
_WITHOUT = {
    "ablation-positions": ("without positions", "model.positions=none"),
    "ablation-residuals": ("without residual connections", "model.residual=false"),
    "ablation-scaling": ("without the division by √d_k", "model.attention=unscaled"),
}


def ablation_rows(scale: Scale) -> list[TrainingRow]:
    """Return the base of Table 3, and a row for each part that is left out of it."""
    base = row("base", scale)
    return [
        base,
        *(
            TrainingRow(name, label, scale.name, base.config, replaced(base.changes, (change,)))
            for name, (label, change) in _WITHOUT.items()
        ),
    ]


def find_ablation(results: Results) -> Finding:
    """Compare each row with the whole model."""
    labels = {_BASE: "the whole model", **{name: label for name, (label, _) in _WITHOUT.items()}}
    table = Table(
        f"Ablation ({results.scale.about})",
        ("model", "dev PPL", "dev BLEU", "test BLEU", "Δ dev BLEU"),
        tuple(
            (
                label,
                *(results.cell(name, path) for path in (_PERPLEXITY, BLEU.path, _TEST)),
                "" if name == _BASE else results.difference_cell(name, _BASE, BLEU.path),
            )
            for name, label in labels.items()
        ),
        f"The whole model is Table 3's base at this scale ({results.scale.budget}); the others have its recipe. "
        "Δ: less the whole model's, a mean over the seeds that both have.",
    )
    return Finding([table])


ABLATION = Experiment(
    "ablation", "Ablation of positions, residual connections and scaling", ablation_rows, find_ablation
)
