"""`headwise explain --recurrence`: recurrent networks beside attention, on one sentence of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headwise.cli.boxes import write_json

if TYPE_CHECKING:
    from headwise.analysis.interventions import Intervention
    from headwise.analysis.tracer import Tracer


def show(
    tracer: Tracer,
    text: str,
    radius: float | None,
    interventions: Sequence[Intervention],
    out: Path | None,
) -> None:
    """Print the comparison and its times, or write them to a .json file; the default radius is the library's."""
    from headwise.analysis.recurrence.comparing import STRETCHING, compare, comparison_lines
    from headwise.analysis.recurrence.timing import measure_times, time_lines

    found = compare(tracer, text, STRETCHING if radius is None else radius, interventions)
    times = measure_times(found.width)
    if out is not None:
        write_json(out, {**vars(found), "times": times})
        return
    typer.echo("\n".join([*comparison_lines(found), "", *time_lines(times)]))
