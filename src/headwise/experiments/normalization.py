"""Normalization before or after a sub-layer (section 3.1 has it after), with a warm-up and without, and in deep stacks.

The rate rises to a peak, or starts there, and falls linearly to zero (section 5.3 warms up as well, and falls with the
inverse square root of the step). All rows train for the same steps: a row that learns nothing isn't given more.
"""

from __future__ import annotations

from headwise.experiments.charts import curve_charts
from headwise.experiments.harness.outcome import BLEU, Finding, Table, compare
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import TrainingRow, configured, replaced
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.scales import Scale

_DEEP = 12  # layers in each stack
# Row -> (label, its overrides).
_ROWS = {
    f"norm-{norm}-{name}": (f"{norm}-norm, {label}", (f"model.norm={norm}", *overrides))
    for name, label, overrides in (
        ("warm-up", "warm-up", ()),
        ("none", "no warm-up", ("schedule.warmup=0",)),
        (
            "deep",
            f"warm-up, {_DEEP} layers",
            (f"model.encoder_layers={_DEEP}", f"model.decoder_layers={_DEEP}"),
        ),
    )
    for norm in ("post", "pre")
}
# The claim, the row that it is about, and the one that this is better than.
_CLAIMS = (
    ("Post-norm needs warm-up", "norm-post-warm-up", "norm-post-none"),
    ("Pre-norm gains from warm-up, too", "norm-pre-warm-up", "norm-pre-none"),
    ("Without warm-up, pre-norm is the one that trains", "norm-pre-none", "norm-post-none"),
    ("With warm-up, post-norm is the better one", "norm-post-warm-up", "norm-pre-warm-up"),
    ("Deep stacks train with pre-norm where post-norm fails", "norm-pre-deep", "norm-post-deep"),
)


def rows(scale: Scale) -> list[TrainingRow]:
    """Return the rows: the scale's base with a linear rate of base's peak, either norm, and what differs."""
    base = configured(scale.base.file, scale.base.changes)
    peak = base.schedule.peak or base.model.d_model**-0.5 * base.schedule.warmup**-0.5
    alike = ("schedule.name=linear", f"schedule.peak={peak:.6f}", "training.average_last=1")
    return [
        TrainingRow(
            name,
            label,
            scale.name,
            scale.base.file,
            replaced(scale.base.changes, (*alike, *overrides)),
            text=scale.checksum,
        )
        for name, (label, overrides) in _ROWS.items()
    ]


def find(results: Results) -> Finding:
    """Compare the two norms, with and without warm-up, and in deep stacks."""
    table = Table(
        f"Normalization and warm-up ({results.scale.about})",
        ("training", "seeds", "dev PPL", "dev BLEU"),
        tuple(
            (
                row.label,
                results.seeds(row.name),
                results.cell(row.name, "dev.perplexity"),
                results.cell(row.name, BLEU.path),
            )
            for row in results.rows
        ),
        "The same peak for all, from which the rate falls linearly to zero. Mean over seeds with its 95 % interval.",
    )
    labels = {row.name: row.label for row in results.rows}
    claims = [compare(results, text, row, other, BLEU, 1, labels[other]) for text, row, other in _CLAIMS]
    charts = curve_charts(results, results.rows, f"norm-{results.scale.name}", "Development loss against steps", "loss")
    return Finding([table], charts, claims)


EXPERIMENT = Experiment("norm", "Normalization and warm-up", rows, find, seeds=(1, 2, 3), scale="tiny")
