"""`headwise data`: lists and gets corpora and models, and prepares large corpora."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from headwise.cli import prepare
from headwise.cli.arguments import AsJson, group

if TYPE_CHECKING:
    from headwise.corpora.acquire import Acquired
    from headwise.corpora.catalog import Corpus
    from headwise.corpora.download import Progress

app = group("List and get corpora and models; prepare large corpora.")


@app.command("list", epilog="Example: headwise data list")
def list_corpora(as_json: Annotated[bool, Option("--json", help="Print one JSON array.")] = False) -> None:
    """List the corpora and models that `headwise data get` knows, with their terms."""
    from headwise.corpora.catalog import CORPORA

    if as_json:
        typer.echo(json.dumps([_describe(corpus) for corpus in CORPORA.values()], indent=2))
        return
    width = max(map(len, CORPORA))
    for corpus in CORPORA.values():
        languages = f"{'-'.join(corpus.languages)}, " if corpus.languages else ""
        typer.echo(f"{corpus.name:<{width}}  {languages}{corpus.description}")
        typer.echo(f"{'':<{width}}  about {corpus.megabytes:,} MB; {corpus.license}")
        if corpus.homepage:
            typer.echo(f"{'':<{width}}  {corpus.homepage}")


@app.command("get", epilog="Example: headwise data get multi30k -o data/multi30k")
def get(
    name: Annotated[str, Argument(help="A corpus or model from `headwise data list`.")],
    out: Annotated[
        Path | None,
        Option("-o", "--out", help="Folder for the files.", show_default="data/NAME, models/NAME"),
    ] = None,
    source: Annotated[
        Path | None,
        Option("--from", help="Take the files, plain or .gz, from this folder instead of the network."),
    ] = None,
    only: Annotated[
        list[str] | None,
        Option("--only", help="Only files that match this pattern, such as '*.en'; may be repeated."),
    ] = None,
    force: Annotated[bool, Option("--force", help="Fetch again and replace what is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Get a corpus as plain text, or a model: public ones from the network, verified by checksum; others are made here.

    An interrupted download resumes where it stopped when the command is run again. Files that are already
    there are verified, not fetched again.
    """
    from headwise.corpora.acquire import get_corpus
    from headwise.corpora.catalog import find_corpus

    _prefix_warnings()
    corpus = find_corpus(name)
    directory = out if out is not None else corpus.folder
    with _progress() as progress:
        files = get_corpus(corpus, directory, source=source, only=only or (), force=force, progress=progress)
    if as_json:
        result = {
            "corpus": corpus.name,
            "directory": str(directory),
            "license": corpus.license,
            "files": [file.to_json() for file in files],
        }
        typer.echo(json.dumps(result, indent=2))
    else:
        _report(corpus, directory, files)


app.command("prepare", epilog=prepare.EXAMPLE)(prepare.command)


def _describe(corpus: Corpus) -> dict[str, object]:
    return {
        "name": corpus.name,
        "languages": list(corpus.languages),
        "description": corpus.description,
        "megabytes": corpus.megabytes,
        "license": corpus.license,
        "homepage": corpus.homepage,
        "model": corpus.model,
        "files": [asdict(file) for file in corpus.files],
    }


def _report(corpus: Corpus, directory: Path, files: list[Acquired]) -> None:
    for file in files:
        verified = file.known or file.status == "present"
        outcome = ", checksum verified" if verified else ", checksum recorded, nothing to verify it against"
        made = file.status == "written"
        typer.echo(f"{file.path}  {file.bytes:,} bytes, {file.status}{'' if made else outcome}")
    typer.echo(f"Terms of use: {corpus.license}" + (f" ({corpus.homepage})" if corpus.homepage else ""))
    names = {file.name for file in files}
    if corpus.pair is not None and names.issuperset(corpus.pair):
        source, target = (directory / side for side in corpus.pair)
        typer.echo(f"To train on it: headwise train --source {source} --target {target} -o runs/{corpus.name}")
    if corpus.model:
        typer.echo(f"To translate with it: headwise translate {directory}")


def _prefix_warnings() -> None:
    """Format logged warnings (a download is being resumed) like the program's other messages."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(logging.Formatter("headwise: warning: %(message)s"))


@contextmanager
def _progress() -> Iterator[Progress]:
    """Yield a progress callback that writes to stderr: a bar per file on a terminal, otherwise one line per file."""
    if not sys.stderr.isatty():
        started: set[str] = set()

        def announce(name: str, done: int, total: int | None) -> None:
            if name not in started:
                started.add(name)
                typer.echo(f"getting {name}" + (f" ({total:,} bytes)" if total else ""), err=True)

        yield announce
        return
    from rich import progress
    from rich.console import Console

    size_and_time = (
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), *size_and_time)
    with progress.Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, progress.TaskID] = {}

        def advance(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done, total=total)

        yield advance
