"""`headwise back-translate`: training on real pairs and on monolingual text that another run translates back."""

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
    finite,
    named,
    searchable,
)
from headwise.cli.teacher import as_teacher
from headwise.cli.train import as_changes, say, train_and_report


def command(
    reverse: Annotated[
        Path,
        typer.Argument(metavar="REVERSE", callback=named, help="A trained run of the other direction."),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The run directory.")],
    source: Annotated[list[str], typer.Option("--source", help="Real training text; repeatable.")],
    target: Annotated[
        list[str], typer.Option("--target", help="Its translations, line by line; one for each --source.")
    ],
    monolingual: Annotated[
        list[str],
        typer.Option(
            "--monolingual", help="More text of the target language, a sentence per line; repeatable."
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY.SUB=VALUE]...", help="Change keys of the configuration."),
    ] = None,
    also: MoreRuns = None,
    share: Annotated[
        float | None,
        typer.Option(
            "--share",
            min=0.0,
            max=1.0,
            callback=finite,
            help="Share of the examples that are synthetic.",
            show_default="that of the pairs",
        ),
    ] = None,
    tag: Annotated[
        bool, typer.Option("--tag/--no-tag", help="Begin synthetic sources with the subword <bt>.")
    ] = True,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample the sources at random instead of beam search.")
    ] = False,
    temperature: Annotated[
        float, typer.Option(callback=searchable, help="With --sample: below 1 sharper, above 1 flatter.")
    ] = 1.0,
    top_k: Annotated[
        int, typer.Option(callback=searchable, help="With --sample: among the k likeliest only; 0: all.")
    ] = 0,
    beam: Beam = None,
    alpha: Alpha = None,
    dev_source: DevSource = None,
    dev_target: DevTarget = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="Model size: tiny, base, …", show_default="by the text")
    ] = None,
    language: TargetLanguage = None,
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
    """Train on real pairs and on monolingual text of the target language, which a run translates back.

    First REVERSE translates the monolingual text on all processors, into OUT/back-translated; then the run learns from
    the real and the synthetic pairs. The same command resumes either. --engine, --precision, --workers, --beam,
    --alpha and --sample are for the translation.

    Example: headwise back-translate runs/de-en --source train.en --target train.de --monolingual news.de -o runs/en-de

    Example: headwise back-translate runs/de-en … --sample --no-tag --share 0.5 -o runs/en-de
    """
    from headwise.tasks.back_translation import BackTranslation, prepare_mix

    training = {"max_steps": max_steps, "max_minutes": max_minutes, "device": device, "seed": seed}
    files = {"source": source, "target": target, "dev_source": dev_source, "dev_target": dev_target}
    search = {"beam": beam, "alpha": alpha}
    if sample or temperature != 1 or top_k:
        search |= {"sample": sample, "temperature": temperature, "top_k": top_k, "seed": seed}
    job = BackTranslation(
        as_teacher(
            reverse,
            also,
            search,
            device=device,
            engine=engine,
            precision=precision,
            workers=workers,
            language=language,
        ),
        as_changes(preset, overrides, training, files),
        monolingual,
        tagged=tag,
        share=share,
    )
    recipe = prepare_mix(job, out, restart=restart, say=lambda line: say([line]))
    say(recipe.reasons)
    return train_and_report(recipe.config, out, restart=restart, as_json=as_json)
