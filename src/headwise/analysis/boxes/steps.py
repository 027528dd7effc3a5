"""The steps of a box's computation, as the command line and the web page show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    def to_json(self) -> dict[str, Any]:
        """Return the fields; the values stay an array."""
        return {"label": self.label, "values": self.values, "names": self.names, "tokens": self.tokens}


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

    def to_json(self) -> dict[str, Any]:
        """Return the fields; the values stay an array."""
        return {
            "label": self.label,
            "values": self.values,
            "rows": self.rows,
            "columns": self.columns,
            "tokens": self.tokens,
            "marked": self.marked,
        }


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

    def to_json(self) -> dict[str, Any]:
        """Return the fields; the values of vectors and grids stay arrays."""
        return {
            "name": self.name,
            "formula": self.formula,
            "sentence": self.sentence,
            "vectors": [vector.to_json() for vector in self.vectors],
            "grids": [grid.to_json() for grid in self.grids],
            "facts": dict(self.facts),
        }


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

    def to_json(self) -> dict[str, Any]:
        """Return the fields; the values of vectors and grids stay arrays."""
        return {
            "name": self.name,
            "title": self.title,
            "layer": self.layer,
            "position": self.position,
            "pieces": self.pieces,
            "steps": [step.to_json() for step in self.steps],
        }


def floats(values: Any) -> Floats:
    """Return an array of 32-bit floats."""
    return np.ascontiguousarray(values, dtype=np.float32)


def listed(values: Floats) -> list[Any]:
    """Return nested lists; the infinite scores of masked keys become None."""
    shown = values.astype(object)
    shown[~np.isfinite(values)] = None
    return shown.tolist()
