"""Pictures of the chapters as SVG: heat maps with numbers and a color bar, and line charts.

The same data gives the same bytes. Every picture has a title that screen readers read, and colors that are visible on a
light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from headwise.files import write_text

Array = NDArray[Any]

_CELL, _LEFT, _TOP, _BAR = 46, 90, 44, 70  # pixels
_WIDTH, _HEIGHT, _MARGIN = 560, 260, 46
_INK, _PAPER = "#1f2430", "#ffffff"
_LOW, _MIDDLE, _HIGH = (178, 76, 52), (247, 247, 247), (38, 86, 156)  # red for negative, white for 0, blue
_COLORS = ("#26569c", "#b24c34", "#2f7d4f", "#7a4fa3", "#8a6d1f")


def save(path: str, svg: str) -> None:
    """Write a picture."""
    write_text(Path(path), svg)


def heat(values: Array, rows: Sequence[str], columns: Sequence[str], title: str, *, numbers: bool = True) -> str:
    """Draw a matrix (row, column) as a heat map: white is 0, blue positive, red negative; with a color bar."""
    values = np.asarray(values, dtype=float)
    largest = float(np.abs(values).max()) or 1.0
    cell = _CELL if numbers else max(4, min(_CELL, 460 // len(columns)))
    width, height = _LEFT + cell * len(columns) + _BAR, _TOP + cell * len(rows) + (34 if any(columns) else 8)
    parts = []
    for i, row in enumerate(values):
        y = _TOP + i * cell
        parts.append(_text(_LEFT - 8, y + cell / 2 + 4, rows[i], "end"))
        for j, value in enumerate(row):
            x = _LEFT + j * cell
            parts.append(f'<rect x="{x}" y="{y}" width="{cell}" height="{cell}" fill="{_shade(value / largest)}"/>')
            if numbers:
                ink = _PAPER if abs(value) > 0.6 * largest else _INK
                parts.append(_text(x + cell / 2, y + cell / 2 + 4, f"{value:.2f}", "middle", ink))
    bottom = _TOP + cell * len(rows)
    parts += [_text(_LEFT + (j + 0.5) * cell, bottom + 18, name, "middle") for j, name in enumerate(columns)]
    parts.append(_bar(_LEFT + cell * len(columns) + 16, cell * len(rows), largest, bool((values < 0).any())))
    return _document(width, height, title, parts)


def _bar(x: float, height: float, largest: float, signed: bool) -> str:
    """Return a color bar from the largest value, at the top, to 0, or to its negative where there are such values."""
    steps, lowest = 32, -1.0 if signed else 0.0
    size = height / steps
    parts = [
        f'<rect x="{x}" y="{_TOP + k * size:.2f}" width="12" height="{size + 0.5:.2f}" '
        f'fill="{_shade(1 - (1 - lowest) * (k + 0.5) / steps)}"/>'
        for k in range(steps)
    ]
    parts.append(_text(x + 16, _TOP + 9, f"{largest:.2g}", "start"))
    parts.append(_text(x + 16, _TOP + height, f"{lowest * largest:.2g}", "start"))
    return "".join(parts)


def lines(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    title: str,
    x: str,
    y: str,
    *,
    log: bool = False,
) -> str:
    """Draw curves (x values, y values) by name; with `log`, the y axis is logarithmic, and values must be positive."""
    scale = np.log10 if log else np.asarray
    across = np.concatenate([np.asarray(xs, dtype=float) for xs, _ in series.values()])
    up = scale(np.concatenate([np.asarray(ys, dtype=float) for _, ys in series.values()]))
    left, right, low, high = across.min(), across.max(), up.min(), up.max()
    span_x, span_y = (right - left) or 1.0, (high - low) or 1.0
    inner_width, inner_height = _WIDTH - 2 * _MARGIN - 60, _HEIGHT - 2 * _MARGIN
    parts = [
        f'<path d="M{_MARGIN} {_MARGIN}V{_HEIGHT - _MARGIN}H{_MARGIN + inner_width}" stroke="{_INK}" fill="none"/>',
        _text(_MARGIN + inner_width / 2, _HEIGHT - 12, x, "middle"),
        _text(_MARGIN - 6, _MARGIN - 10, y, "start"),
        _text(_MARGIN, _HEIGHT - _MARGIN + 16, f"{left:g}", "middle"),
        _text(_MARGIN + inner_width, _HEIGHT - _MARGIN + 16, f"{right:g}", "middle"),
    ]
    for value, height in ((low, _HEIGHT - _MARGIN), (high, _MARGIN)):
        parts.append(_text(_MARGIN - 5, height + 4, f"{10**value if log else value:.2g}", "end"))
    for index, (name, (xs, ys)) in enumerate(series.items()):
        color = _COLORS[index % len(_COLORS)]
        points = " ".join(
            f"{_MARGIN + (a - left) / span_x * inner_width:.1f},"
            f"{_HEIGHT - _MARGIN - (b - low) / span_y * inner_height:.1f}"
            for a, b in zip(xs, scale(np.asarray(ys, dtype=float)), strict=True)
        )
        parts.append(f'<polyline points="{points}" stroke="{color}" stroke-width="2" fill="none"/>')
        parts.append(_text(_MARGIN + inner_width + 8, _MARGIN + 14 + 18 * index, name, "start", color))
    return _document(_WIDTH + 60, _HEIGHT, title, parts)


def _shade(value: float) -> str:
    """Return the color of a value from -1 to 1."""
    end, share = (_HIGH if value >= 0 else _LOW), min(1.0, abs(value))
    return "#" + "".join(f"{round(m + (e - m) * share):02x}" for m, e in zip(_MIDDLE, end, strict=True))


def _text(x: float, y: float, text: str, anchor: str, fill: str = _INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'


def _document(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="sans-serif" font-size="12"><title>{escape(title)}</title>'
        f'<rect width="100%" height="100%" fill="{_PAPER}"/>{_text(10, 20, title, "start")}\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )
