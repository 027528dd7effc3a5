"""`headwise distill`: a small and fast student that learns from the translations of a run or an ensemble."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.arguments import (
    Alpha,
    Anew,
    AsJson,
    Beam,
    CorpusEngine,
    DevSource,
    DevTarget,
    EnginePrecision,
    MaxMinutes,
    MaxSteps,
    MoreRuns,
    TargetLanguage,
    TrainingDevice,
    TrainingSeed,
    Workers,
    named,
)
from headwise.cli.teacher import as_teacher
from headwise.cli.train import as_changes, say, train_and_report


def command(
    teacher: Annotated[
        Path, typer.Argument(metavar="TEACHER", callback=named, help="A trained run directory.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The student's run directory.")],
    source: Annotated[
        list[str],
        typer.Option("--source", help="Text to translate: plain or .gz, a sentence per line; repeatable."),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY.SUB=VALUE]...", help="Change keys of the student's configuration."),
    ] = None,
    also: MoreRuns = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target", help="Real translations, line by line, to learn from, too; one for each --source."
        ),
    ] = None,
    interpolate: Annotated[
        bool,
        typer.Option(
            "--interpolate", help="Of the beam, take what is nearest to --target, and learn from that alone."
        ),
    ] = False,
    dev_source: DevSource = None,
    dev_target: DevTarget = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", help="Student's size: tiny, base, …", show_default="6+2 layers"),
    ] = None,
    new_vocabulary: Annotated[
        bool, typer.Option("--new-vocabulary", help="Learn subwords anew instead of using the teacher's.")
    ] = False,
    language: TargetLanguage = None,
    beam: Beam = None,
    alpha: Alpha = None,
    tokenize: Annotated[
        str, typer.Option(help="With --interpolate: sacreBLEU's tokenizer, such as zh, ja-mecab or char.")
    ] = "13a",
    engine: CorpusEngine = "auto",
    precision: EnginePrecision = None,
    workers: Workers = 0,
    max_steps: MaxSteps = None,
    max_minutes: MaxMinutes = None,
    device: TrainingDevice = None,
    seed: TrainingSeed = None,
    restart: Anew = False,
    as_json: AsJson = False,
) -> int:
    """Train a small, fast student on the translations of a teacher, which is a run or an ensemble.

    First the teacher translates the text by beam search, on all processors, into OUT/distilled; then the student learns
    from that. The same command resumes either. --engine, --precision, --workers, --beam and --alpha are the teacher's.

    Example: headwise distill runs/de --with runs/de2 --source train.en -o runs/student

    Example: headwise distill runs/de --source train.en --preset tiny model.decoder_layers=1 -o runs/student
    """
    from headwise.tasks.distillation.run import Distillation, prepare_student

    training = {"max_steps": max_steps, "max_minutes": max_minutes, "device": device, "seed": seed}
    files = {"source": source, "dev_source": dev_source, "dev_target": dev_target}
    search = {"beam": beam, "alpha": alpha}
    job = Distillation(
        as_teacher(
            teacher,
            also,
            search,
            device=device,
            engine=engine,
            precision=precision,
            workers=workers,
            language=language,
        ),
        as_changes(preset, overrides, training, files),
        target or [],
        interpolate=interpolate,
        tokenize=tokenize,
        new_vocabulary=new_vocabulary,
    )
    recipe = prepare_student(job, out, restart=restart, say=lambda line: say([line]))
    say(recipe.reasons)
    return train_and_report(recipe.config, out, restart=restart, as_json=as_json)
