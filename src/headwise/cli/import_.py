"""`headwise import`: a run directory from another toolkit's model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from headwise.cli.arguments import Languages, TargetLanguage
from headwise.cli.streams import say


def command(
    source: Annotated[
        str,
        Argument(help="A model's directory or file, or hf:OWNER/NAME[@REVISION] on the Hugging Face Hub."),
    ],
    out: Annotated[Path, Option("-o", "--out", help="A new run directory.")],
    form: Annotated[
        str | None,
        Option("--format", help="The format of the source.", show_default="the first that recognizes it"),
    ] = None,
    languages: Languages = None,
    language: TargetLanguage = None,
) -> None:
    """Make a run directory of another toolkit's model.

    It translates, serves, explains, quantizes, evaluates and trains on like one of Headwise's own, and keeps its
    tokenizer. A model for several target languages translates to the one of --target-language.

    Example: headwise import opus-mt-en-de -o runs/opus-en-de
    """
    from headwise.api.importing import import_run

    notes = import_run(source, out, form, languages, language)
    for note in notes:
        say(note)
