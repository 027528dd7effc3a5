"""`headwise analyze`: measurements of what a trained model does."""

from __future__ import annotations

import typer

from headwise.cli import align, attribute, calibration, heads

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Measure heads, alignments, attributions and calibration.",
    epilog="Example: headwise analyze heads demo --miniature",
)
for _command in (heads, align, attribute, calibration):
    app.command(_command.__name__.rpartition(".")[2])(_command.command)
