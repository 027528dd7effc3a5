"""`headwise average`: the mean of a run's last checkpoints as its model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.errors import CheckpointError


def command(
    run: Annotated[Path, typer.Argument(help="A run directory with checkpoints.")],
    last: Annotated[int, typer.Option(min=1, help="How many checkpoints, counted from the last one.")] = 5,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Write the model here.", show_default="RUN/model.safetensors"),
    ] = None,
) -> None:
    """Average the parameters of the last checkpoints (section 6.1 of the paper: 5 for base, 20 for big).

    Training does this by itself when it ends; use this for another number, or for a run that was stopped.

    Example: headwise average runs/de --last 5
    """
    from safetensors.torch import save

    from headwise.files import write_bytes
    from headwise.training.checkpoint import Checkpoints, average

    checkpoints = Checkpoints(run)
    steps = checkpoints.steps()
    if len(steps) < last:
        raise CheckpointError(f"{run}: expected at least {last} checkpoints to average, found {len(steps)}")
    file = out or run / "model.safetensors"
    write_bytes(file, save(average([checkpoints.path(step) for step in steps[-last:]])))
    typer.echo(f"averaged steps {', '.join(str(step) for step in steps[-last:])} into {file}", err=True)
