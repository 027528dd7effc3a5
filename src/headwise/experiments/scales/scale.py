"""Definition of a scale: its corpus, base recipe, compared systems and training budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headwise.experiments.harness.test_sets import TestSet

# Name of an architecture's row -> its label in tables.
ARCHITECTURES = {
    "sutskever": "recurrent, no attention (Sutskever)",
    "bahdanau": "recurrent, additive attention (Bahdanau)",
    "luong": "recurrent, multiplicative attention (Luong)",
    "gnmt": "recurrent, residual stack (GNMT)",
    "convs2s": "convolutional (ConvS2S)",
    "transformer": "Transformer",
}


@dataclass(frozen=True)
class Recipe:
    """A configuration file, `key.sub=value` overrides, and the name of a test set other than the scale's."""

    file: str
    changes: tuple[str, ...] = ()
    test: str = ""


@dataclass(frozen=True)
class Comparison:
    """The comparison of systems at one scale.

    Attributes:
        alike: overrides shared by all systems.
        models: system -> its recipe.
        rates: system -> its peak learning rate; without one, the configuration's schedule is kept.
        tried: the peak learning rates that `tuning` trains each system with.
        steps: training steps of a `tuning` run.
        treatment: `alike` in words, for the report.
    """

    alike: tuple[str, ...]
    models: Mapping[str, Recipe]
    rates: Mapping[str, float]
    tried: tuple[float, ...]
    steps: int
    treatment: str

    def systems(self) -> dict[str, Recipe]:
        """Return each system's recipe with all its overrides."""
        return {name: self.system(name, self.rates.get(name)) for name in self.models}

    def system(self, name: str, rate: float | None) -> Recipe:
        """Return a system's recipe with a peak learning rate; None keeps the configuration's schedule."""
        model = self.models[name]
        peak = [] if rate is None else [f"schedule.peak={rate:g}"]
        return Recipe(model.file, (*self.alike, *model.changes, *peak))


@dataclass(frozen=True)
class Scale:
    """Corpus, configurations and budgets of one scale.

    Attributes:
        about: description of the scale, for the report.
        comparison: the systems that table 2 compares.
        base: the recipe that table 3 and the claims vary.
        budget: training length of `base` in words, for the report.
        test: the test set, scored once, at the end; `other_tests` are those of other language pairs, by name.
        minutes: training time of each system in the comparison at equal training time.
        rates: by preset, peak learning rates of rows of table 3 for which base's, scaled by d_model^-0.5, is too high.
        timed: further overrides of the runs at equal training time.
        deep: further overrides of `base` for the depth experiment, whose models are up to eight times as deep.
        sentence: subwords of a typical sentence, end symbol included; for estimates.
        more: further rows of table 2.
        before: generates the text if it is missing, at a scale whose text is generated.
    """

    name: str
    about: str
    comparison: Comparison
    base: Recipe
    budget: str
    test: TestSet
    minutes: float
    rates: Mapping[str, float] = field(default_factory=dict)
    timed: tuple[str, ...] = ()
    deep: tuple[str, ...] = ()
    sentence: int = 16
    more: Mapping[str, Recipe] = field(default_factory=dict)
    other_tests: Mapping[str, TestSet] = field(default_factory=dict)
    before: Callable[[Path], None] | None = None

    @property
    def systems(self) -> dict[str, Recipe]:
        """Recipe of each system of table 2, by name."""
        return self.comparison.systems()

    def test_set(self, name: str = "") -> TestSet:
        """Return a test set by name; the scale's own for an empty name."""
        return self.other_tests[name] if name else self.test

    def prepare(self, tests: Iterable[str] = ("",)) -> None:
        """Generate the text if the scale's is generated; raises `DataError` if a test set is missing."""
        if self.before is not None:
            self.before(self.test.target)
        for name in sorted(tests):
            self.test_set(name).check()
