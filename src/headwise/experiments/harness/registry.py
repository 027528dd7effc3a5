"""Registry of experiments. To add one, write a module with an `EXPERIMENT` and add it to `NAMES`."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwise.errors import ConfigError
from headwise.experiments.harness.outcome import Finding
from headwise.experiments.harness.records import Record
from headwise.experiments.harness.rows import Row
from headwise.experiments.harness.statistics import Mean, mean
from headwise.experiments.scales.scale import Scale

# Name -> (module, or module:attribute if it isn't EXPERIMENT; line of help), in the order of the report.
NAMES = {
    "table1": (
        "headwise.experiments.table1",
        "Complexity, path length, gradient flow of four kinds of layers.",
    ),
    "complexity": (
        "headwise.experiments.complexity",
        "Time, operations and memory of a layer against n and d.",
    ),
    "table2": ("headwise.experiments.table2", "The Transformer against the systems that it replaced."),
    "tuning": ("headwise.experiments.tuning", "The learning rates that table 2's systems were tuned with."),
    "table3": ("headwise.experiments.table3", "Every variation of the Transformer, relative to its base."),
    "ablation": (
        "headwise.experiments.ablation",
        "The Transformer without positions, residuals or scaling.",
    ),
    "figures": (
        "headwise.experiments.figures",
        "Schedule, sinusoids, attention, head roles, label smoothing.",
    ),
    "sqrt-dk": ("headwise.experiments.sqrt_dk", "Why scores are divided by the square root of d_k."),
    "permutation": (
        "headwise.experiments.permutation",
        "Attention without positions can't tell orders apart.",
    ),
    "label-smoothing": ("headwise.experiments.label_smoothing", "Perplexity, BLEU and calibration."),
    "warm-up": ("headwise.experiments.warm_up", "A rising learning rate against none."),
    "norm": ("headwise.experiments.warm_up:ORDER", "Normalization before or after a sub-layer."),
    "depth": ("headwise.experiments.depth", "6 to 24 layers, normalized before and after."),
    "extrapolation": ("headwise.experiments.extrapolation", "Positions at lengths beyond training."),
}


@dataclass(frozen=True)
class Results:
    """The recorded results of an experiment at one scale: the records of each row, in the order of seeds."""

    scale: Scale
    rows: Sequence[Row]
    records: dict[str, list[Record]]

    def missing(self, *names: str) -> list[str]:
        """Return the names of the rows that have no record yet."""
        return [name for name in names if not self.records.get(name)]

    def mean(self, name: str, path: str) -> Mean | None:
        """Return the mean of a row's number over seeds; None if the row has no record, or all its seeds diverged."""
        values = self.values(name, path)
        return mean(list(values.values())) if values else None

    def values(self, name: str, path: str) -> dict[int, float]:
        """Return a row's number by seed, without the seeds that diverged."""
        records = self.records.get(name, [])
        return {r.seed: r.number(path) for r in records if "diverged" not in r.result}

    def difference(self, name: str, other: str, path: str) -> Mean | None:
        """Return the mean difference of a row's number and another row's over the seeds that both have."""
        first, second = self.values(name, path), self.values(other, path)
        differences = [first[seed] - second[seed] for seed in first if seed in second]
        return mean(differences) if differences else None

    def cell(self, name: str, path: str, digits: int = 2) -> str:
        """Format a row's mean for a table; `–` if there is no record, `diverged` if training diverged."""
        value = self.mean(name, path)
        if value is not None:
            return value.text(digits)
        return "diverged" if self.records.get(name) else "–"

    def first(self, name: str) -> Record | None:
        """Return the record of a row's first seed."""
        records = self.records.get(name)
        return records[0] if records else None


@dataclass(frozen=True)
class Experiment:
    """An experiment: `rows` makes its rows at a scale, `find` evaluates their results."""

    name: str
    title: str
    rows: Callable[[Scale], Sequence[Row]]
    find: Callable[[Results], Finding]
    seeds: tuple[int, ...] = (1,)


def find_experiment(name: str) -> Experiment:
    """Import an experiment by name; raises `ConfigError` with the closest name."""
    if name not in NAMES:
        closest = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {closest[0]}?" if closest else f"known: {', '.join(NAMES)}, report"
        raise ConfigError(f"reproduce: expected the name of an experiment, found {name!r} ({hint})")
    module, _, attribute = NAMES[name][0].partition(":")
    return getattr(importlib.import_module(module), attribute or "EXPERIMENT")
