"""`headwise distill`: a small and fast student that learns from the translations of a run or an ensemble."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwise import bounds
from headwise.cli.arguments import (
    Alpha,
    AsJson,
    Beam,
    CorpusEngine,
    EnginePrecision,
    MoreRuns,
    TargetLanguage,
    finite,
    named,
)
from headwise.cli.training.train import as_changes, say, train_and_report
from headwise.config.presets import preset_changes


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
    dev_source: Annotated[
        str | None, typer.Option("--dev-source", help="Development text; split off where there is none.")
    ] = None,
    dev_target: Annotated[str | None, typer.Option("--dev-target")] = None,
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
    workers: Annotated[
        int,
        typer.Option(
            min=0,
            max=bounds.PROCESSES,
            help="Threads that search; 0: one per processor, or one per Ray worker.",
        ),
    ] = 0,
    max_steps: Annotated[
        int | None,
        typer.Option("--max-steps", min=1, max=bounds.COUNT, help="Stop after so many steps in all."),
    ] = None,
    max_minutes: Annotated[
        float | None,
        typer.Option(
            "--max-minutes",
            min=0.0,
            max=bounds.MINUTES,
            callback=finite,
            help="Stop after so many minutes of training in all; the translation doesn't count.",
        ),
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda, cuda:N or mps.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, max=bounds.SEED, help="Seed of everything random.")
    ] = None,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart", help="Begin training anew; translations are kept if they would be the same."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Train a small, fast student on the translations of a teacher, which is a run or an ensemble.

    First the teacher translates the text by beam search, on all processors, into OUT/distilled; then the student learns
    from that. The same command resumes either. --engine, --precision, --workers, --beam and --alpha are the teacher's.

    Example: headwise distill runs/de --with runs/de2 --source train.en -o runs/student

    Example: headwise distill runs/de --source train.en --preset tiny model.decoder_layers=1 -o runs/student
    """
    from headwise.tasks.corpus.runs import Runs
    from headwise.tasks.distillation.run import Distillation, prepare_student

    training = {"max_steps": max_steps, "max_minutes": max_minutes, "device": device, "seed": seed}
    files = {"source": source, "dev_source": dev_source, "dev_target": dev_target}
    search = {"beam": beam, "alpha": alpha}
    job = Distillation(
        Runs(
            [teacher, *(also or [])],
            {name: value for name, value in search.items() if value is not None},
            {
                "engine": engine,
                "precision": precision,
                "workers": workers,
                "device": device or "auto",
                "language": language,
            },
        ),
        [
            *(preset_changes(preset) if preset else []),
            *(overrides or []),
            *as_changes("training", training),
            *as_changes("data", files),
        ],
        target or [],
        interpolate=interpolate,
        tokenize=tokenize,
        new_vocabulary=new_vocabulary,
    )
    recipe = prepare_student(job, out, restart=restart, say=lambda line: say([line]))
    say(recipe.reasons)
    return train_and_report(recipe.config, out, restart=restart, as_json=as_json)
