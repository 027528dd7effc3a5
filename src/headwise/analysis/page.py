"""A trace as one HTML file that needs no network and no other file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from headwise.analysis.trace import Trace
from headwise.files import write_text


def write_page(trace: Trace, file: Path) -> None:
    """Write the page; raises `TrainingError` where it can't be written."""
    write_text(file, page(trace))


def page(trace: Trace) -> str:
    """Return the page's HTML; the trace stands in it as JSON that can't end its element."""
    template = files("headwise.analysis").joinpath("explain.html").read_text(encoding="utf-8")
    data = trace.dumps().replace("<", "\\u003c")
    before, after = template.split("__TRACE__")
    return before + data + after
