"""Label smoothing "hurts perplexity, as the model learns to be more unsure, but improves accuracy and BLEU" (5.4)."""

from __future__ import annotations

from matplotlib.figure import Figure

from headwise.experiments import table3
from headwise.experiments.harness.outcome import BLEU, Chart, Finding, Measure, Table, compare, plain
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import TrainingRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.paper import row_name, variation
from headwise.experiments.scales import Scale
from headwise.experiments.trials import budget_note, with_choices

_PRESETS = {"table3-d-ls0": 0.0, "base": 0.1, "table3-d-ls2": 0.2}
_BASE, _NONE = "table3-base", "table3-d-ls0"


def rows(scale: Scale) -> list[TrainingRow]:
    """Return the rows of Table 3 with ε = 0, 0.1 and 0.2, as far as the scale's budget has them."""
    names = {row_name(preset) for preset in _PRESETS}
    return [row for row in table3.rows(scale) if row.name in names]


def find(results: Results) -> Finding:
    """Compare ε = 0.1 with ε = 0."""
    paths = ("dev.perplexity", BLEU.path, "test.tokenized_bleu.score", "calibration.error")
    table = Table(
        f"Label smoothing ({results.scale.about})",
        ("ε", "paper PPL", "paper BLEU", "dev PPL", "dev BLEU", "test BLEU (tokenized)", "calibration error"),
        tuple(
            (
                f"{value}",
                f"{variation(preset).perplexity}",
                f"{variation(preset).bleu}",
                *(results.cell(row_name(preset), path, 3 if "error" in path else 2) for path in paths),
            )
            for preset, value in _PRESETS.items()
        ),
        f"{budget_note(results.scale)} Calibration error: expected |accuracy − confidence| of the likeliest next "
        "subword on the test references.",
    )
    charts = [] if results.missing(_BASE, _NONE) else [_chart(results)]
    claims = [
        compare(results, text, _BASE, _NONE, measure, sign, "no smoothing")
        for text, measure, sign in (
            ("Label smoothing hurts perplexity", Measure(paths[0], "perplexity", more_is_better=False), 1),
            ("Label smoothing improves BLEU", BLEU, 1),
            (
                "Label smoothing makes predictions better calibrated",
                Measure(paths[-1], "calibration error", 3, more_is_better=False),
                -1,
            ),
        )
    ]
    return Finding([table], charts, claims)


def _chart(results: Results) -> Chart:
    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        axis.plot([0, 1], [0, 1], color="0.8")
        for preset, value in _PRESETS.items():
            record = results.first(row_name(preset))
            if record is None:
                continue
            bins = record.result["calibration"]
            frequent_bins = [
                b for b in zip(bins["counts"], bins["confidence"], bins["accuracy"], strict=True) if b[0] >= 20
            ]
            axis.plot([b[1] for b in frequent_bins], [b[2] for b in frequent_bins], "o-", label=f"ε = {value}")
        axis.set(xlabel="confidence in the likeliest subword", ylabel="share that was right", aspect="equal")
        axis.legend(frameon=False)

    name = f"calibration-{results.scale.name}"
    return Chart(name, "Calibration of next-subword predictions with and without label smoothing", draw, (4.6, 4.4))


EXPERIMENT = Experiment("label-smoothing", "Label smoothing", rows, find, seeds=(), tune=with_choices)
