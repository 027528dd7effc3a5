"""Results of an experiment: tables, charts, and claims with their status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headwise.experiments.harness.records import Mean, Results, mean
from headwise.files import atomic_file

Status = Literal["confirmed", "refuted", "undecided", "not run yet"]
EQUAL = 0.3  # BLEU: models that differ by less are called nearly identical


@dataclass(frozen=True)
class Table:
    """A table of formatted cells; the first column is left-aligned, the others are right-aligned."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def text(self) -> str:
        """Format the table as plain text for a terminal."""
        cells = [self.columns, *self.rows]
        widths = [max(len(row[index]) for row in cells) for index in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.ljust(width) if not index else cell.rjust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([self.title, *lines, *([self.note] if self.note else [])])

    def markdown(self) -> str:
        """Format the table in Markdown."""
        separators = [*("---" for _ in self.columns[:1]), *("---:" for _ in self.columns[1:])]
        rows = [self.columns, separators, *self.rows]
        lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
        return "\n".join([f"**{self.title}**", "", *lines, *(["", self.note] if self.note else [])])


@dataclass(frozen=True)
class Chart:
    """A chart: `draw` draws into an empty figure; `text` describes it (caption and alternative text)."""

    name: str
    text: str
    draw: Callable[[Figure], None]
    size: tuple[float, float] = (7.0, 3.4)

    def save(self, folder: Path) -> Path:
        """Write `folder/name.png`; the same data gives the same bytes."""
        figure = Figure(figsize=self.size, layout="constrained")
        self.draw(figure)
        file = folder / f"{self.name}.png"
        with atomic_file(file) as out:
            figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
        return file


@dataclass(frozen=True)
class Claim:
    """A claim of the paper or the field, whether it is confirmed here, and the numbers that decide it."""

    text: str
    status: Status
    because: str

    def sentence(self) -> str:
        """Return text, status and reason in one line."""
        return f"{self.text}: {self.status}. {self.because}"


@dataclass(frozen=True)
class Finding:
    """All results of an experiment at one scale."""

    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    claims: Sequence[Claim] = ()


def decide(holds: bool) -> Status:
    """Return the status of a claim that is exact or counted, within the tolerance that its experiment states."""
    return "confirmed" if holds else "refuted"


def judge(text: str, difference: Mean, expected: int, of: str, digits: int = 2) -> Claim:
    """Return a claim on a difference over paired seeds: whether its whole 95 % interval has the expected sign.

    `expected` 0 claims a difference below `EQUAL`. A difference within its interval decides nothing: the number of
    seeds that would is estimated from its deviation. `of` says what differs from what, in which unit.
    """
    count = f"{difference.count} seed{'s' if difference.count > 1 else ''}"
    because = f"{difference.text(digits, sign=True)} {of} ({count})."
    if difference.half is None:
        return Claim(text, "undecided", f"{because} One seed decides nothing; it takes two or more.")
    value, half = difference.value, difference.half
    far = max(abs(value - half), abs(value + half))
    decided = far <= EQUAL if expected == 0 else abs(value) > half and value * expected > 0
    opposite = abs(value) - half > EQUAL if expected == 0 else abs(value) > half and value * expected < 0
    if decided or opposite:
        return Claim(text, decide(decided), because)
    seeds = difference.seeds_to_decide(abs(value) if expected else abs(abs(value) - EQUAL))
    if seeds is None:
        return Claim(text, "undecided", because)
    rough = float(f"{seeds:.2g}")  # two digits of an estimate from a few seeds
    return Claim(text, "undecided", f"{because} About {rough:,.0f} seeds would decide it.")


Case = tuple[str, str, str]  # a row, another one, and the path of the number that they are compared by


def judge_gain(results: Results, text: str, later: Case, earlier: Case, of: str, otherwise: str) -> Claim:
    """Return the claim that a difference of two rows is larger in one case than in another, over paired seeds.

    `of` is as for `judge`; `otherwise` says how the runs are made where no seed has both. Where seeds diverged, those
    that are left decide nothing.
    """
    before = results.differences(*earlier)
    gains = [difference - before[seed] for seed, difference in results.differences(*later).items() if seed in before]
    names = dict.fromkeys((*later[:2], *earlier[:2]))
    lost = " ".join(f"{name}: {results.seeds(name)}." for name in names if results.diverged(name))
    if not gains:
        return Claim(text, "undecided", lost) if lost else Claim(text, "not run yet", otherwise)
    claim = judge(text, mean(gains), 1, of)
    return Claim(text, "undecided", f"{claim.because} {lost}") if lost else claim


@dataclass(frozen=True)
class Measure:
    """What rows are compared by: a number of their records by its path, and whether more of it is better."""

    path: str
    unit: str
    digits: int = 2
    more_is_better: bool = True


BLEU = Measure("dev.bleu", "BLEU")


def compare(results: Results, text: str, row: str, other: str, measure: Measure, expected: int, against: str) -> Claim:
    """Return the claim on one row's number less another's, judged over the seeds that both have.

    `against` describes the other row. A row all of whose seeds diverged is worse than one that trained; a row some of
    whose seeds diverged isn't found better, or equal, by those that are left.
    """
    missing = results.missing(row, other)
    if missing:
        return Claim(text, "not run yet", f"Missing at the scale {results.scale.name}: {', '.join(missing)}.")
    difference = results.difference(row, other, measure.path)
    if difference is not None:
        claim = judge(text, difference, expected, f"{measure.unit} against {against}", measure.digits)
        lost = [name for name in (row, other) if results.diverged(name)]
        said = "".join(f" {name}: {results.seeds(name)}." for name in lost)
        better = row if (difference.value > 0) == measure.more_is_better else other
        found_equal = expected == 0 and claim.status == "confirmed"
        undecided = better in lost or (found_equal and bool(lost))
        return Claim(text, "undecided" if undecided else claim.status, claim.because + said)
    failed = [name for name in (row, other) if not results.values(name, measure.path)]
    if not failed:
        return Claim(text, "not run yet", f"No seed is recorded of both {row} and {other}.")
    seeds = min(len(results.records[name]) for name in failed)
    because = f"{' and '.join(failed)} diverged with every seed of {seeds}."
    if len(failed) > 1 or seeds < 2:
        return Claim(text, "undecided", because)
    sign = -1 if failed == [row] else 1
    return Claim(text, decide(expected == (sign if measure.more_is_better else -sign)), because)


def plain(axis: Axes) -> Axes:
    """Hide the top and right spines; returns the axis."""
    axis.spines[["top", "right"]].set_visible(False)
    return axis
