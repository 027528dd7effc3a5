"""A learning rate that rises first, against the same rate from the first step on."""

from __future__ import annotations

from matplotlib.figure import Figure

from headwise.config import Config
from headwise.experiments.outcome import Chart, Claim, Finding, Table, decide, plain
from headwise.experiments.registry import Evidence, Experiment
from headwise.experiments.rows import TrainingRow, replaced
from headwise.experiments.scales import Scale

_LABELS = {
    "warm-up-post": "post-norm, warm-up",
    "warm-up-none-post": "post-norm, none",
    "warm-up-pre": "pre-norm, warm-up",
    "warm-up-none-pre": "pre-norm, none",
}
BLEU = "dev.bleu"


def rows(scale: Scale) -> list[TrainingRow]:
    """Both kinds of normalization with and without; the rate peaks as the base's, then falls to 0."""
    file, changes = scale.base
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


def table(evidence: Evidence) -> Table:
    """Lay the four rows out."""
    return Table(
        f"Normalization and warm-up ({evidence.scale.about})",
        ("training", "dev PPL", "dev BLEU"),
        tuple(
            (label, evidence.cell(name, "dev.perplexity"), evidence.cell(name, BLEU))
            for name, label in _LABELS.items()
        ),
        "The rate rises to the peak that the base has, or starts there, and falls linearly to zero.",
    )


def find(evidence: Evidence) -> Finding:
    """Post-norm needs it; pre-norm hardly."""
    return Finding(
        [table(evidence)],
        charts(evidence),
        [
            compare(
                evidence, "Post-norm, as in the paper, needs warm-up", "warm-up-post", "warm-up-none-post"
            ),
            compare(evidence, "Pre-norm gains from warm-up, too", "warm-up-pre", "warm-up-none-pre"),
        ],
    )


def compare(evidence: Evidence, text: str, better: str, worse: str) -> Claim:
    """Claim that one row has a higher development BLEU than another; one that diverged has none."""
    missing = evidence.missing(better, worse)
    if missing:
        return Claim(text, "not run yet", f"Missing at scale {evidence.scale.name}: {', '.join(missing)}.")
    first, second = evidence.mean(better, BLEU), evidence.mean(worse, BLEU)
    held = first is not None and (second is None or first.value > second.value)
    because = f"Dev BLEU {evidence.cell(better, BLEU)} against {evidence.cell(worse, BLEU)} ({evidence.scale.name})."
    return Claim(text, decide(held), because)


def charts(evidence: Evidence) -> list[Chart]:
    """Draw development loss against steps, where there is something to draw."""
    found = {row.label: record for row in evidence.rows if (record := evidence.first(row.name)) is not None}

    def draw(figure: Figure) -> None:
        axis = plain(figure.subplots())
        for label, record in found.items():
            points = record.result.get("curve", [])
            axis.plot([p["step"] for p in points], [p["loss"] for p in points], label=label)
        axis.set(xlabel="step", ylabel="development loss (nats a subword)")
        axis.legend(frameon=False, fontsize=8)

    return [Chart(f"warm-up-{evidence.scale.name}", "Development loss against steps", draw)] if found else []


EXPERIMENT = Experiment("warm-up", "Warm-up", rows, find)
