"""`headwise serve`: the page that shows what a model does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.errors import ConfigError


def command(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Run directories, trained or in training.")
    ],
    host: Annotated[str, typer.Option(help="0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    source: Annotated[
        Path | None,
        typer.Option(help="Sentences to measure the heads on.", show_default="the run's development data"),
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    alignments: Annotated[
        Path | None, typer.Option(help="Their gold word alignments (0-0 1-2), for the alignment error rate.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
) -> None:
    """Serve a page that shows what a model does: every head, the beam, each product, live.

    Example: headwise serve runs/de --port 8080
    """
    try:
        from headwise.serve.server import serve
    except ImportError as error:
        raise ConfigError(
            f"serve: needs the packages fastapi and uvicorn, found no {error.name}; run `pip install headwise[serve]`"
        ) from None
    from headwise.serve.evidence import Corpus
    from headwise.serve.runs import open_runs

    def say(address: str) -> None:
        typer.echo(f"Headwise is at {address}  (Ctrl-C ends it)")

    corpus = None
    if source is not None and target is not None:
        corpus = Corpus.read(source, target, alignments)
    elif source is not None or target is not None or alignments is not None:
        raise ConfigError("serve: expected --source and --target together, found one of them alone")
    serve(open_runs(runs, device), host, port, say, corpus)
