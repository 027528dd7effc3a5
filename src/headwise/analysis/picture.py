"""Pictures of attention, drawn with matplotlib and without a display."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from headwise.analysis.attention import CrossAttention
from headwise.files import atomic_file


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
        _draw(axis, name, weights, attention)
    figure.suptitle(title, fontsize=10)
    with atomic_file(file) as out:
        figure.savefig(out, format="png", dpi=150)


def _draw(axis: Axes, name: str, weights: NDArray, attention: CrossAttention) -> None:
    axis.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal")
    axis.set_title(name, fontsize=9)
    axis.set_xticks(
        range(len(attention.source_words)), attention.source_words, rotation=60, ha="right", fontsize=9
    )
    axis.set_yticks(range(len(attention.target_words)), attention.target_words, fontsize=9)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
