"""A translation as HTML, as a notebook shows it: its words, with lines between those that are aligned."""

from __future__ import annotations

import html
from collections.abc import Sequence

_WORD, _LETTER, _HEIGHT = 14, 9, 96  # pixels: between words, of a letter, of the picture


def drawn(source: str, target: str, links: Sequence[tuple[int, int]] | None) -> str:
    """Return the source and its translation; with `links` of words, from 0, as a picture."""
    if not links:
        return f"<p>{html.escape(source)}<br><strong>{html.escape(target)}</strong></p>"
    rows, width = [], 0.0
    centers: list[list[float]] = []
    for y, text, weight in ((16, source, "normal"), (_HEIGHT - 8, target, "bold")):
        x, middles = 0.0, []
        for word in text.split():
            size = len(word) * _LETTER
            middles.append(x + size / 2)
            rows.append(
                f'<text x="{middles[-1]:.0f}" y="{y}" text-anchor="middle" font-weight="{weight}">'
                f"{html.escape(word)}</text>"
            )
            x += size + _WORD
        centers.append(middles)
        width = max(width, x)
    for left, right in links:
        if left < len(centers[0]) and right < len(centers[1]):
            rows.append(
                f'<line x1="{centers[0][left]:.0f}" y1="24" x2="{centers[1][right]:.0f}" y2="{_HEIGHT - 28}" '
                'stroke="currentColor" stroke-opacity="0.5"/>'
            )
    return (
        f'<svg width="{width:.0f}" height="{_HEIGHT}" font-family="sans-serif" font-size="15" fill="currentColor">'
        f"{''.join(rows)}</svg>"
    )
