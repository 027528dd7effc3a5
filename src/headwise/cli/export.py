"""`headwise export`: a run's model in another toolkit's format, as a page without a server, or as another run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from headwise import bounds
from headwise.cli.arguments import Imports, TrainedRun, count, named
from headwise.cli.streams import say


def command(
    run: TrainedRun,
    to: Annotated[str, Option("--to", help="run, page, huggingface, ctranslate2, argos, onnx, marian.")],
    out: Annotated[Path, Option("-o", "--out", help="A new directory; for argos a new .argosmodel file.")],
    precision: Annotated[
        str | None, Option(help="Of the matrices: float32, float16, bfloat16 or int8, where --to has it.")
    ] = None,
    last: Annotated[
        int | None,
        count("--average", most=bounds.CHECKPOINTS, help="To run: average the last N checkpoints."),
    ] = None,
    others: Annotated[
        list[Path] | None,
        Option("--with", metavar="RUN", callback=named, help="To run: average with another run; repeatable."),
    ] = None,
    shortlist: Annotated[
        bool, Option("--shortlist", help="To run: learn a shortlist of target subwords, too.")
    ] = False,
    from_language: Annotated[
        str | None, Option(help="To argos, huggingface: code of the source language, such as en.")
    ] = None,
    to_language: Annotated[
        str | None, Option(help="To argos, huggingface: code of the target language, such as de.")
    ] = None,
    imports: Imports = None,
) -> None:
    """Write a run's model for another toolkit, as a web page that needs no server (page), or as another run (run).

    A model that the toolkit can't express is refused, with the keys of the configuration that it lacks. A run in int8
    has a quarter of the size and translates in int8; its translations may differ a little. --average is that of
    section 6.1 of the paper (5 checkpoints for base, 20 for big), which training does at its end; --with is for runs
    that were trained from one another, whose mean is often better than each (Wortsman et al. 2022). `translate
    --shortlist` restricts the search to the subwords that a source can need.

    Example: headwise export runs/de --to huggingface -o exported/de

    Example: headwise export runs/de --to run --precision int8 --shortlist -o runs/de-int8
    """
    from headwise.api.exporting import export

    languages = (from_language, to_language)
    notes = export(run, out, to, precision, last, languages, shortlist=shortlist, others=others or ())
    for note in notes:
        say(note)
