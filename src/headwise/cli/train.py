"""`headwise train`: train a model from text files or a configuration, or resume a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from headwise import bounds
from headwise.api.training import TrainingPlan, TrainingRequest
from headwise.cli.arguments import Imports, Languages, count, finite, named, refuse_without
from headwise.config import Config
from headwise.extras import installed, not_installed

Target = Annotated[list[str] | None, Option("--target", help="The other language, line by line; repeatable.")]
DevSource = Annotated[str | None, Option("--dev-source", help="Development text; else split off.")]
Mix = Annotated[
    list[str] | None, Option("--mix", metavar="OLD=SHARE", help="Replay text of a run or of SOURCE,TARGET.")
]
Preset = Annotated[str | None, Option("--preset", help="tiny, base, big, student, or a row of Table 3.")]
MaxMinutes = Annotated[
    float | None,
    Option("--max-minutes", metavar="N", min=0.0, max=bounds.MINUTES, callback=finite, help="Time in all."),
]
Seed = Annotated[int | None, count("--seed", least=0, most=bounds.SEED, help="Of everything random.")]
Restart = Annotated[bool, Option("--restart", help="Begin anew in a run directory that has a run.")]
Estimate = Annotated[bool, Option("--estimate", help="Print time, memory and energy; don't train.")]


def command(
    overrides: Annotated[
        list[str] | None, Argument(metavar="[KEY.SUB=VALUE]...", help="Change keys of the configuration.")
    ] = None,
    configuration: Annotated[
        Path | None, Option("-c", "--config", help="YAML, such as configs/multi30k-en-de.yaml.")
    ] = None,
    source: Annotated[
        list[str] | None, Option("--source", help="Text: plain, .gz; .tsv or .jsonl have both sides.")
    ] = None,
    target: Target = None,
    dev_source: DevSource = None,
    dev_target: Annotated[str | None, Option("--dev-target", help="Its other side.")] = None,
    languages: Languages = None,
    start: Annotated[
        str | None,
        Option("--from", metavar="RUN", callback=named, help="A trained run to adapt, with its subwords."),
    ] = None,
    mix: Mix = None,
    out: Annotated[Path | None, Option("-o", "--out", help="The run directory.")] = None,
    preset: Preset = None,
    max_steps: Annotated[int | None, count("--max-steps", help="Steps in all.")] = None,
    max_minutes: MaxMinutes = None,
    device: Annotated[str | None, Option("--device", help="auto, cpu, cuda, cuda:N or mps.")] = None,
    imports: Imports = None,
    seed: Seed = None,
    restart: Restart = False,
    no_checks: Annotated[bool, Option("--no-checks", help="Train whatever the texts look like.")] = False,
    estimate: Estimate = False,
    gpu: Annotated[str | None, Option("--gpu", help="With --estimate: for a100, h100, h200, ….")] = None,
    watts: Annotated[
        float | None,
        Option("--watts", metavar="W", min=0.0, max=1e9, callback=finite, help="With --estimate: power."),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object at the end.")] = False,
) -> int:
    """Train a translator.

    With --source and --target alone, all hyperparameters are chosen from the corpus and printed with their reasons; -c
    gives full control. In a run directory with a checkpoint, training resumes from there.

    Example: headwise train --source train.en --target train.de -o runs/de

    Example: headwise train -c configs/multi30k-en-de.yaml training.seed=2 -o runs/seed2

    Example: headwise train --from runs/de --source new.en --target new.de --mix runs/de=0.3 -o runs/de-new
    """
    if not installed("torch"):  # before a plan that couldn't be carried out
        raise not_installed("train", "torch")
    if not estimate:
        refuse_without("--estimate", {"--gpu": gpu, "--watts": watts})
    plan = TrainingRequest(
        changes=overrides or [],
        config=configuration,
        source=source,
        target=target,
        dev_source=dev_source,
        dev_target=dev_target,
        languages=languages,
        initialize_from=start,
        mix=mix or [],
        out=out,
        preset=preset,
        max_steps=max_steps,
        max_minutes=max_minutes,
        device=device,
        seed=seed,
        restart=restart,
        checks=not no_checks,
    ).plan()
    say(plan.reasons)
    if estimate:
        return _estimate(plan.config, plan.run, gpu, watts, as_json=as_json)
    return _train(plan, as_json=as_json)


def _train(plan: TrainingPlan, *, as_json: bool) -> int:
    """Train, print the result and return the exit code; raises as `TrainingPlan.train` does."""
    from headwise.tasks.registry import find_task

    result = plan.train()
    say([f"done: {plan.run}; {find_task(plan.config.task).after.format(run=plan.run)}"])
    if as_json and _is_first():
        progress = result.progress
        record = {
            "run": str(plan.run),
            "steps": progress.step,
            "target_tokens": progress.tokens,
            "seconds": round(progress.seconds, 1),
            "parameters": result.parameters,
            "ended": progress.finished,
            "dev": result.scores,
        }
        typer.echo(json.dumps(record))
    return 0


def _estimate(config: Config, run: Path, gpu: str | None, watts: float | None, *, as_json: bool) -> int:
    from headwise.tasks.estimate import estimate

    result = estimate(config, run, gpu=gpu, watts=watts)
    if as_json:
        typer.echo(json.dumps(result.record()))
    else:
        typer.echo("\n".join(result.lines()))
    return 0


def say(lines: list[str]) -> None:
    """Print lines on standard error, once for all processes that `torchrun` has started."""
    if _is_first():
        for line in lines:
            typer.echo(line, err=True)


def _is_first() -> bool:
    return os.environ.get("RANK", "0") == "0"
