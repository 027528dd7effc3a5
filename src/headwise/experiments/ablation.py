"""Ablation: the Transformer without positions, without residual connections, and without the division by √d_k."""

from __future__ import annotations

from headwise.experiments import table3
from headwise.experiments.harness.outcome import Claim, Finding, Table, decide
from headwise.experiments.harness.registry import Experiment, Results
from headwise.experiments.harness.rows import TrainingRow, replaced
from headwise.experiments.scales.scale import Scale

_BASE = table3.row_name("base")
_BLEU, _PERPLEXITY, _TEST = "dev.bleu", "dev.perplexity", "test.bleu.score"

# Row -> (label, the override, the claim about it).
_WITHOUT = {
    "ablation-positions": (
        "without positions",
        "model.positions=none",
        "The model needs to be told positions (section 3.5)",
    ),
    "ablation-residuals": (
        "without residual connections",
        "model.residual=false",
        "The model needs residual connections (section 3.1)",
    ),
    "ablation-scaling": (
        "without the division by √d_k",
        "model.attention=unscaled",
        "The model needs the division by √d_k (section 3.2.1)",
    ),
}


def rows(scale: Scale) -> list[TrainingRow]:
    """Return the base of Table 3, and a row for each part that is left out of it."""
    base = table3.row("base", scale)
    return [
        base,
        *(
            TrainingRow(name, label, scale.name, base.config, replaced(base.changes, (change,)))
            for name, (label, change, _) in _WITHOUT.items()
        ),
    ]


def find(results: Results) -> Finding:
    """Compare each row with the whole model."""
    labels = {_BASE: "the whole model", **{name: label for name, (label, *_) in _WITHOUT.items()}}
    table = Table(
        f"Ablation ({results.scale.about})",
        ("model", "dev PPL", "dev BLEU", "test BLEU", "Δ dev BLEU"),
        tuple(
            (
                label,
                *(results.cell(name, path) for path in (_PERPLEXITY, _BLEU, _TEST)),
                "" if name == _BASE else _difference(results, name),
            )
            for name, label in labels.items()
        ),
        f"The whole model is Table 3's base at this scale ({results.scale.budget}); the others have its recipe. "
        "Δ: less the whole model's, a mean over the seeds that both have.",
    )
    return Finding([table], [], [_claim(results, name) for name in _WITHOUT])


def _difference(results: Results, name: str) -> str:
    difference = results.difference(name, _BASE, _BLEU)
    return "–" if difference is None else difference.text(2, sign=True)


def _claim(results: Results, name: str) -> Claim:
    label, _, text = _WITHOUT[name]
    missing = results.missing(_BASE, name)
    if missing:
        return Claim(text, "not run yet", f"Missing at scale {results.scale.name}: {', '.join(missing)}.")
    whole, without = results.mean(_BASE, _BLEU), results.mean(name, _BLEU)
    holds = whole is not None and (without is None or without.value < whole.value)
    cells = f"Dev BLEU {results.cell(name, _BLEU)} {label}, {results.cell(_BASE, _BLEU)} of the whole model"
    return Claim(text, decide(holds), f"{cells} ({results.scale.name}).")


EXPERIMENT = Experiment("ablation", "Ablation of positions, residual connections and scaling", rows, find)
