"""Arguments and options that several subcommands share, defined once so that they mean the same everywhere."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from headwise import bounds
from headwise.shipped.runs import find_run


def named(value: Any) -> Any:
    """Put the directory of a shipped run in the place of its name, in a path, a list of paths or None."""
    if isinstance(value, list):
        return [find_run(path) for path in value]
    return None if value is None else find_run(value)


TrainedRun = Annotated[
    Path, typer.Argument(callback=named, help="A trained run directory, or demo: the model in the package.")
]
MoreRuns = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="RUN",
        callback=named,
        help="Another run for an ensemble, with the same subwords; may be repeated.",
    ),
]
Languages = Annotated[
    str | None,
    typer.Option(
        help="Codes of source and target language, such as en-de.", show_default="what the files tell"
    ),
]
OutputFile = Annotated[Path | None, typer.Option("-o", "--out", help="Write here, not to standard output.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")]
Engine = Annotated[str, typer.Option(help="native, pytorch, or auto for the faster of the two.")]
CorpusEngine = Annotated[
    str,
    typer.Option(help="native, pytorch, auto for the faster of the two, or ray for a cluster."),
]
TargetLanguage = Annotated[
    str | None,
    typer.Option(
        "--target-language",
        help="Translate to this language: a code of an imported vocabulary, such as deu for >>deu<<.",
        show_default="the run's, if it has codes",
    ),
]
# For models that only PyTorch computes.
Precision = Annotated[str, typer.Option(help="float32, bfloat16, or auto for what is fastest.")]
# For models that the native engine computes, too; a run may be stored in its own precision.
EnginePrecision = Annotated[
    str | None,
    typer.Option(
        help="float32, bfloat16, int8, or auto for what is fastest.",
        show_default="what the run is stored in",
    ),
]


def finite(value: float | None) -> float | None:
    """Refuse nan, which passes every check of bounds."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("expected a number, found nan")
    return value


def searchable(option: typer.CallbackParam, value: float | None) -> float | None:
    """Check the range of a search option before anything is loaded; raises `ConfigError`."""
    from headwise.decoding.options import check_option

    if option.name is not None:
        check_option(option.name, value)
    return value


def drawable(option: typer.CallbackParam, value: float) -> float:
    """Check the range of an option of text generation before anything is loaded; raises `ConfigError`."""
    from headwise.decoding.generation import GenerationOptions

    if option.name is not None:
        GenerationOptions(**{option.name: value})  # type: ignore[arg-type]
    return value


Beam = Annotated[int | None, typer.Option(callback=searchable, help="Beam size.", show_default="the run's")]
Alpha = Annotated[
    float | None,
    typer.Option(
        callback=searchable,
        help="Exponent of the length penalty.",
        show_default="the run's",
    ),
]

# Options of the commands that train. Each has a key of the configuration with the same meaning.
DevSource = Annotated[
    str | None, typer.Option("--dev-source", help="Development text; split off where there is none.")
]
DevTarget = Annotated[str | None, typer.Option("--dev-target")]
MaxSteps = Annotated[
    int | None,
    typer.Option("--max-steps", min=1, max=bounds.COUNT, help="Stop after so many steps in all."),
]
MaxMinutes = Annotated[
    float | None,
    typer.Option(
        "--max-minutes",
        min=0.0,
        max=bounds.MINUTES,
        callback=finite,
        help="Stop after so many minutes of training in all.",
    ),
]
TrainingDevice = Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda, cuda:N or mps.")]
TrainingSeed = Annotated[
    int | None, typer.Option("--seed", min=0, max=bounds.SEED, help="Seed of everything random.")
]

# Options of the commands that translate a corpus, also as the first step of training.
Workers = Annotated[
    int,
    typer.Option(
        min=0,
        max=bounds.PROCESSES,
        help="Threads that search; 0: one per processor, or one per Ray worker.",
    ),
]
Anew = Annotated[
    bool,
    typer.Option("--restart", help="Begin training anew; translations are kept if they would be the same."),
]
