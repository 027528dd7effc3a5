"""`headwise reproduce --show`: the paper's own tables, with Headwise's beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.experiments.harness.outcome import Table


def show_table(name: str, scale: str, results: Path, *, as_json: bool) -> None:
    """Print a table of "Attention Is All You Need" as the paper has it, and Headwise's results where there are some.

    The paper's numbers are those of arXiv:1706.03762v7; notes say where the proceedings differ.
    """
    from headwise.experiments.paper import TABLES

    if name not in TABLES:
        raise ConfigError(f"--show: expected one of {', '.join(TABLES)}, found {name!r}")
    table = TABLES[name]()
    if as_json:
        import json

        typer.echo(
            json.dumps(
                {"title": table.title, "columns": table.columns, "rows": table.rows, "note": table.note}
            )
        )
        return
    typer.echo(table.text())
    for own in _own(name, scale, results):
        typer.echo(f"\n{own.text()}")


def _own(name: str, scale: str, results: Path) -> list[Table]:
    """Return the first of Headwise's own tables for the same question; none without recorded results."""
    from headwise.experiments.harness.runner import NAMES, collect, find_experiment
    from headwise.experiments.scales import find_scale

    chosen = find_scale(scale)
    if name not in NAMES:
        return []
    experiment = find_experiment(name)
    found = collect(experiment, chosen, results, ())
    return list(experiment.find(found).tables[:1]) if any(found.records.values()) else []
