"""What an experiment gives back: tables, charts, and for each claim a plain sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headwise.files import atomic_file

Status = Literal["confirmed here", "not confirmed here", "not testable at this scale", "not run yet"]


@dataclass(frozen=True)
class Table:
    """Cells as they are printed; the first column is text, the others are aligned to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def text(self) -> str:
        """Lay the table out for a terminal."""
        cells = [self.columns, *self.rows]
        widths = [max(len(row[place]) for row in cells) for place in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.ljust(width) if not place else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([self.title, *lines, *([self.note] if self.note else [])])

    def markdown(self) -> str:
        """Write the table in Markdown."""
        heads = [*("---" for _ in self.columns[:1]), *("---:" for _ in self.columns[1:])]
        rows = [self.columns, heads, *self.rows]
        lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
        return "\n".join([f"**{self.title}**", "", *lines, *(["", self.note] if self.note else [])])


@dataclass(frozen=True)
class Chart:
    """A picture: `draw` fills an empty figure; `text` says in words what it shows."""

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
    """What the paper or the field says, whether it was found here, and the numbers that decide it."""

    text: str
    status: Status
    because: str

    def sentence(self) -> str:
        """Say all of it in one line."""
        return f"{self.text}: {self.status}. {self.because}"


@dataclass(frozen=True)
class Finding:
    """All that an experiment found at one scale."""

    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    claims: Sequence[Claim] = ()


def decide(held: bool) -> Status:
    """Turn a yes or no into a status."""
    return "confirmed here" if held else "not confirmed here"


def plain(axis: Axes) -> Axes:
    """Take away the frame's upper and right side."""
    axis.spines[["top", "right"]].set_visible(False)
    return axis
