"""What a scale is: its text, its base, what it compares, and how long that trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headwise.experiments.harness.test_sets import TestSet

# Name of an architecture's row -> how a table calls it.
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
    """A configuration file, `key.sub=value` overrides of it, and the name of another test set than the scale's."""

    file: str
    changes: tuple[str, ...] = ()
    test: str = ""


@dataclass(frozen=True)
class Comparison:
    """One scale's contest.

    Attributes:
        alike: what every system is given.
        models: system -> its recipe.
        rates: system -> peak of its learning rate; none where the configuration's own schedule stays.
        tried: the rates that `tuning` trains each system with, and for how many steps.
        treatment: `alike` in words, for the report.
    """

    alike: tuple[str, ...]
    models: Mapping[str, Recipe]
    rates: Mapping[str, float]
    tried: tuple[float, ...]
    steps: int
    treatment: str

    def systems(self) -> dict[str, Recipe]:
        """Return each system's recipe with all that is changed in it."""
        return {name: self.system(name, self.rates.get(name)) for name in self.models}

    def system(self, name: str, rate: float | None) -> Recipe:
        """Return a system's recipe with another rate."""
        model = self.models[name]
        peak = [] if rate is None else [f"schedule.peak={rate:g}"]
        return Recipe(model.file, (*self.alike, *model.changes, *peak))


@dataclass(frozen=True)
class Scale:
    """Text, configurations and budgets of one scale.

    Attributes:
        comparison: what table 2 compares.
        base: the recipe that table 3 and the claims vary.
        budget: how long `base` trains, in words.
        test: scored once, at the end; `other_tests` are those of rows for another pair of languages, by name.
        minutes: the training time that all systems get where time is what is equal.
        rates: peak learning rates of rows of table 3 for which base's, by d_model^-0.5, is too high, by preset.
        timed: what is changed besides in these shorter runs.
        deep: what is changed in `base` besides for the experiment on depth, whose models are up to eight times as deep.
        sentence: subwords of a typical sentence, end symbol included; for estimates.
        more: further rows of table 2.
        before: makes the text where it isn't there, for a scale whose text is generated.
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
        """Row of table 2 -> its recipe."""
        return self.comparison.systems()

    def test_set(self, name: str = "") -> TestSet:
        """Return the test set of a row."""
        return self.other_tests[name] if name else self.test

    def prepare(self, tests: Iterable[str] = ("",)) -> None:
        """Make sure that the text is there; raises `DataError` saying how to get it."""
        if self.before is not None:
            self.before(self.test.target)
        for name in sorted(tests):
            self.test_set(name).check()
