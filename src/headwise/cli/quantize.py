"""`headwise quantize`: quantization of a run's model to 8 or 16 bits."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.arguments import TrainedRun
from headwise.errors import CheckpointError, ConfigError


def command(
    run: TrainedRun,
    out: Annotated[Path, typer.Option("-o", "--out", help="A new run directory.")],
    precision: Annotated[str, typer.Option(help="int8 or bfloat16.")] = "int8",
) -> None:
    """Store a run's model in 8 bits, a quarter of the size; the new run translates in 8 bits.

    Training resumes from the original only. The translations of the new run may differ a little:
    `headwise evaluate NEW --compare RUN …` measures by how much.

    Example: headwise quantize runs/de -o runs/de-int8
    """
    from headwise.decoding.shortlist import FILE as SHORTLIST
    from headwise.files import atomic_directory
    from headwise.models.weights import write_quantized
    from headwise.text.tokens.numbering import FILE as NUMBERING

    if precision not in ("int8", "bfloat16"):
        raise ConfigError(f"precision: expected int8 or bfloat16, found {precision!r}")
    if not (run / "config.yaml").is_file():
        raise CheckpointError(f"{run}: expected a run directory, found none")
    if out.exists():
        raise CheckpointError(f"{out}: expected a new directory's name, found something there")
    with atomic_directory(out) as folder:
        for pattern in ("config.yaml", "spm*.model", NUMBERING, SHORTLIST):
            for file in sorted(run.glob(pattern)):
                shutil.copy(file, folder / file.name)
        write_quantized(run / "model.safetensors", folder / "model.safetensors", precision)
    before, after = ((directory / "model.safetensors").stat().st_size / 1e6 for directory in (run, out))
    typer.echo(f"headwise: {out}: {after:.1f} MB in {precision}, from {before:.1f} MB", err=True)
