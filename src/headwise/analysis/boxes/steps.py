"""The steps of a box's computation, as the command line and the web page show them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.analysis.terminal import bar, columns, padded, plain

_NUMBERS = 8  # of a vector
_LARGEST = 3  # of a row of a grid
_WIDEST = 64  # columns of a grid whose largest values are named

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Vector:
    """A vector with a label; `names` are those of its entries where these aren't dimensions: `tokens`, or numbers.

    Labels and formulas are written with `_` and `^` before a subscript or superscript: one character, or several in
    braces, such as `W^Q` and `d_{model}`.
    """

    label: str
    values: Floats  # (entries,)
    names: tuple[str, ...] | None = None
    tokens: bool = False


@dataclass(frozen=True)
class Grid:
    """A matrix; its rows are `tokens` or have other names, its columns are tokens or dimensions.

    `marked` is the row that the step is about.
    """

    label: str
    values: Floats  # (rows, columns)
    rows: tuple[str, ...]
    columns: tuple[str, ...] | None = None  # None: dimensions, numbered from 1
    tokens: bool = False
    marked: int | None = None


@dataclass(frozen=True)
class Step:
    """One step: its formula, a sentence with this model's numbers, and the tensors.

    `facts` are single numbers by name, such as the mean and the variance.
    """

    name: str
    formula: str
    sentence: str
    vectors: tuple[Vector, ...] = ()
    grids: tuple[Grid, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)

    def vector(self, label: str) -> Floats:
        """Return the values of a vector."""
        return next(vector.values for vector in self.vectors if vector.label == label)

    def grid(self, label: str) -> Floats:
        """Return the values of a grid."""
        return next(grid.values for grid in self.grids if grid.label == label)


@dataclass(frozen=True)
class Box:
    """The computation of one box at one position.

    Attributes:
        name: of the box, such as `encoder.self-attention.add-norm`.
        title: the same in words.
        layer: counted from 0; None for a box outside the layers.
        position: counted from 0, among `pieces`.
        pieces: the tokens that the box's stack reads.
        steps: in the order of the computation. The last vector of the last step is what the box hands on.
    """

    name: str
    title: str
    layer: int | None
    position: int
    pieces: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def output(self) -> Floats:
        """What the box hands on: the last vector."""
        return self.steps[-1].vectors[-1].values


def floats(values: Any) -> Floats:
    """Return an array of 32-bit floats."""
    return np.ascontiguousarray(values, dtype=np.float32)


def box_lines(box: Box) -> list[str]:
    """Return the lines that `headwise explain --box` prints."""
    lines = [f"{box.title}, token {box.position + 1} of {len(box.pieces)}: {plain(box.pieces[box.position])!r}"]
    for number, step in enumerate(box.steps, start=1):
        lines += ["", f"{number}. {_written(step.name)}    {_written(step.formula)}", f"   {step.sentence}"]
        lines += [f"   {line}" for line in _tensors(step)]
    return lines


def _tensors(step: Step) -> Iterator[str]:
    labels = [_written(one.label) for one in (*step.vectors, *step.grids)]
    width = max(map(columns, labels), default=0)
    for vector in step.vectors:
        yield from _vector(vector, width)
    for grid in step.grids:
        yield from _grid(grid, width)
    if step.facts:
        yield ", ".join(f"{name} {value:.6g}" for name, value in step.facts.items())


def _vector(vector: Vector, width: int) -> Iterator[str]:
    label = padded(_written(vector.label), width)
    if vector.names is None:
        shown = " ".join(f"{value:.4f}" for value in vector.values[:_NUMBERS])
        more = f" … ({len(vector.values)} numbers)" if len(vector.values) > _NUMBERS else ""
        yield f"{label}  {shown}{more}"
        return
    names = [plain(name) for name in vector.names]
    longest, largest = max(map(columns, names)), max(1e-12, float(np.abs(vector.values).max()))
    digits = ".0" if (vector.values == vector.values.round()).all() else ".4"
    yield label.rstrip()
    for name, value in zip(names, vector.values.tolist(), strict=True):
        yield f"  {padded(name, longest)}  {bar(abs(value) / largest, 12)} {value:{digits}f}"


def _grid(grid: Grid, width: int) -> Iterator[str]:
    label = padded(_written(grid.label), width)
    rows, count = grid.values.shape
    if grid.columns is None or count > _WIDEST:
        yield f"{label}  {rows} × {count} numbers"
        return
    for name, row in zip(grid.rows, grid.values, strict=True):
        largest = np.argsort(-row, kind="stable")[:_LARGEST]
        shown = "  ".join(f"{plain(grid.columns[i])} {row[i]:.4f}" for i in largest if np.isfinite(row[i]))
        yield f"{label}  {name}: {shown}"


def _written(markup: str) -> str:
    return re.sub(r"_\{([^}]*)\}", r"_\1", re.sub(r"\^\{([^}]*)\}", r"^(\1)", markup))
