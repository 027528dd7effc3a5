"""`headwise paper`: the paper's own tables, with Headwise's beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.experiments.harness.outcome import Table


def command(
    name: Annotated[str, typer.Argument(help="table1, table2, table3, table4 or parameters.")],
    scale: Annotated[
        str, typer.Option(help="Scale of Headwise's own results: tiny, multi30k or wmt14.")
    ] = "multi30k",
    results: Annotated[Path, typer.Option(help="Folder of the recorded results.")] = Path("results"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the paper's table as one JSON object.")
    ] = False,
) -> None:
    """Print a table of "Attention Is All You Need" as the paper has it, and Headwise's results where there are some.

    The paper's numbers are those of arXiv:1706.03762v7; notes say where the proceedings differ. `parameters` counts the
    parameters of base and big by part.

    Example: headwise paper table2

    Example: headwise paper table3 --scale tiny
    """
    from headwise.experiments.paper import TABLES

    if name not in TABLES:
        raise ConfigError(f"paper: expected one of {', '.join(TABLES)}, found {name!r}")
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
