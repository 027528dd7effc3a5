"""`headwise evaluate`: scores of a run on a test set with their signatures, and significance tests of two runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from headwise import bounds
from headwise.cli.arguments import (
    Alpha,
    AsJson,
    Beam,
    Device,
    Engine,
    EnginePrecision,
    TargetLanguage,
    TrainedRun,
    named,
)
from headwise.errors import ConfigError


def command(
    run: TrainedRun,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            callback=named,
            help="Test files, by default the run's development data; for translation, more runs to score.",
        ),
    ] = None,
    source: Annotated[
        list[Path] | None,
        typer.Option(
            help="Source text, plain or .gz; repeatable, for a table.", show_default="needed for translation"
        ),
    ] = None,
    reference: Annotated[
        list[Path] | None,
        typer.Option(help="Its reference translation, line by line.", show_default="needed for translation"),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN2", callback=named, help="Another run: test whether the difference is significant."
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Of the comparison: bleu or chrf.", show_default="bleu")
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            help="bootstrap (Koehn 2004) or randomization (Riezler & Maxwell 2005).", show_default="bootstrap"
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            min=1, max=bounds.RESAMPLES, help="Resamples of the comparison.", show_default="by test"
        ),
    ] = None,
    beam: Beam = None,
    alpha: Alpha = None,
    shortlist: Annotated[
        bool,
        typer.Option(
            "--shortlist",
            help="Let RUN, not RUN2, search as `headwise translate --shortlist` does.",
        ),
    ] = False,
    language: TargetLanguage = None,
    tokenize: Annotated[
        str | None,
        typer.Option(help="sacreBLEU's tokenizer: 13a, zh, ja-mecab, char, …", show_default="13a"),
    ] = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Lower-case for tokenized_bleu only.")
    ] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY.SUB=VALUE", help="Change the run's configuration; not for translation."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write the translations (or other outputs) here, too.")
    ] = None,
    device: Device = "auto",
    engine: Engine = "auto",
    precision: EnginePrecision = None,
    as_json: AsJson = False,
) -> None:
    """Score a run: translations with sacreBLEU, chrF2, tokenized BLEU and perplexity; other tasks with their metrics.

    Example: headwise evaluate runs/de --source test.en --reference test.de

    Example: headwise evaluate runs/de --source test.en --reference test.de --compare runs/de2 --json

    Example: headwise evaluate runs/de runs/de-new --source old.en --reference old.de --source new.en --reference new.de

    Example: headwise evaluate runs/shakespeare test.txt
    """
    from headwise.config import Config

    config = Config.of_run(run)
    translation_options: dict[str, Any] = {
        "source": source,
        "reference": reference,
        "compare": compare,
        "metric": metric,
        "test": test,
        "samples": samples,
        "beam": beam,
        "alpha": alpha,
        "shortlist": shortlist,
        "language": language,
        "tokenize": tokenize,
        "lowercase": lowercase,
    }
    selected = {
        name: value for name, value in translation_options.items() if value is not None and value is not False
    }
    if config.task == "translation":
        runs = [run, *(other for other in files or [] if other.is_dir())]
        for other in [*(file for file in files or [] if not file.is_dir()), *(changes or [])]:
            raise ConfigError(
                f"evaluate: expected --source and --reference for a translation run, found {other}"
            )
        for other in runs[1:]:
            Config.of_run(other, "translation")
        settings = {"device": device, "precision": precision, "engine": engine, **selected}
        source, reference = settings.pop("source", None), settings.pop("reference", None)
        record, lines, notes, outputs = _translation(runs, source, reference, out, settings)
        inputs = [*(source or []), *(reference or [])]
    else:
        if selected:
            raise ConfigError(
                f"evaluate: --{next(iter(selected))} is for translation, and {run} is a run of task {config.task}: "
                "expected files, or none for its development data"
            )
        from headwise.tasks.base import EvaluationRequest
        from headwise.tasks.registry import find_task

        task = find_task(config.task)
        config = config.with_overrides(changes or [])
        task.check(config)
        result = task.evaluate(EvaluationRequest(run, config, files or [], device, precision or "float32"))
        record, lines, notes, outputs = result.record, result.lines, result.notes, result.outputs
        inputs = files or []
    if out is not None:
        from headwise.cli.lines import line_writer

        with line_writer(out, *inputs) as write:
            for output in outputs:
                write(output)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(json.dumps(record) if as_json else "\n".join(lines))


def _translation(
    runs: list[Path],
    source: list[Path] | None,
    reference: list[Path] | None,
    out: Path | None,
    settings: dict[str, Any],
) -> tuple[dict[str, Any], list[str], list[str], list[str]]:
    """Score translation runs on test sets; return the JSON record, the printed lines, notes, and the translations."""
    for name, given in (("source", source), ("reference", reference)):
        if not given:
            raise ConfigError(f"evaluate: missing option '--{name}' (see headwise evaluate --help)")
    from headwise.cli.test_sets import Settings, full_table, read_test_sets, score_runs, table

    search = {name: settings.pop(name) for name in ("beam", "alpha") if name in settings}
    test_sets = read_test_sets(source or [], reference or [])
    several = len(runs) > 1 or len(test_sets) > 1
    if several and out is not None:
        raise ConfigError(
            f"-o: expected one run and one test set, found {len(runs)} and {len(test_sets)}: "
            "translations of several don't go into one file"
        )
    results = score_runs(runs, test_sets, Settings(**settings), search)
    notes = list(dict.fromkeys(note for result in results for note in result.scores.notes))
    if not several:
        return results[0].record(), full_table(results[0]), notes, results[0].hypotheses
    records = [
        {
            "run": str(r.run),
            "source": str(r.test_set.source),
            "reference": str(r.test_set.reference),
            **r.record(),
        }
        for r in results
    ]
    return {"results": records}, table(results), notes, []
