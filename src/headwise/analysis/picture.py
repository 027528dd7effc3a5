"""Attention heatmaps, drawn with matplotlib without a display."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from headwise.analysis.attention import CrossAttention
from headwise.analysis.interventions import PART_NAMES, Part
from headwise.analysis.trace import Trace
from headwise.files import atomic_file

_LARGEST = 34.0  # inches: longer side of a picture
_FITS = 0.34  # inches: side of a cell into which a number fits
_BAR = 0.6  # inches: width of the color bar


def draw_cross_attention(attention: CrossAttention, file: Path, *, title: str) -> None:
    """Draw every layer's mean over heads side by side, as PNG, with numbers.

    Darker is larger. Rows are target words, each with the weights of the step that predicts it; columns are source
    words.
    """
    layers = attention.weights.mean(1)  # (layers, target words, source words)
    width = _FITS * len(attention.source_words) + 0.7
    height = _FITS * len(attention.target_words) + 1.5
    figure = Figure(figsize=(width * len(layers) + 1.3 + _BAR, height), layout="constrained")
    axes = figure.subplots(1, len(layers), sharey=True, squeeze=False)
    for layer, (axis, weights) in enumerate(zip(axes.flat, layers, strict=True)):
        name = f"layer {layer + 1}, mean of heads"
        _draw(axis, name, weights, attention.target_words, attention.source_words, 9.0)
        _write(axis, weights)
    _add_bar(figure, axes)
    figure.suptitle(title, fontsize=10)
    save(figure, file)


def draw_trace(
    trace: Trace,
    file: Path,
    *,
    part: Part = "cross",
    words: bool = False,
    shown: tuple[int, int] | None = None,
) -> None:
    """Draw every head of one part, a row of maps per layer, or one (layer, head), as PNG; darker is larger.

    A single head has its numbers. Cells shrink as the number of tokens grows, and labels with them, so that 60 tokens
    still fit a picture of reasonable size. Raises `ConfigError` for a part that the trace doesn't have.
    """
    grid = trace.attention_map(part, words=words)
    layers, heads = grid.weights.shape[:2]
    panels = [(layer, head) for layer in range(layers) for head in range(heads)] if shown is None else [shown]
    across = heads if shown is None else 1
    down = len(panels) // across
    rows, columns = len(grid.rows), len(grid.columns)
    largest_cell = _FITS if shown is not None else 0.2
    cell = min(largest_cell, (_LARGEST - 3) / max(across * columns, down * rows))  # inches
    cell = max(cell, 1.2 / max(rows, columns))
    font_size = min(9.0, cell * 72 * 0.75)  # points
    margin = 0.075 * font_size / 5
    size = (
        across * cell * columns + margin * _longest(grid.rows) + 0.9 + 0.15 * across + _BAR,
        down * (cell * rows + 0.34) + margin * _longest(grid.columns) + 0.9,
    )
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for axis, (layer, head) in zip(axes.flat, panels, strict=True):
        name = f"layer {layer + 1}, head {head + 1}"
        _draw(axis, name, grid.weights[layer, head], grid.rows, grid.columns, font_size)
        if cell >= _FITS:
            _write(axis, grid.weights[layer, head])
    _add_bar(figure, axes)
    figure.suptitle(_caption(trace, part), fontsize=10)
    save(figure, file)


def _caption(trace: Trace, part: Part) -> str:
    rows = {
        "encoder": "rows attend to columns",
        "decoder": "rows: what is read",
        "cross": "rows: what is predicted",
    }
    changed = "; ".join(map(str, trace.interventions))
    return f"{PART_NAMES[part].lower()} ({rows[part]})" + (f"\n{changed}" if changed else "")


def _longest(names: Sequence[str]) -> int:
    return max(map(len, names), default=0)


def _draw(
    axis: Axes, name: str, weights: NDArray, rows: Sequence[str], columns: Sequence[str], font_size: float
) -> None:
    axis.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal", interpolation="nearest")
    axis.set_title(name, fontsize=9)
    axis.set_xticks(range(len(columns)), _tick_labels(columns), rotation=60, ha="right", fontsize=font_size)
    axis.set_yticks(range(len(rows)), _tick_labels(rows), fontsize=font_size)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _write(axis: Axes, weights: NDArray) -> None:
    """Write each weight that isn't 0 into its cell, with two decimals and without its leading zero."""
    for (row, column), weight in np.ndenumerate(weights):
        number = f"{weight:.2f}".removeprefix("0")
        if number != ".00":
            color = "white" if weight > 0.6 else "black"
            axis.text(column, row, number, ha="center", va="center", fontsize=6, color=color)


def _add_bar(figure: Figure, axes: NDArray) -> None:
    """Add the color bar of all maps, which share a scale from 0 to 1."""
    bar = figure.colorbar(axes.flat[0].images[0], ax=axes, fraction=0.02, pad=0.01, aspect=30)
    bar.ax.tick_params(labelsize=7)


def _tick_labels(names: Sequence[str]) -> list[str]:
    """Return labels with `$` escaped, so that matplotlib doesn't parse formulas, and right-to-left names reversed."""
    labels = []
    for name in names:
        name = name.replace("▁", "") or name
        right_to_left = any(unicodedata.bidirectional(character) in ("R", "AL") for character in name)
        labels.append((name[::-1] if right_to_left else name).replace("$", r"\$"))
    return labels


def save(figure: Figure, file: Path) -> None:
    """Write a figure as PNG."""
    with warnings.catch_warnings():
        # Characters missing from the installed fonts are drawn as boxes; the weights are still right.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        with atomic_file(file) as out:
            figure.savefig(out, format="png", dpi=150)
