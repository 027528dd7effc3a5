"""`headwise reproduce`: reproduction of the paper's tables, figures and claims, and the report of the findings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from headwise import bounds
from headwise.cli.arguments import finite, refuse_beside, refuse_without
from headwise.errors import ConfigError
from headwise.extras import installed, not_installed

if TYPE_CHECKING:
    from headwise.experiments.harness.outcome import Table
    from headwise.experiments.harness.rows import Place
    from headwise.experiments.harness.runner import RowJob
    from headwise.experiments.scales import Scale


Name = Annotated[
    str, Argument(help="table1, …, table4, parameters, complexity, sqrt-dk, …, wmt14, all, report, or list.")
]
Seeds = Annotated[str | None, Option(help="Seeds, such as 1,2,3.", show_default="the experiment's")]
Threads = Annotated[int | None, Option(min=1, max=bounds.PROCESSES, help="training.threads of every row.")]
Show = Annotated[
    bool, Option("--show", help="Print the paper's own table, and recorded results beside it; run nothing.")
]
TableAsJson = Annotated[bool, Option("--json", help="With --show: the paper's table as one JSON object.")]
Price = Annotated[
    float | None,
    Option(min=0.0, max=1e9, callback=finite, help="With --dry-run: what a GPU costs an hour, in any currency."),
]

_OUT = Path("runs/reproduce")


def command(
    name: Name,
    scale: Annotated[
        str | None,
        Option(
            help="tiny (minutes), multi30k (hours), open-en-de (a day) or wmt14 (the paper's own).",
            show_default="tiny; wmt14 for wmt14",
        ),
    ] = None,
    out: Annotated[Path, Option(help="Folder for runs and figures.")] = _OUT,
    results: Annotated[Path, Option(help="Folder of the recorded results.")] = Path("results"),
    rows: Annotated[
        list[str] | None, Option(help="Only rows of this name or pattern, such as 'table3-a-*'; repeatable.")
    ] = None,
    seeds: Seeds = None,
    device: Annotated[str | None, Option(help="training.device of every row.", show_default="auto")] = None,
    threads: Threads = None,
    processes: Annotated[
        int | None,
        Option(
            min=1,
            max=bounds.PROCESSES,
            help="Train under torchrun in so many processes.",
            show_default="one per GPU",
        ),
    ] = None,
    show: Show = False,
    as_json: TableAsJson = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print each row's command and what it would cost here; run nothing.")
    ] = False,
    gpu: Annotated[
        str | None, Option("--gpu", help="With --dry-run: not here but on GPUs of a kind: a100, h100, ….")
    ] = None,
    price: Price = None,
) -> None:
    """Run an experiment's rows that aren't recorded yet, then print its tables and findings.

    Every trained row is one `headwise train` command, which is printed; it resumes where it was stopped, and a
    finished row is never run again. `all` continues what decides the claims, a row on each core. `wmt14` is the
    paper's base model on its own text. `report` writes the documents from the recorded results. --show prints table1
    to table4, or parameters (of base and big), as arXiv:1706.03762v7 has them.

    Example: headwise reproduce table2 --show

    Example: headwise reproduce table3 --scale multi30k --rows 'table3-a-*' --seeds 1,2

    Example: headwise reproduce wmt14 --dry-run --price 2.5
    """
    if not installed("torch"):  # else the first package that is missed would be asked for alone
        raise not_installed("reproduce", "torch")
    if not dry_run:
        refuse_without("--dry-run", {"--gpu": gpu, "--price": price})
    of_all = {"--seeds": seeds, "--threads": threads}
    of_rows = {
        **of_all,
        "--rows": rows or None,
        "--device": device,
        "--processes": processes,
        "--dry-run": dry_run,
        "--out": out != _OUT,
    }
    if show:
        refuse_beside("--show", of_rows)
        from headwise.experiments.scales import find_scale

        _show(name, find_scale(scale or "tiny"), results, as_json=as_json)
        return
    refuse_without("--show", {"--json": as_json})
    if name in {"list", "report"}:
        refuse_beside(name, {**of_rows, "--scale": scale})
    if name == "list":
        _list()
        return
    if name == "report":
        if not results.is_dir():
            raise ConfigError(f"--results: expected the folder of the recorded results, found none at {results}")
        from headwise.experiments.harness.report import write_report

        for file in write_report(results, Path("docs")):
            typer.echo(str(file))
        return
    from headwise.experiments.harness.rows import Machine, Place
    from headwise.experiments.harness.runner import collect, find_experiment, plan, run
    from headwise.experiments.harness.texts import prepare_text
    from headwise.experiments.scales import find_scale

    experiment = None if name == "all" else find_experiment(name)
    only = "" if experiment is None else experiment.scale
    chosen = find_scale(scale or only or "tiny")
    if only not in ("", chosen.name):
        raise ConfigError(f"--scale: expected {only} or none for {name}, found {chosen.name}")
    place = Place(chosen, out, results, Machine(device, threads, processes or _gpus()))
    if experiment is None:
        refuse_beside(name, of_all)  # its rows have the scale's seeds, and one thread each
        _all(place, rows or (), dry_run, gpu, price)
        return
    if not experiment.rows(experiment.at(chosen, results)):
        tried, how = "", ""
        trials = plan(find_experiment("trials"), chosen, results=results)
        if experiment.tune is not None and name != "trials" and any(job.record(results) is None for job in trials):
            tried = " whose trials are recorded"
            how = f"; `headwise reproduce all --scale {chosen.name}` runs the trials first"
        raise ConfigError(f"{name}: expected rows{tried} at the scale {chosen.name}, found none{how}")
    jobs = plan(experiment, chosen, results=results, rows=rows or (), seeds=_seeds(seeds))
    if dry_run:
        _estimate(jobs, place, gpu, price)
        return
    prepare_text([job.row for job in jobs if job.record(results) is None], chosen, _say)
    run(jobs, place, _say)
    finding = experiment.find(collect(experiment, chosen, results, _seeds(seeds)))
    for table in finding.tables:
        typer.echo(f"\n{table.text()}")
    for chart in finding.charts:
        typer.echo(f"\nfigure: {chart.save(out / 'figures')}")
    for claim in finding.claims:
        typer.echo(f"\n{claim.sentence()}")


def _show(name: str, scale: Scale, results: Path, *, as_json: bool) -> None:
    """Print a table as the paper (arXiv:1706.03762v7) has it, and Headwise's results where there are some."""
    from headwise.experiments.paper import TABLES

    if name not in TABLES:
        raise ConfigError(f"--show: expected one of {', '.join(TABLES)}, found {name!r}")
    table = TABLES[name]()
    if as_json:
        import json

        typer.echo(json.dumps({"title": table.title, "columns": table.columns, "rows": table.rows, "note": table.note}))
        return
    recorded = _recorded(name, scale, results)
    for one in (table, *recorded):
        typer.echo(one.text() if one is table else f"\n{one.text()}")


def _recorded(name: str, scale: Scale, results: Path) -> list[Table]:
    """Return the first of Headwise's own tables for the same question; none without recorded results."""
    from headwise.experiments.harness.runner import NAMES, collect, find_experiment

    if name not in NAMES:
        return []
    experiment = find_experiment(name)
    found = collect(experiment, scale, results, ())
    return list(experiment.find(found).tables[:1]) if any(found.records.values()) else []


def _all(place: Place, rows: Sequence[str], dry_run: bool, gpu: str | None, price: float | None) -> None:
    """Run, or estimate, whatever isn't finished of the experiments to convergence and of the measurements."""
    from headwise.experiments.harness import runner
    from headwise.experiments.harness.texts import prepare_text
    from headwise.experiments.trials import BUDGETS
    from headwise.processes import processors

    if place.scale.name not in BUDGETS:
        raise ConfigError(f"all: expected a scale with a budget ({' or '.join(BUDGETS)}), found {place.scale.name}")
    if rows:
        known = [job.row for stage in runner.STAGES for _, job in runner.stage_jobs(place, stage)]
        if not any(runner.selected(row, rows) for row in known):
            found = " and ".join(map(repr, rows))
            raise ConfigError(f"--rows: expected the pattern of a row, such as {known[0].name}, found {found}")
    left = [job for stage in runner.STAGES for _, job in runner.unfinished(place, stage, rows)]
    if dry_run:
        once = {(job.row.name, job.seed): job for job in left}  # experiments have rows in common
        _estimate(list(once.values()), place, gpu, price)
        return
    prepare_text([job.row for job in left], place.scale, _say)
    runner.finish(place, processors(), _say, rows=rows)
    typer.echo("`headwise reproduce report` writes what was found")


def _list() -> None:
    from headwise.experiments.harness.runner import NAMES
    from headwise.experiments.scales import SCALES

    for name, (_, text) in NAMES.items():
        typer.echo(f"{name:<16} {text}")
    typer.echo("\nscales:")
    for scale in SCALES.values():
        typer.echo(f"{scale.name:<16} {scale.about}")


def _estimate(jobs: list[RowJob], place: Place, gpu: str | None, price: float | None) -> None:
    """Print the estimated cost of each row, and the commands of rows that aren't recorded yet, and of their text."""
    from headwise.experiments.harness.cost import estimates, table
    from headwise.experiments.harness.texts import shard_commands
    from headwise.tasks.estimate import find_gpu

    known = None if gpu is None else find_gpu(gpu)
    costs = estimates(jobs, place, _say, known)
    typer.echo(table(costs, gpu=known, processes=place.machine.processes, price=price).text())
    typer.echo("")
    left = [cost for cost in costs if not cost.recorded]
    for words in shard_commands([cost.job.row for cost in left], place.scale):
        typer.echo(shlex.join(words))
    for cost in left:
        typer.echo(cost.command)


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _gpus() -> int:
    import torch

    return max(1, torch.cuda.device_count())


def _seeds(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise ConfigError(f"--seeds: expected whole numbers such as 1,2,3, found {text!r}")
    seeds = tuple(int(part) for part in text.split(",") if len(part) <= len(str(bounds.SEED)))
    if len(seeds) <= text.count(",") or max(seeds) > bounds.SEED:
        raise ConfigError(f"--seeds: expected whole numbers of at most {bounds.SEED:,}, found {text!r}")
    return tuple(dict.fromkeys(seeds))  # a seed twice would be two records of one training
