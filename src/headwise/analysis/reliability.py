"""Reliability diagrams."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from headwise.evaluation.calibration import Calibration
from headwise.files import atomic_file


def draw_reliability(diagrams: Mapping[str, Mapping[str, Calibration]], file: Path) -> None:
    """Draw reliability diagrams as PNG, a row per run and a column per setting: accuracy and share of tokens by bin."""
    rows, columns = len(diagrams), max(map(len, diagrams.values()))
    figure = Figure(figsize=(3.6 * columns, 3.7 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axes_of_run, (run, settings) in zip(axes, diagrams.items(), strict=True):
        for axis, (setting, measured) in zip(axes_of_run, settings.items(), strict=True):
            width = measured.bins[0].high - measured.bins[0].low
            filled = [one for one in measured.bins if one.n]
            middles = [one.low + width / 2 for one in filled]
            shares = [one.n / measured.n for one in filled]
            axis.bar(middles, shares, width=width * 0.95, color="#d5dbe3", label="share of tokens")
            axis.plot([0, 1], [0, 1], color="#9aa3ad", linewidth=1, linestyle="--", label="perfect")
            axis.plot(
                [one.confidence for one in filled],
                [one.accuracy for one in filled],
                color="#1f5fbf",
                marker="o",
                markersize=3.5,
                label="accuracy",
            )
            axis.set_title(f"{run}\n{setting}: ECE {measured.error:.3f}, n {measured.n:,}", fontsize=8)
            axis.set_xlabel("probability", fontsize=8)
            axis.tick_params(labelsize=7)
            axis.set(xlim=(0, 1), ylim=(0, 1))
            axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(fontsize=7, frameon=False, loc="upper left")
    with atomic_file(file) as out:
        figure.savefig(out, format="png", dpi=150)
