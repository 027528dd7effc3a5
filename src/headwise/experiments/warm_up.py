"""Two questions with the same rows: is a learning rate that rises first needed, and normalization before or after?"""

from __future__ import annotations

from matplotlib.figure import Figure

from headwise.config import Config
from headwise.experiments.harness.outcome import Chart, Claim, Finding, Table, decide, plain
from headwise.experiments.harness.registry import Experiment, Results
from headwise.experiments.harness.rows import TrainingRow, replaced
from headwise.experiments.scales.scale import Scale

_LABELS = {
    "warm-up-post": "post-norm, warm-up",
    "warm-up-none-post": "post-norm, none",
    "warm-up-pre": "pre-norm, warm-up",
    "warm-up-none-pre": "pre-norm, none",
}
BLEU = "dev.bleu"


def rows(scale: Scale) -> list[TrainingRow]:
    """Both kinds of normalization with and without; the rate peaks as the base's, then falls to 0."""
    file, changes = scale.base.file, scale.base.changes
    base = Config.load(file, changes)
    peak = base.schedule.peak or base.model.d_model**-0.5 * base.schedule.warmup**-0.5
    made = []
    for name, label in _LABELS.items():
        warmup = 0 if "none" in name else base.schedule.warmup
        row = (
            f"model.norm={name.rsplit('-', 1)[1]}",
            "schedule.name=linear",
            f"schedule.peak={peak:.6f}",
            f"schedule.warmup={warmup}",
            "training.average_last=1",
        )
        made.append(TrainingRow(name, label, scale.name, file, replaced(changes, row)))
    return made


def table(results: Results) -> Table:
    """Lay the four rows out."""
    return Table(
        f"Normalization and warm-up ({results.scale.about})",
        ("training", "dev PPL", "dev BLEU"),
        tuple(
            (label, results.cell(name, "dev.perplexity"), results.cell(name, BLEU))
            for name, label in _LABELS.items()
        ),
        "The rate rises to the peak that the base has, or starts there, and falls linearly to zero.",
    )


def find(results: Results) -> Finding:
    """Post-norm needs it; pre-norm hardly."""
    return Finding(
        [table(results)],
        charts(results),
        [
            compare(
                results, "Post-norm, as in the paper, needs warm-up", "warm-up-post", "warm-up-none-post"
            ),
            compare(results, "Pre-norm gains from warm-up, too", "warm-up-pre", "warm-up-none-pre"),
        ],
    )


def compare(results: Results, text: str, better: str, worse: str) -> Claim:
    """Claim that one row has a higher development BLEU than another; one that diverged has none."""
    missing = results.missing(better, worse)
    if missing:
        return Claim(text, "not run yet", f"Missing at scale {results.scale.name}: {', '.join(missing)}.")
    first, second = results.mean(better, BLEU), results.mean(worse, BLEU)
    held = first is not None and (second is None or first.value > second.value)
    because = (
        f"Dev BLEU {results.cell(better, BLEU)} against {results.cell(worse, BLEU)} ({results.scale.name})."
    )
    return Claim(text, decide(held), because)


def charts(results: Results) -> list[Chart]:
    """Draw development loss against steps, where there is something to draw."""
    found = {row.label: record for row in results.rows if (record := results.first(row.name)) is not None}

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for label, record in found.items():
            points = record.result.get("curve", [])
            axis.plot([p["step"] for p in points], [p["loss"] for p in points], label=label)
        axis.set(xlabel="step", ylabel="development loss (nats a subword)")
        axis.legend(frameon=False, fontsize=8)

    return [Chart(f"warm-up-{results.scale.name}", "Development loss against steps", draw)] if found else []


def find_order(results: Results) -> Finding:
    """Pre-norm trains where post-norm doesn't; with warm-up and few layers post-norm is no worse."""
    return Finding(
        [table(results)],
        charts(results),
        [
            compare(
                results,
                "Without warm-up, pre-norm is the one that trains",
                "warm-up-none-pre",
                "warm-up-none-post",
            ),
            compare(
                results,
                "With warm-up, post-norm ends at least as well as pre-norm",
                "warm-up-post",
                "warm-up-pre",
            ),
        ],
    )


EXPERIMENT = Experiment("warm-up", "Warm-up", rows, find)
ORDER = Experiment("norm", "Pre-norm and post-norm", rows, find_order)
