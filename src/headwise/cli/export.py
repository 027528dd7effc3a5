"""`headwise export`: a run's model in another toolkit's format, or as a page without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.arguments import TrainedRun

# Exporters of layers above `headwise.interop`.
_MORE_EXPORTERS = {"page": "headwise.serve.static_page"}


def command(
    run: TrainedRun,
    to: Annotated[
        str, typer.Option("--to", help="The format, such as huggingface, ctranslate2, onnx or page.")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="A new directory; for argos a new .argosmodel file.")
    ],
    precision: Annotated[
        str | None,
        typer.Option(help="Of the matrices: float32, float16 or int8, where the format has it."),
    ] = None,
    from_language: Annotated[
        str | None,
        typer.Option(
            help="Code of the source language, such as en.", show_default="the training files' extension"
        ),
    ] = None,
    to_language: Annotated[
        str | None,
        typer.Option(
            help="Code of the target language, such as de.", show_default="the training files' extension"
        ),
    ] = None,
) -> None:
    """Write a run's model for another toolkit, or as a web page that needs no server (page).

    A model that the toolkit can't express is refused, with the keys of the configuration that it lacks.

    Example: headwise export runs/de --to huggingface -o exported/de
    """
    from headwise.interop.formats import EXPORTERS, find_exporter
    from headwise.interop.runs import export_run

    exporter = find_exporter(to, EXPORTERS | _MORE_EXPORTERS)
    notes = export_run(run, exporter, to, out, precision, (from_language, to_language))
    for note in notes:
        typer.echo(f"headwise: {note}", err=True)
    typer.echo(f"headwise: {out}: {run} as {to}", err=True)
