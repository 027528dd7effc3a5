"""Durations as a clock shows them."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, `1:05`, or with hours, `2:01:05`."""
    minutes, seconds = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
