"""`headwise analyze calibration`: calibration of token probabilities, for one or several runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from headwise import bounds
from headwise.cli.arguments import AsJson, Device, Imports, Limit, named, searchable
from headwise.errors import ConfigError


def command(
    runs: Annotated[list[Path], Argument(callback=named, help="Trained run directories, to compare.", metavar="RUN…")],
    source: Annotated[Path, Option(help="Source text, plain or .gz.")],
    reference: Annotated[Path, Option(help="Its reference translation, line by line.")],
    bins: Annotated[int, Option(min=1, max=bounds.BINS, help="Of equal width.")] = 10,
    beam: Annotated[
        int | None,
        Option(callback=searchable, help="Beam size of the free-running translation.", show_default="the run's"),
    ] = None,
    limit: Limit = None,
    out: Annotated[Path | None, Option("-o", "--out", help="Draw reliability diagrams as .png.")] = None,
    device: Device = "auto",
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Measure the calibration of token probabilities, with teacher forcing and free-running.

    Several runs, for instance with and without label smoothing, are compared in one table.

    Example: headwise analyze calibration runs/smooth runs/plain --source test.en --reference test.de -o calibration.png
    """
    from headwise.analysis.calibration import free_running, teacher_forced
    from headwise.config import Config
    from headwise.engine.translator import Translator
    from headwise.evaluation.calibration import Calibration
    from headwise.text.reading.lines import read_parallel

    if out is not None and out.suffix != ".png":
        raise ConfigError(f"{out}: expected a file that ends in .png")
    sources, references = (lines[:limit] for lines in read_parallel(source, reference))
    lines = [f"{'run':<28} smoothing  setting          ECE    bias  confidence  accuracy   tokens"]
    records: list[dict[str, Any]] = []
    diagrams: dict[str, dict[str, Calibration]] = {}
    for run in runs:
        translator = Translator.load(run, device=device)
        smoothing = Config.of_run(run).training.label_smoothing
        calibrations = {
            "teacher-forced": teacher_forced(translator, sources, references, bins),
            "free-running": free_running(translator, sources, references, bins, beam=beam),
        }
        diagrams[f"{run}, label smoothing {smoothing:g}"] = calibrations
        records.append(
            {"run": str(run), "label_smoothing": smoothing}
            | {name.replace("-", "_"): one.to_json() for name, one in calibrations.items()}
        )
        for name, one in calibrations.items():
            lines.append(
                f"{run!s:<28} {smoothing:9.2f}  {name:<14} {one.error:5.3f}  {one.bias:+.3f}       {one.confidence:.3f}"
                f"     {one.accuracy:.3f}  {one.n:7,d}"
            )
    if out is not None:
        from headwise.analysis.calibration import draw_reliability

        draw_reliability(diagrams, out)
    typer.echo(json.dumps({"runs": records}) if as_json else "\n".join(lines))
