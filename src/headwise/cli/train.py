"""`headwise train`: train a model from text files or a configuration, or resume a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise import bounds
from headwise.cli.arguments import Languages, finite, named
from headwise.cli.main import INTERRUPTED
from headwise.config import Config
from headwise.config.languages import parse_languages
from headwise.config.presets import STUDENT, preset_changes, student_changes
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.tasks.recipes import Recipe


def command(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY.SUB=VALUE]...", help="Change keys of the configuration."),
    ] = None,
    configuration: Annotated[
        Path | None,
        typer.Option("-c", "--config", help="YAML, such as configs/multi30k-en-de.yaml."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--source", help="Text: plain, .gz; .tsv or .jsonl have both sides."),
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", help="The other language, line by line; repeatable.")
    ] = None,
    dev_source: Annotated[
        str | None, typer.Option("--dev-source", help="Development text; else split off.")
    ] = None,
    dev_target: Annotated[str | None, typer.Option("--dev-target", help="Its other side.")] = None,
    languages: Languages = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="RUN",
            callback=named,
            help="A trained run to adapt, with its subwords.",
        ),
    ] = None,
    mix: Annotated[
        list[str] | None,
        typer.Option(
            "--mix",
            metavar="OLD=SHARE",
            help="Replay text of a run or of SOURCE,TARGET.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The run directory.")] = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", help="tiny, base, big, student, or a row of Table 3."),
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option("--max-steps", metavar="N", min=1, max=bounds.COUNT, help="Steps in all."),
    ] = None,
    max_minutes: Annotated[
        float | None,
        typer.Option(
            "--max-minutes", metavar="N", min=0.0, max=bounds.MINUTES, callback=finite, help="Time in all."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda, cuda:N or mps.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", min=0, max=bounds.SEED, help="Of everything random.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew in a run directory that has a run.")
    ] = False,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Print time, memory and energy; don't train."),
    ] = False,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", help="With --estimate: for a100, h100, h200, …."),
    ] = None,
    watts: Annotated[
        float | None,
        typer.Option(
            "--watts", metavar="W", min=0.0, max=1e9, callback=finite, help="With --estimate: power."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> int:
    """Train a translator.

    With --source and --target alone, all hyperparameters are chosen from the corpus and printed with their reasons; -c
    gives full control. In a run directory with a checkpoint, training resumes from there.

    Example: headwise train --source train.en --target train.de -o runs/de

    Example: headwise train -c configs/multi30k-en-de.yaml training.seed=2 -o runs/seed2

    Example: headwise train --from runs/de --source new.en --target new.de --mix runs/de=0.3 -o runs/de-new
    """
    options = {
        "initialize_from": None if start is None else str(start),
        "max_steps": max_steps,
        "max_minutes": max_minutes,
        "device": device,
        "seed": seed,
    }
    files: dict[str, Any] = {
        "source": source,
        "target": target,
        "dev_source": dev_source,
        "dev_target": dev_target,
    }
    if languages is not None:
        files["source_language"], files["target_language"] = parse_languages(languages)
    changes = _changes(None if preset == STUDENT else preset, overrides, options, files)
    run = out or (Path("runs") / configuration.stem if configuration else None)
    if run is None:
        raise ConfigError("-o: expected the run directory that training writes to, found none")
    if mix and source is None and configuration is None:
        raise ConfigError("--mix: expected new text beside it, by --source or -c, found none")
    if mix and source is not None:
        changes = ["data.weights=[]", "data.dev_files=0", *changes]  # a run that resumes has them already
    config, reasons = _configuration(
        configuration, source, changes, run, restart=restart, student=preset == STUDENT
    )
    if mix:
        config, more = _mixed(config, mix)
        reasons += more
    say(reasons)
    if estimate:
        return _estimate(config, run, gpu, watts, as_json=as_json)
    if gpu is not None or watts is not None:
        raise ConfigError("--gpu and --watts: expected --estimate beside them, found none")
    return _train(config, run, restart=restart, as_json=as_json)


def _train(config: Config, run: Path, *, restart: bool, as_json: bool) -> int:
    """Train, print the result and return the exit code; raises a `HeadwiseError` as `headwise.tasks.run.train` does."""
    from headwise.tasks.registry import find_task
    from headwise.tasks.run import train

    result = train(config, run, restart=restart)
    if not result.progress.finished:
        return INTERRUPTED
    say([f"done: {run}; {find_task(config.task).after.format(run=run)}"])
    if as_json:
        progress = result.progress
        record = {
            "run": str(run),
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


def _changes(
    preset: str | None, overrides: list[str] | None, training: dict[str, Any], data: dict[str, Any]
) -> list[str]:
    """Return overrides of the configuration: the preset's, then those given, then the options that aren't None."""
    options = {"training": training, "data": data}
    return [
        *(preset_changes(preset) if preset else []),
        *(overrides or []),
        *(
            f"{section}.{key}={json.dumps(value, ensure_ascii=False)}"
            for section, values in options.items()
            for key, value in values.items()
            if value is not None
        ),
    ]


def _configuration(
    file: Path | None,
    source: list[str] | None,
    changes: list[str],
    run: Path,
    *,
    restart: bool,
    student: bool,
) -> tuple[Config, list[str]]:
    """Return the configuration, from a file, the run that resumes or the recipe for the corpus, and its reasons.

    With `student`, its model gets a student's size, before the changes.
    """

    def changed(config: Config) -> Config:
        return config.with_overrides([*(student_changes(config.model) if student else []), *changes])

    run_config = run / "config.yaml"
    if file is not None:
        return changed(Config.load(file)) if student else Config.load(file, changes), []
    if run_config.exists() and (source is None or ((run / "latest").exists() and not restart)):
        return Config.load(run_config, changes), [f"{run}: going on with its own configuration"]
    if source is None and any(change.startswith("data.prepared=") for change in changes):
        return changed(Config()), ["data.prepared: the default configuration; --preset and keys change it"]
    if source is None:
        raise ConfigError("train: expected --source and --target, or -c FILE, found neither")
    recipe = _choose(changes)
    config = changed(recipe.config)
    if not student:
        return config, recipe.reasons
    size = (
        f"{config.model.encoder_layers}+{config.model.decoder_layers} layers of width {config.model.d_model}"
    )
    reason = f"model: {size}, as decoding spends most of its time in the decoder"
    return config, [reason, *(other for other in recipe.reasons if not other.startswith("model"))]


def _choose(changes: list[str]) -> Recipe:
    from headwise.tasks.recipes import adapt, choose, measure, with_subwords_of
    from headwise.tasks.start import begun_from

    given = ("data.", "training.", "subwords.copy_from=")
    config = Config().with_overrides([c for c in changes if c.startswith(given)])
    data, training = config.data, config.training
    timed = training.max_minutes is not None
    if training.initialize_from is None:
        recipe = choose(measure(data), data, seed=training.seed, timed=timed)
        copied = config.subwords.copy_from
        return recipe if copied is None else with_subwords_of(recipe, Path(copied))
    return adapt(measure(data), begun_from(training.initialize_from), data, training, timed=timed)


def _mixed(config: Config, options: list[str]) -> tuple[Config, list[str]]:
    """Add the text of `--mix` to the configuration; return it, and a line for each option."""
    from headwise.tasks.recipes import measure
    from headwise.text.reading.replay import read_replay, with_replay

    replays = [read_replay(option) for option in options]
    data = with_replay(config.data, replays, lambda files: measure(files).pairs)
    lines = [
        f"--mix: {replay.share:.0%} of the examples from {replay.origin}, against forgetting"
        for replay in replays
    ]
    return Config.from_tree({**config.model_dump(), "data": data.model_dump()}), lines


def say(lines: list[str]) -> None:
    """Print lines on standard error."""
    for line in lines:
        typer.echo(line, err=True)
