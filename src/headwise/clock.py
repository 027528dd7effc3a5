"""Durations, as a clock shows them and in words."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, `1:05`, or with hours, `2:01:05`."""
    minutes, seconds = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def in_words(seconds: float) -> str:
    """Return a duration in the largest unit of which it has two: `24 seconds`, `3.2 hours`, `2.1 years`."""
    for unit, length in (("years", 365 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    whole = f"{seconds:,.0f}"
    return f"{whole} second" if whole == "1" else f"{whole} seconds"
