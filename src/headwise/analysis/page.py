"""A trace as one self-contained HTML file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from headwise.analysis.trace import Trace
from headwise.files import write_text


def write_page(trace: Trace, file: Path) -> None:
    """Write the trace's HTML page; raises `TrainingError` if it can't be written."""
    write_text(file, page(trace))


def page(trace: Trace) -> str:
    """Return the trace's HTML page; the embedded JSON has `<` escaped, so that it can't end its script element."""
    template = files("headwise.analysis").joinpath("explain.html").read_text(encoding="utf-8")
    data = trace.dumps().replace("<", "\\u003c")
    before, after = template.split("__TRACE__")
    return before + data + after
