"""`headwise average`: checkpoint averaging."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise import bounds
from headwise.cli.arguments import named
from headwise.errors import CheckpointError


def command(
    run: Annotated[Path, typer.Argument(callback=named, help="A run directory with checkpoints.")],
    last: Annotated[
        int,
        typer.Option(min=1, max=bounds.CHECKPOINTS, help="How many checkpoints, counted from the last one."),
    ] = 5,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Write the model here.", show_default="RUN/model.safetensors"),
    ] = None,
) -> None:
    """Average the parameters of the last checkpoints (section 6.1 of the paper: 5 for base, 20 for big).

    Training does this at its end; use this command for another number of checkpoints, or for a run that was stopped.

    Example: headwise average runs/de --last 5
    """
    from headwise.config import Config
    from headwise.training.checkpoint import Checkpoints

    config, checkpoints = Config.load(run / "config.yaml"), Checkpoints(run)
    steps = checkpoints.to_average(last, config.training.checkpoint_every)
    if len(steps) < last:
        raise CheckpointError(f"{run}: expected at least {last} checkpoints to average, found {len(steps)}")
    file = out or run / "model.safetensors"
    checkpoints.write_average(steps, file, config.digest())
    typer.echo(f"averaged steps {', '.join(map(str, steps))} into {file}", err=True)
