"""Text output of a box and of a model's boxes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from headwise.analysis.boxes.architecture import Architecture, BoxSize
from headwise.analysis.boxes.steps import Box, Grid, Step, Vector
from headwise.analysis.terminal import bar, columns, padded, plain

_NUMBERS = 8  # of a vector
_LARGEST = 3  # of a row of a grid
_WIDEST = 64  # columns of a grid whose largest values are named


def box_lines(box: Box) -> list[str]:
    """Return the lines that `headwise explain --box` prints."""
    lines = [
        f"{box.title}, token {box.position + 1} of {len(box.pieces)}: {plain(box.pieces[box.position])!r}"
    ]
    for number, step in enumerate(box.steps, start=1):
        lines += ["", f"{number}. {_written(step.name)}    {_written(step.formula)}", f"   {step.sentence}"]
        lines += [f"   {line}" for line in _tensors(step)]
    return lines


def architecture_lines(found: Architecture) -> list[str]:
    """Return the lines that `headwise explain --boxes` prints: the boxes by layer, then their sums by part."""
    total = sum(part.parameters for part in found.parts)
    operations = (
        None if any(box.flops is None for box in found.boxes) else sum(box.flops or 0 for box in found.boxes)
    )
    lines = [", ".join(found.options), ""]
    lines.append(f"{'box':<36}{'layer':>6}{'shape':>14}{'parameters':>14}{'FLOPs':>16}")
    for box in found.boxes:
        layer = "" if box.layer is None else str(box.layer + 1)
        shape = "{} × {:,}".format(*box.shape)
        lines.append(f"{box.name:<36}{layer:>6}{shape:>14}{_parameters(box):>14}{_count(box.flops):>16}")
    lines += ["", f"{'part':<36}{'parameters':>20}{'FLOPs, this sentence':>28}"]
    for part in found.parts:
        lines.append(
            f"{part.name:<36}{_share(part.parameters, total):>20}{_share(part.flops, operations):>28}"
        )
    return [*lines, f"{'sum':<36}{_share(total, total):>20}{_share(operations, operations):>28}"]


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
    return re.sub(r"([_^])\{([^}]*)\}", r"\1\2", markup)


def _parameters(box: BoxSize) -> str:
    return f"{box.parameters:,}" if box.parameters or not box.shared else "shared"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _share(number: int | None, total: int | None) -> str:
    if number is None or total is None:
        return "not known"
    return f"{number:,} {number / max(1, total):>7.1%}"
