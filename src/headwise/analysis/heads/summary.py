"""Summary plot of a model's heads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headwise.analysis.heads.importance import HeadPlace
from headwise.analysis.heads.measuring import PartReport
from headwise.analysis.heads.roles import HeadRoles
from headwise.analysis.interventions import PART_NAMES
from headwise.analysis.picture import save

_COLORS = {
    "position": "#1f5fbf",
    "syntax": "#2a7f4f",
    "coreference": "#8a4fbf",
    "rare word": "#b3541e",
    "separator": "#7a6a1f",
    "semantic similarity": "#b0307a",
    "none": "#9aa3ad",
}


def draw_heads(reports: Sequence[PartReport], file: Path, importance: dict[HeadPlace, float] | None = None) -> None:
    """Draw a cell for each head as PNG: its roles, or its most frequent offset, its confidence and its importance.

    The shade is the mean largest weight; the last line of a cell, if importance was measured, is the increase of the
    loss without the head.
    """
    layers, heads = _shape([head for report in reports for head in report.heads])
    figure = Figure(figsize=(1.45 * heads * len(reports) + 1, 0.85 * layers + 1.3), layout="constrained")
    axes = figure.subplots(1, len(reports), squeeze=False)[0]
    for axis, report in zip(axes, reports, strict=True):
        _draw(axis, report, importance)
    figure.suptitle("What each head does (bold: a role by its threshold; shade: mean largest weight)", fontsize=10)
    save(figure, file)


def _draw(axis: Axes, report: PartReport, importance: dict[HeadPlace, float] | None) -> None:
    layers, heads = _shape(report.heads)
    shade = [[0.0] * heads for _ in range(layers)]
    for head in report.heads:
        shade[head.layer][head.head] = head.confidence.rate
    axis.imshow(shade, cmap="Blues", vmin=0, vmax=1.6, aspect="auto")
    for head in report.heads:
        lines = [*head.roles[:2]] or [f"{head.position.rate:.0%} at {head.offset:+d}"]
        if importance is not None:
            lines.append(f"{importance.get(HeadPlace(report.part, head.layer, head.head), 0.0):+.3f}")
        axis.text(
            head.head,
            head.layer,
            "\n".join(lines),
            ha="center",
            va="center",
            fontsize=7.5,
            fontweight="bold" if head.roles else "normal",
            color=_COLORS[_kind(head.roles)] if head.roles else "#1c2430",
        )
    axis.set_title(PART_NAMES[report.part], fontsize=9)
    axis.set_xticks(range(heads), [f"head {number + 1}" for number in range(heads)], fontsize=8)
    axis.set_yticks(range(layers), [f"layer {number + 1}" for number in range(layers)], fontsize=8)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _shape(heads: Sequence[HeadRoles]) -> tuple[int, int]:
    return max(head.layer for head in heads) + 1, max(head.head for head in heads) + 1


def _kind(roles: Sequence[str]) -> str:
    first = roles[0]
    if first.startswith("position"):
        return "position"
    return first if first in _COLORS else "syntax"
