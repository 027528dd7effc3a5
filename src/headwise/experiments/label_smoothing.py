"""Label smoothing "hurts perplexity, as the model learns to be more unsure, but improves accuracy and BLEU" (5.4)."""

from __future__ import annotations

from matplotlib.figure import Figure

from headwise.experiments import table3
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, decide, plain
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import TrainingRow
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.paper import variation
from headwise.experiments.scales import Scale

_PRESETS = {"table3-d-ls0": 0.0, "base": 0.1, "table3-d-ls2": 0.2}
_BASE, _NONE = table3.row_name("base"), "table3-d-ls0"


def rows(scale: Scale) -> list[TrainingRow]:
    """Return the rows of Table 3 with ε = 0, 0.1 and 0.2."""
    return [table3.row(preset, scale) for preset in _PRESETS]


def find(results: Results) -> Finding:
    """Compare ε = 0.1 with ε = 0."""
    paths = ("dev.perplexity", "dev.bleu", "test.tokenized_bleu.score", "calibration.error")
    table = Table(
        f"Label smoothing ({results.scale.about})",
        ("ε", "paper PPL", "paper BLEU", "dev PPL", "dev BLEU", "test BLEU (tokenized)", "calibration error"),
        tuple(
            (
                f"{value}",
                f"{variation(preset).perplexity}",
                f"{variation(preset).bleu}",
                *(results.cell(table3.row_name(preset), path, 3 if "error" in path else 2) for path in paths),
            )
            for preset, value in _PRESETS.items()
        ),
        "Calibration error: expected |accuracy − confidence| of the likeliest next subword on the test references.",
    )
    charts = [] if results.missing(_BASE, _NONE) else [_chart(results)]
    claims = [
        _claim(results, "Label smoothing hurts perplexity", "dev.perplexity", 1, "perplexity"),
        _claim(results, "Label smoothing improves BLEU", "dev.bleu", 1, "BLEU"),
        _claim(
            results, "Label smoothing changes calibration for the better", "calibration.error", -1, "error"
        ),
    ]
    return Finding([table], charts, claims)


def _claim(results: Results, text: str, path: str, sign: int, unit: str) -> Claim:
    missing = results.missing(_BASE, _NONE)
    if missing:
        return Claim(text, "not run yet", f"Missing at scale {results.scale.name}: {', '.join(missing)}.")
    difference = results.difference(_BASE, _NONE, path)
    assert difference is not None
    digits = 3 if unit == "error" else 2
    because = f"ε = 0.1 changes {unit} by {difference.text(digits, sign=True)} against none."
    return Claim(text, decide(sign * difference.value > 0), because)


def _chart(results: Results) -> Chart:
    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        axis.plot([0, 1], [0, 1], color="0.8")
        for preset, value in _PRESETS.items():
            record = results.first(table3.row_name(preset))
            if record is None:
                continue
            bins = record.result["calibration"]
            frequent_bins = [
                b
                for b in zip(bins["counts"], bins["confidence"], bins["accuracy"], strict=True)
                if b[0] >= 20
            ]
            axis.plot(
                [b[1] for b in frequent_bins], [b[2] for b in frequent_bins], "o-", label=f"ε = {value}"
            )
        axis.set(xlabel="confidence in the likeliest subword", ylabel="share that was right", aspect="equal")
        axis.legend(frameon=False)

    name = f"calibration-{results.scale.name}"
    return Chart(
        name, "Calibration of next-subword predictions with and without label smoothing", draw, (4.6, 4.4)
    )


EXPERIMENT = Experiment("label-smoothing", "Label smoothing", rows, find, seeds=(1, 2))
