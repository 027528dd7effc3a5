"""Results of an experiment: tables, charts, and claims with their status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headwise.files import atomic_file

Status = Literal[
    "confirmed here",
    "not confirmed here",
    "refuted here",
    "undecided",
    "not testable at this scale",
    "not run yet",
]


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
    """Return the status of a claim that does or doesn't hold."""
    return "confirmed here" if holds else "not confirmed here"


def plain(axis: Axes) -> Axes:
    """Hide the top and right spines; returns the axis."""
    axis.spines[["top", "right"]].set_visible(False)
    return axis
