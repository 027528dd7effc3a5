"""Pictures of attention, drawn with matplotlib and without a display."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from headwise.analysis.attention import CrossAttention
from headwise.analysis.interventions import Part
from headwise.analysis.trace import Grid, Trace
from headwise.files import atomic_file

_LARGEST = 34.0  # inches of a picture's longer side
_PART_NAMES = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}


def draw_cross_attention(
    attention: CrossAttention, file: Path, *, title: str, shown: tuple[int, int] | None = None
) -> None:
    """Draw the mean over heads of every layer side by side, or one (layer, head), as PNG; darker is more.

    Rows are target words, each with the weights used while it was predicted; columns are source words.
    """
    layers = attention.weights.shape[0]
    if shown is None:
        panels = [
            (f"layer {layer + 1}, mean of heads", attention.weights[layer].mean(0)) for layer in range(layers)
        ]
    else:
        layer, head = shown
        panels = [(f"layer {layer + 1}, head {head + 1}", attention.weights[layer, head])]
    width = 0.34 * len(attention.source_words) + 0.7
    height = 0.34 * len(attention.target_words) + 1.5
    figure = Figure(figsize=(width * len(panels) + 1.3, height), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (name, weights) in zip(axes, panels, strict=True):
        _draw(axis, name, weights, attention.target_words, attention.source_words, 9.0)
    figure.suptitle(title, fontsize=10)
    _save(figure, file)


def draw_trace(
    trace: Trace,
    file: Path,
    *,
    part: Part = "cross",
    words: bool = False,
    shown: tuple[int, int] | None = None,
) -> None:
    """Draw every head of one part, a row of maps for each layer, or one (layer, head), as PNG; darker is more.

    Cells shrink with the number of tokens, and names with the cells, so that 60 tokens still fit a picture of
    sensible size. Raises `ConfigError` for a part that the trace doesn't have.
    """
    grid = trace.grid(part, words=words)
    layers, heads = grid.weights.shape[:2]
    places = [(layer, head) for layer in range(layers) for head in range(heads)] if shown is None else [shown]
    across = heads if shown is None else 1
    down = len(places) // across
    rows, columns = len(grid.rows), len(grid.columns)
    largest = 0.34 if shown is not None else 0.2
    cell = min(largest, (_LARGEST - 3) / max(across * columns, down * rows))  # inches
    cell = max(cell, 1.2 / max(rows, columns))
    letters = min(9.0, cell * 72 * 0.75)  # points
    margin = 0.075 * letters / 5
    size = (
        across * cell * columns + margin * _longest(grid.rows) + 0.9 + 0.15 * across,
        down * (cell * rows + 0.34) + margin * _longest(grid.columns) + 0.9,
    )
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for axis, (layer, head) in zip(axes.flat, places, strict=True):
        name = f"layer {layer + 1}, head {head + 1}"
        _draw(axis, name, grid.weights[layer, head], grid.rows, grid.columns, letters)
    figure.suptitle(_caption(trace, grid, part), fontsize=10)
    _save(figure, file)


def _caption(trace: Trace, grid: Grid, part: Part) -> str:
    rows = {
        "encoder": "rows attend to columns",
        "decoder": "rows: what is read",
        "cross": "rows: what is predicted",
    }
    changed = "; ".join(map(str, trace.interventions))
    return f"{_PART_NAMES[part]} ({rows[part]})" + (f"\n{changed}" if changed else "")


def _longest(names: Sequence[str]) -> int:
    return max(map(len, names), default=0)


def _draw(
    axis: Axes, name: str, weights: NDArray, rows: Sequence[str], columns: Sequence[str], letters: float
) -> None:
    axis.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal", interpolation="nearest")
    axis.set_title(name, fontsize=9)
    axis.set_xticks(range(len(columns)), _safe(columns), rotation=60, ha="right", fontsize=letters)
    axis.set_yticks(range(len(rows)), _safe(rows), fontsize=letters)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _safe(names: Sequence[str]) -> list[str]:
    """Keep names from being read as formulas, and right-to-left ones in the order they are read."""
    shown = []
    for name in names:
        name = name.replace("▁", "") or name
        backward = any(unicodedata.bidirectional(character) in ("R", "AL") for character in name)
        shown.append((name[::-1] if backward else name).replace("$", r"\$"))
    return shown


def _save(figure: Figure, file: Path) -> None:
    with warnings.catch_warnings():
        # A script that no installed font has is drawn as boxes; the numbers are right all the same.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        with atomic_file(file) as out:
            figure.savefig(out, format="png", dpi=150)
