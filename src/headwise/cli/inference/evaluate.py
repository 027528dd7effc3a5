"""`headwise evaluate`: scores of a run on a test set with their signatures, and significance tests of two runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise import bounds
from headwise.cli.arguments import Alpha, AsJson, Beam, Device, Engine, EnginePrecision, TrainedRun
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.decoding.translator import Translator
    from headwise.evaluation.translation import Perplexity, TranslationScores


def command(
    run: TrainedRun,
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Test files, not for translation; without, the run's development data."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Source text, plain or .gz.", show_default="needed for translation")
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="Its reference translation, line by line.", show_default="needed for translation"),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(metavar="RUN2", help="Another run: test whether the difference is significant."),
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
        "tokenize": tokenize,
        "lowercase": lowercase,
    }
    selected = {
        name: value for name, value in translation_options.items() if value is not None and value is not False
    }
    if config.task == "translation":
        for other in [*(files or []), *(changes or [])]:
            raise ConfigError(
                f"evaluate: expected --source and --reference for a translation run, found {other}"
            )
        for name in ("source", "reference"):
            if name not in selected:
                raise ConfigError(f"evaluate: missing option '--{name}' (see headwise evaluate --help)")
        record, lines, notes, outputs = _translation(
            run, device=device, precision=precision, engine=engine, **selected
        )
        inputs = [source, reference]
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
    run: Path,
    *,
    source: Path,
    reference: Path,
    compare: Path | None = None,
    metric: str = "bleu",
    test: str = "bootstrap",
    samples: int | None = None,
    tokenize: str = "13a",
    lowercase: bool = False,
    shortlist: bool = False,
    device: str,
    precision: str | None,
    engine: str,
    **search: Any,
) -> tuple[dict[str, Any], list[str], list[str], list[str]]:
    """Translate and score a test set; return the JSON record, the table's lines, notes, and the translations."""
    from headwise.cli.lines import read_lines
    from headwise.decoding.translator import Translator
    from headwise.evaluation.significance import compare as compare_systems
    from headwise.evaluation.translation import bleu_metric, check_lines, score_translations

    bleu_metric(tokenize, lowercase)  # raises for an unknown tokenizer before the translation, not after it
    sources, references = list(read_lines(source)), list(read_lines(reference))
    check_lines(sources, references)
    translator = Translator.load(run, device=device, precision=precision, engine=engine, shortlist=shortlist)
    typer.echo(f"headwise: {translator.engine}", err=True)
    hypotheses = [t.text for t in translator.translate(sources, **search)]
    scores = score_translations(
        hypotheses,
        references,
        tokenize=tokenize,
        lowercase=lowercase,
        perplexity=_perplexity(translator, sources, references),
    )
    record: dict[str, Any] = scores.to_json()
    lines = _table(scores)
    if compare is not None:
        other = Translator.load(compare, device=device, precision=precision, engine=engine)
        other_hypotheses = [t.text for t in other.translate(sources, **search)]
        comparison = compare_systems(
            other_hypotheses,
            hypotheses,
            references,
            metric=metric,
            test=test,
            samples=samples,
            tokenize=tokenize,
            lowercase=lowercase,
        )
        record["comparison"] = comparison.to_json()
        lines.append(comparison.sentence(str(compare), str(run)))
    return record, lines, list(scores.notes), hypotheses


def _perplexity(translator: Translator, sources: list[str], references: list[str]) -> Perplexity:
    from headwise.evaluation.translation import count_words, perplexity

    scored = translator.score(sources, references)
    total = sum(output.log_probability for output in scored)
    return perplexity(total, sum(len(output.pieces) for output in scored), count_words(references))


def _table(scores: TranslationScores) -> list[str]:
    metrics = [("BLEU", scores.bleu), ("chrF2", scores.chrf), ("tokenized BLEU", scores.tokenized_bleu)]
    lines = [f"{name:<15} {score.score:6.2f}  {score.signature}" for name, score in metrics]
    lines.append(f"{'exact':<15} {scores.exact:6.2f}  % of lines are the reference")
    if scores.perplexity is not None:
        lines.append(
            f"{'perplexity':<15} {scores.perplexity.subword:6.2f}  per subword, "
            f"{scores.perplexity.word:.2f} per word"
        )
    return lines
