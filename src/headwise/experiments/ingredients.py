"""What nine years brought: from the paper's recipe to Headwise's, one ingredient after the other, at equal steps.

Every row has the settings of the row before it and one more ingredient; the first is the paper's recipe (sections 5.3
and 5.4), the last trains as `headwise train --source … --target … --max-minutes …` does, but for its typing errors.
Shape, subwords and batches are the same in all, as are label smoothing, beam and length penalty, which are still the
paper's. A further row is the paper's recipe with four times the steps: its warm-up of 4,000 steps alone is as long as
the whole training of the others, or longer. At Multi30k, the first and the last recipe also train the paper's base
shape, for an equal time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headwise.experiments.charts import curve_charts
from headwise.experiments.harness.outcome import BLEU, Finding, Table, compare
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import TrainingRow, replaced
from headwise.experiments.harness.runner import Experiment
from headwise.experiments.scales import RowRecipe, Scale

_PAPER, _WHOLE, _OURS = "ingredients-paper", "ingredients-whole", "ingredients-muon"
_PAPER_BASE, _OURS_BASE = "ingredients-base-paper", "ingredients-base-muon"
_LONGER = 4  # times the steps of the others, for the paper's recipe alone

# Scale -> steps of every row but the longer one.
_STEPS = {"tiny": 2000, "multi30k": 4000}

# Row -> (label, the ingredient's overrides), each beside those of all rows before it.
_INGREDIENTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    _PAPER: (
        "the paper's recipe",
        (
            "model.norm=post",
            "model.dropout=0.1",
            "optimizer.beta2=0.98",
            "schedule={name: noam, warmup: 4000}",
            "training.label_smoothing=0.1",
            "training.r_drop=0.0",
            "training.best_by=loss",
            "training.average_last=5",
            "decoding.beam=4",
            "decoding.alpha=0.6",
        ),
    ),
    "ingredients-schedule": (
        "+ a rate that ends at zero with the training (2018)",
        ("schedule={name: linear, peak: 0.004, warmup: 400}",),
    ),
    "ingredients-pre-norm": ("+ normalization before the sub-layers (2019)", ("model.norm=pre",)),
    "ingredients-dropout": ("+ more dropout, for little text", ("model.dropout=0.25",)),
    _OURS: (
        "+ Muon, and a constant rate that falls in the last fifth (2024): Headwise's recipe",
        (
            "optimizer={name: muon}",
            "schedule={name: inverse_sqrt, peak: 0.004, warmup: 400, cooldown: 0.2}",
            "training.average_last=1",
            "training.best_by=bleu",
        ),
    ),
}


# The paper's base (section 6.1, table 3) in batches of a 25th of its 25,000 tokens, for hours of one thread.
_BASE_MINUTES = 150
_BASE_SHAPE = (
    "model.encoder_layers=6",
    "model.decoder_layers=6",
    "model.d_model=512",
    "model.d_ff=2048",
    "model.heads=8",
    "batch.tokens=1024",
    f"training.max_minutes={_BASE_MINUTES}",
    "training.max_steps=1000000",
    "training.validate_every=500",
    "training.checkpoint_every=250",
)
# Ours for 512 dimensions.
_BASE_RATE = "schedule={name: inverse_sqrt, peak: 0.001, warmup: 400, cooldown: 0.2}"


def _shape(scale: Scale) -> RowRecipe:
    """Return the text and the shape: at multi30k that of its published results, the preset `tiny`."""
    return RowRecipe("configs/multi30k-en-de.yaml") if scale.name == "multi30k" else scale.base


def ladder(scale: Scale) -> list[TrainingRow]:
    """Return the recipes in their order, and the paper's with more steps; none where they would take days."""
    if scale.name not in _STEPS:
        return []
    shape, steps = _shape(scale), _STEPS[scale.name]
    every = (f"training.validate_every={steps // 10}", f"training.checkpoint_every={steps // 40}")
    changes = replaced(shape.changes, (f"training.max_steps={steps}", *every))
    made = []
    for name, (label, ingredient) in _INGREDIENTS.items():
        changes = replaced(changes, ingredient)
        made.append(TrainingRow(name, label, scale.name, shape.file, changes))
        if name == _PAPER:
            longer = replaced(changes, (f"training.max_steps={_LONGER * steps}",))
            label = f"the paper's recipe, {_LONGER} times the steps"
            made.append(TrainingRow(_WHOLE, label, scale.name, shape.file, longer))
    return made


def base_rows(scale: Scale) -> list[TrainingRow]:
    """Return the first and the last recipe with the paper's base shape and equal time; none but at Multi30k."""
    if scale.name != "multi30k":
        return []
    recipes = {row.name: row for row in ladder(scale)}
    return [
        replace(
            recipes[recipe],
            name=name,
            label=f"{label}, base shape, {_BASE_MINUTES} minutes",
            changes=replaced(recipes[recipe].changes, (*_BASE_SHAPE, *more)),
        )
        for name, recipe, label, more in (
            (_PAPER_BASE, _PAPER, "the paper's recipe", ()),
            (_OURS_BASE, _OURS, "Headwise's recipe", (_BASE_RATE,)),
        )
    ]


def rows(scale: Scale) -> list[TrainingRow]:
    """Return every row of a scale."""
    return [*ladder(scale), *base_rows(scale)]


def find(results: Results) -> Finding:
    """Report what each ingredient adds to those before it, and what all of them together do."""
    names = list(_INGREDIENTS)
    before = dict(zip(names[1:], names, strict=False))
    table = Table(
        f"From the paper's recipe to ours ({results.scale.about})",
        ("recipe", "seeds", "steps", "dev PPL", "dev BLEU", "test BLEU", "Δ to the row before"),
        tuple(
            (
                row.label,
                results.seeds(row.name),
                results.cell(row.name, "steps", 0),
                results.cell(row.name, "dev.perplexity"),
                results.cell(row.name, BLEU.path),
                results.cell(row.name, "test.bleu.score"),
                results.difference_cell(row.name, before[row.name], BLEU.path) if row.name in before else "",
            )
            for row in results.rows
        ),
        "The same shape, subwords and batches; every row has the settings of the one before it and one more. Base "
        "shape: 6 layers of 512 dimensions, 1,024 tokens a batch; fewer than 4,000 steps end within the paper's "
        "warm-up. Δ: dev BLEU, a mean over paired seeds with its 95 % interval.",
    )
    equal = "At equal steps, today's recipe is better than the paper's"
    whole = f"Today's recipe is better than the paper's with {_LONGER} times the steps"
    claims = [
        compare(results, equal, _OURS, _PAPER, BLEU, 1, "the paper's recipe"),
        compare(results, whole, _OURS, _WHOLE, BLEU, 1, "the paper's recipe, trained longer"),
    ]
    name = f"ingredients-{results.scale.name}"
    text = "Development BLEU against steps, from the paper's recipe to ours, one ingredient after the other"
    charts = curve_charts(results, ladder(results.scale), name, text, "bleu")
    if base := base_rows(results.scale):
        text = "Development BLEU against minutes, of the paper's recipe and ours with the paper's base shape"
        charts += curve_charts(results, base, f"{name}-base", text, "bleu", along="minutes")
        text = "With the paper's base shape, today's recipe is better than the paper's at equal time"
        claims.append(compare(results, text, _OURS_BASE, _PAPER_BASE, BLEU, 1, "the paper's recipe"))
    return Finding([table], charts, claims if results.rows else [])


EXPERIMENT = Experiment("ingredients", "What nine years brought", rows, find, seeds=(1, 2, 3))
