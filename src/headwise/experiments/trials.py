"""Trials: what every system of table 2 and every row of table 3 is tuned with before it is trained to the end.

A trial has a part of the budget, and ends before it when its development BLEU hasn't risen for a stated number of
validations. Every system of table 2 has the same number of trials, which differ in rate, schedule, dropout and
optimizer; a row of table 3 tries multiples of its own rate, and keeps the rest of base. The trial with the highest
development BLEU is taken, and trained until its rate is zero or its score rises no more. Trials have a seed of their
own and never see the test set, so no chosen score is reported as a result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headwise.experiments.harness.outcome import BLEU, Finding, Table
from headwise.experiments.harness.records import Results
from headwise.experiments.harness.rows import TrainingRow, replaced
from headwise.experiments.harness.runner import Experiment, collect
from headwise.experiments.paper import TABLE_3
from headwise.experiments.scales import ARCHITECTURES, Scale
from headwise.experiments.variations import ablation_rows, variation_row
from headwise.training.schedule import decays

_PATIENCE = 6  # validations without a better one, after which a training ends
# What is taken where its rate doesn't end at zero: it falls there in the last quarter, before which none ends.
_ENDING = ("schedule.cooldown=0.25", "training.patience=0")


@dataclass(frozen=True)
class Budget:
    """What every run may spend at one scale, and what is tried.

    Attributes:
        until: overrides of every run: its longest training and its patience.
        trial_steps: longest training of a trial.
        trials: trial -> overrides of the trials that all systems of table 2 have.
        own: overrides of a further trial, by system; `""` is for those that have none of their own.
        seeds: of the results.
        presets: the rows of table 3; without any, its ablation isn't run either.
        multiples: of the rate of a row of table 3, as trials.
        variations: overrides of every row of table 3.
    """

    until: tuple[str, ...]
    trial_steps: int
    trials: Mapping[str, tuple[str, ...]]
    own: Mapping[str, tuple[str, ...]]
    seeds: tuple[int, ...]
    presets: tuple[str, ...] = ()
    multiples: tuple[float, ...] = ()
    variations: tuple[str, ...] = ()

    def trials_of(self, system: str) -> dict[str, tuple[str, ...]]:
        """Return the trials of a system of table 2 with all their overrides."""
        return {**self.trials, "own": self.own.get(system, self.own[""])}


def _trial(schedule: str, peak: float, dropout: float, *more: str) -> tuple[str, ...]:
    return (f"schedule.name={schedule}", f"schedule.peak={peak:g}", f"model.dropout={dropout:g}", *more)


def _paper(dropout: float) -> tuple[str, ...]:
    """Return the paper's own schedule and optimizer (section 5.3): equation 3, and Adam with β₂ = 0.98."""
    return ("schedule.name=noam", "schedule.peak=null", f"model.dropout={dropout:g}")


def _until(*, warmup: int, steps: int, validate_every: int, checkpoint_every: int) -> tuple[str, ...]:
    """Return the overrides of a training that ends by `_PATIENCE`, or after its steps."""
    return (
        f"schedule.warmup={warmup}",
        f"training.max_steps={steps}",
        f"training.validate_every={validate_every}",
        "training.validate_share=1",  # by steps, whatever the machine
        f"training.patience={_PATIENCE}",
        f"training.checkpoint_every={checkpoint_every}",
        "training.average_last=4",
        "training.best_by=bleu",
    )


_SLOW_MOMENTS = "optimizer.beta2=0.999"
BUDGETS = {
    "tiny": Budget(
        until=_until(warmup=400, steps=6000, validate_every=250, checkpoint_every=125),
        trial_steps=2000,
        trials={
            "paper": _paper(0.1),
            "linear-low": _trial("linear", 0.004, 0.1, "training.max_steps=4000"),
            "linear": _trial("linear", 0.008, 0.0, "training.max_steps=4000"),
            "linear-high": _trial("linear", 0.016, 0.0, "training.max_steps=4000"),
            "root-low": _trial("inverse_sqrt", 0.004, 0.1),
            "root": _trial("inverse_sqrt", 0.008, 0.0),
            "root-high": _trial("inverse_sqrt", 0.016, 0.1),
        },
        own={
            "": _trial("linear", 0.008, 0.1, "training.max_steps=4000", _SLOW_MOMENTS),
            "transformer": _trial("linear", 0.004, 0.1, "training.max_steps=4000", "optimizer.name=muon"),
        },
        seeds=(2, 3, 4, 5, 6),
        presets=tuple(line.preset for line in TABLE_3),
        multiples=(0.5, 1.0, 2.0),
        variations=("training.max_steps=9000",),
    ),
    "multi30k": Budget(
        until=_until(warmup=400, steps=4000, validate_every=500, checkpoint_every=125),
        trial_steps=1000,
        # A dropout of 0.1 wins a training as short as a trial, which says nothing of the long one.
        trials={
            "paper": _paper(0.3),
            "linear-low": _trial("linear", 0.004, 0.3),
            "linear": _trial("linear", 0.008, 0.3),
            "linear-high": _trial("linear", 0.016, 0.3),
        },
        own={
            "": _trial("linear", 0.008, 0.2, _SLOW_MOMENTS),
            "transformer": _trial("linear", 0.004, 0.2, "optimizer.name=muon"),
        },
        seeds=(2, 3, 4),
        presets=(
            "base", "table3-a-h1", "table3-a-h16", "table3-d-drop0", "table3-d-ls0", "table3-e-learned", "big",
        ),
        multiples=(0.5, 1.0),
    ),
    "open-en-de": Budget(
        until=_until(warmup=400, steps=6000, validate_every=500, checkpoint_every=125),
        trial_steps=2000,
        trials={
            "paper": _paper(0.1),
            "linear-low": _trial("linear", 0.004, 0.0),
            "linear": _trial("linear", 0.008, 0.0),
            "linear-high": _trial("linear", 0.016, 0.0),
        },
        own={
            "": _trial("linear", 0.008, 0.1, _SLOW_MOMENTS),
            "transformer": _trial("linear", 0.004, 0.0, "optimizer.name=muon"),
        },
        seeds=(2, 3, 4),
    ),
}  # fmt: skip


def system_row(scale: Scale, system: str, name: str, label: str, trial: tuple[str, ...]) -> TrainingRow:
    """Return a row of table 2: the system with what is alike, the budget, and a trial's own settings."""
    recipe, budget = scale.comparison.recipe(system), BUDGETS[scale.name]
    changes = replaced(replaced(recipe.changes, budget.until), trial)
    return TrainingRow(name, label, scale.name, recipe.file, changes, text=scale.checksum)


def tuned_row(scale: Scale, original: TrainingRow, name: str, label: str, multiple: float) -> TrainingRow:
    """Return a row of table 3 or of its ablation with the budget, and a multiple of its rate."""
    rate, budget = original.configuration().schedule.peak, BUDGETS[scale.name]
    assert rate is not None
    by = (*budget.variations, "schedule.name=inverse_sqrt", f"schedule.peak={multiple * rate:.6f}")
    changes = replaced(replaced(original.changes, budget.until), by)
    return TrainingRow(name, label, scale.name, original.config, changes, text=scale.checksum)


def to_the_end(row: TrainingRow) -> TrainingRow:
    """Return the row of what was taken: its rate falls to zero, so that it gives all that it has learned."""
    ending = () if decays(row.configuration().schedule) else _ENDING
    return replace(row, changes=replaced(row.changes, ending))


def originals(scale: Scale) -> dict[str, TrainingRow]:
    """Return the rows of table 3 and its ablation that the budget allows for, by name; it may allow for none."""
    rows = [variation_row(preset, scale) for preset in BUDGETS[scale.name].presets]
    return {row.name: row for row in (*rows, *ablation_rows(scale))} if rows else {}


def _trials(scale: Scale) -> Iterator[tuple[str, str, TrainingRow]]:
    """Yield, for each trial, what it is for, the trial's name, and its row."""
    budget = BUDGETS[scale.name]
    for system in scale.comparison.models:
        for trial, overrides in budget.trials_of(system).items():
            label = f"{ARCHITECTURES[system]}, {trial}"
            yield system, trial, system_row(scale, system, f"trial-{system}-{trial}", label, overrides)
    for name, original in originals(scale).items():
        for multiple in budget.multiples:
            label = f"{original.label}, {multiple:g} times its rate"
            row = tuned_row(scale, original, f"trial-{name}-x{multiple:g}", label, multiple)
            yield name, f"{multiple:g}", row


def trial_rows(scale: Scale) -> list[TrainingRow]:
    """Return the trials of every system of table 2 and every row of table 3; none at a scale without a budget."""
    if scale.name not in BUDGETS:
        return []
    steps = (f"training.max_steps={BUDGETS[scale.name].trial_steps}",)
    return [replace(row, scored=False, changes=replaced(row.changes, steps)) for _, _, row in _trials(scale)]


def with_choices(scale: Scale, results: Path) -> Scale:
    """Return the scale with the best trial, by development BLEU, of everything whose trials are all recorded."""
    if scale.name not in BUDGETS:
        return scale
    found = collect(replace(TRIALS, tune=None), scale, results)
    tried: dict[str, list[tuple[bool, float, str]]] = {}
    for name, trial, row in _trials(scale):
        score = found.mean(row.name, BLEU.path)
        missing = bool(found.missing(row.name))
        tried.setdefault(name, []).append((missing, -math.inf if score is None else score.value, trial))
    chosen = {
        name: max(trials, key=lambda trial: trial[1])[2]
        for name, trials in tried.items()
        if not any(missing for missing, _, _ in trials)
    }
    return replace(scale, chosen=chosen, seeds=BUDGETS[scale.name].seeds)


def budget_note(scale: Scale) -> str:
    """Return how every run is trained, and the command that runs what isn't yet; nothing elsewhere."""
    if scale.name not in BUDGETS:
        return ""
    return (
        "Every run has the settings of its best trial, and ends where its rate is zero, or after "
        f"{_PATIENCE} validations without a better score; the last 4 checkpoints are averaged. {how_to_continue(scale)}"
    )


def how_to_continue(scale: Scale) -> str:
    """Return the command that runs what isn't finished yet, in a sentence."""
    return f"`headwise reproduce all --scale {scale.name}` continues what isn't finished, the trials first."


def find_trials(results: Results) -> Finding:
    """Tabulate the trials, and what was chosen."""
    budget = BUDGETS.get(results.scale.name)
    if budget is None:
        return Finding()
    names = [*budget.trials, "own"]
    systems = Table(
        f"Development BLEU of the trials of table 2's systems ({results.scale.about})",
        ("system", *names, "taken"),
        tuple(
            (
                ARCHITECTURES[system],
                *(results.cell(f"trial-{system}-{trial}", BLEU.path) for trial in names),
                results.scale.chosen.get(system, "–"),
            )
            for system in results.scale.comparison.models
        ),
        "; ".join(f"{trial}: {_settings(overrides)}" for trial, overrides in budget.trials.items())
        + f"; own: {_settings(budget.own[''])}, of the Transformer {_settings(budget.own['transformer'])}. "
        f"A trial trains for at most {budget.trial_steps:,} steps. Alike: {results.scale.comparison.treatment}.",
    )
    variations = Table(
        "Development BLEU of the rows of table 3 by multiples of their rate",
        ("row", *(f"{multiple:g}" for multiple in budget.multiples), "taken"),
        tuple(
            (
                row.label,
                *(results.cell(f"trial-{name}-x{multiple:g}", BLEU.path) for multiple in budget.multiples),
                results.scale.chosen.get(name, "–"),
            )
            for name, row in originals(results.scale).items()
        ),
    )
    return Finding([systems, variations] if variations.rows else [systems])


def _settings(overrides: Sequence[str]) -> str:
    shown = (override.partition(".")[2] for override in overrides if not override.endswith("=null"))
    return ", ".join(setting.replace("=", " ", 1) for setting in shown)


TRIALS = Experiment("trials", "Trials of tables 2 and 3", trial_rows, find_trials, tune=with_choices)
