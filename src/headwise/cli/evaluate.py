"""`headwise evaluate`: scores of a run on a test set with their signatures, and significance tests of two runs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from headwise import bounds
from headwise.cli.arguments import (
    Alpha,
    AsJson,
    Beam,
    Device,
    Engine,
    EnginePrecision,
    Imports,
    MoreRuns,
    SearchSettings,
    TargetLanguage,
    TrainedRun,
    named,
    refuse_without,
    search_settings,
)
from headwise.cli.streams import say, warn
from headwise.config import Config
from headwise.errors import ConfigError, DataError
from headwise.files import check_output

if TYPE_CHECKING:
    from headwise.engine.outputs import Output
    from headwise.engine.translator import Translator

UseShortlist = Annotated[bool, Option("--shortlist", help="Let RUN, not RUN2, search with its shortlist.")]
Changes = Annotated[
    list[str] | None, Option("--set", metavar="KEY=VALUE", help="Of other tasks: change how they are scored.")
]
Out = Annotated[Path | None, Option("-o", "--out", help="Write the translations (or outputs) here, too.")]
_CHUNK = 1024  # pairs scored together
_OF_TRAINING = ("task", "imports", "data", "subwords", "optimizer", "schedule", "training", "decoding")
# The JSON record, lines, notes, and the model's outputs.
Result = tuple[dict[str, Any], list[str], list[str], list[str]]


def command(
    run: TrainedRun,
    files: Annotated[
        list[Path] | None, Argument(callback=named, help="More translation runs; other tasks: test files.")
    ] = None,
    source: Annotated[list[Path] | None, Option(help="Source text, plain or .gz; repeatable.")] = None,
    reference: Annotated[list[Path] | None, Option(help="Its reference translation, line by line.")] = None,
    per_line: Annotated[bool, Option("--per-line", help="Score the reference itself, line by line.")] = False,
    also: MoreRuns = None,
    compare: Annotated[
        Path | None, Option(metavar="RUN2", callback=named, help="Test whether this run differs from it.")
    ] = None,
    metric: Annotated[str | None, Option(help="Of the comparison: bleu, or chrf.")] = None,
    test: Annotated[str | None, Option(help="Of the comparison: bootstrap, or randomization.")] = None,
    samples: Annotated[int | None, Option(min=1, max=bounds.RESAMPLES, help="Resamples.")] = None,
    beam: Beam = None,
    alpha: Alpha = None,
    settings: SearchSettings = None,
    shortlist: UseShortlist = False,
    language: TargetLanguage = None,
    tokenize: Annotated[str | None, Option(help="sacreBLEU's: 13a unless given, zh, char, …")] = None,
    lowercase: Annotated[bool, Option("--lowercase", help="Lower-case for tokenized_bleu only.")] = False,
    changes: Changes = None,
    out: Out = None,
    device: Device = "auto",
    imports: Imports = None,
    engine: Engine = "auto",
    precision: EnginePrecision = None,
    as_json: AsJson = False,
    jsonl: Annotated[bool, Option("--jsonl", help="With --per-line: a JSON object a line.")] = False,
) -> None:
    """Score a run: translations by sacreBLEU, chrF2, tokenized BLEU and perplexity; other tasks by their metrics.

    With --per-line nothing is translated: each line has the log-probability of the reference, a tab, and those of its
    subwords and end symbol, by forced decoding. --jsonl adds the subwords, and the score with the length penalty.

    Example: headwise evaluate runs/de --source test.en --reference test.de

    Example: headwise evaluate runs/shakespeare test.txt
    """
    config = Config.of_run(run)
    if out == Path("-") and as_json and not per_line:
        raise ConfigError("-o -: expected a file, as --json writes scores to standard output")
    if out is not None:
        check_output(out, *(files or []), *(source or []), *(reference or []))
    search = search_settings(settings, beam=beam, alpha=alpha)
    translation_options: dict[str, Any] = {
        "source": source,
        "reference": reference,
        "with": also,
        "compare": compare,
        "metric": metric,
        "test": test,
        "samples": samples,
        "s": settings,
        "beam": beam,
        "alpha": alpha,
        "shortlist": shortlist,
        "language": language,
        "tokenize": tokenize,
        "lowercase": lowercase,
        "per-line": per_line,
        "jsonl": jsonl,
        "engine": None if engine == "auto" else engine,
    }
    selected = {name: value for name, value in translation_options.items() if value is not None and value is not False}
    if config.task != "translation":
        _refuse(selected, run, config.task)
        _check_changes(changes or [], config.task)
        config = config.with_overrides(changes or [])
        result = _other_task(run, config, files or [], out, device, precision)
    else:
        runs = [run, *(other for other in files or [] if other.is_dir())]
        for other in [*(file for file in files or [] if not file.is_dir()), *(changes or [])]:
            raise ConfigError(f"evaluate: expected --source and --reference for a translation run, found {other}")
        opened = {"device": device, "precision": precision, "engine": engine, "also": also or []}
        if per_line:
            _per_line(runs, selected, out, search, opened, as_json=as_json)
            return
        refuse_without("--per-line", {"--jsonl": jsonl})
        if compare is None:
            refuse_without("--compare", {f"--{name}": name in selected for name in ("metric", "test", "samples")})
        result = _translation(runs, selected, out, opened, search)
    _show(result, out, as_json=as_json)


def _refuse(selected: Iterable[str], run: Path, task: str) -> None:
    """Raise `ConfigError` for options that only translations have."""
    for name in selected:
        raise ConfigError(
            f"evaluate: {_option(name)} is for translation, and {run} is of task {task}: "
            "expected files, or none for its development data"
        )


def _check_changes(changes: Iterable[str], task: str) -> None:
    """Raise `ConfigError` for keys that scores don't depend on."""
    for key in (change.partition("=")[0] for change in changes):
        if key.partition(".")[0] in _OF_TRAINING:
            raise ConfigError(f"--set {key}: expected a key of model, batch or {task}, found one of training alone")


def _other_task(
    run: Path, config: Config, files: list[Path], out: Path | None, device: str, precision: str | None
) -> Result:
    """Score a run of another task than translation."""
    from headwise.tasks.base import EvaluationRequest
    from headwise.tasks.registry import find_task

    task = find_task(config.task)
    task.check(config)
    if out is not None and not task.writes:
        raise ConfigError(f"-o: expected a run whose outputs are scored, found one of task {config.task}")
    found = task.evaluate(EvaluationRequest(run, config, files, device, precision or "float32"))
    return found.record, found.lines, found.notes, found.outputs


def _show(result: Result, out: Path | None, *, as_json: bool) -> None:
    """Print scores, and write the model's outputs."""
    record, lines, notes, outputs = result
    if out is not None:
        from headwise.cli.lines import line_writer

        with line_writer(out) as write:
            for output in outputs:
                write(output)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(json.dumps(record) if as_json else "\n".join(lines))


def _per_line(
    runs: list[Path],
    selected: dict[str, Any],
    out: Path | None,
    search: dict[str, Any],
    opened: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Write the log-probabilities of one test set's references; raises `ConfigError` for options without effect."""
    _both_sides(selected.get("source"), selected.get("reference"))
    used = {"source", "reference", "with", "alpha", "s", "language", "per-line", "jsonl", "engine"}
    unused = [
        *(_option(name) for name in selected if name not in used),
        *(f"-s {name}" for name in search if name != "alpha"),
        *(["--json"] if as_json else []),
        *map(str, runs[1:]),
        *(f"--{name} {selected[name][1]}" for name in ("source", "reference") if len(selected[name]) > 1),
    ]
    for one in unused:
        raise ConfigError(f"--per-line: expected one run, one test set and no search beside it, found {one}")
    from headwise.engine.translator import Translator

    default = opened["engine"] == "auto" and opened["precision"] is None
    translator = Translator.load(
        [runs[0], *opened["also"]],
        device=opened["device"],
        precision=opened["precision"] or "float32",
        engine="pytorch" if default else opened["engine"],
        language=selected.get("language"),
    )
    sides = selected["source"][0], selected["reference"][0]
    _score_lines(translator, sides, out, search.get("alpha"), jsonl="jsonl" in selected)


def _score_lines(
    translator: Translator, sides: tuple[Path, Path], out: Path | None, alpha: float | None, *, jsonl: bool
) -> None:
    """Write a line for each pair: the total, a tab, and the log-probabilities that add up to it; or a JSON object."""
    from headwise.api.remarks import UnknownWords
    from headwise.chunks import chunks, results
    from headwise.cli.lines import line_writer, watched
    from headwise.text.reading.lines import json_line

    unknown = UnknownWords(), UnknownWords()
    line = 0

    def score(part: Sequence[tuple[int, str, str]]) -> list[Output]:
        numbers, sources, targets = zip(*part, strict=True)
        return translator.score(sources, targets, alpha=alpha, first_line=numbers[0])

    pairs = watched(_pairs(*sides), sides[0], out, "scoring")
    with line_writer(out, *sides) as write:
        for part in chunks(pairs, itertools.repeat(_CHUNK)):
            for (line, *texts), output in zip(part, results(score, part), strict=True):
                new = translator.unknown["source"].of(texts[0]), translator.unknown["target"].of(texts[1])
                for side, words, text in zip(unknown, new, texts, strict=True):
                    side.add(line, words, len(text.split()))
                if jsonl:
                    record = {
                        "line": line,
                        "log_probability": output.log_probability,
                        "score": output.score,
                        "pieces": output.pieces,
                        "token_log_probabilities": output.token_log_probabilities,
                        "unknown": new[0],
                        "unknown_target": new[1],
                    }
                    write(json_line(record))
                else:
                    each = " ".join(f"{value:.6f}" for value in output.token_log_probabilities)
                    write(f"{output.log_probability:.6f}\t{each}")
    for side, what in zip(unknown, ("source lines", "target lines"), strict=True):
        warn(side.lines(line, what))


def _pairs(source: Path, target: Path) -> Iterator[tuple[int, str, str]]:
    """Yield pairs of lines with their number; raises `DataError` if one file ends before the other."""
    from headwise.text.reading.lines import read_lines

    sides = itertools.zip_longest(read_lines(source), read_lines(target))
    for number, (left, right) in enumerate(sides, start=1):
        if left is None or right is None:
            shorter = source if left is None else target
            raise DataError(
                f"{shorter}: expected as many lines as in {target if left is None else source}, "
                f"found only {number - 1:,}"
            )
        yield number, left, right


def _option(name: str) -> str:
    return {"s": "-s", "language": "--target-language"}.get(name, f"--{name}")


def _both_sides(source: list[Path] | None, reference: list[Path] | None) -> None:
    for name, given in (("source", source), ("reference", reference)):
        if not given:
            raise ConfigError(f"evaluate: missing option '--{name}' (see headwise evaluate --help)")


def _translation(
    runs: list[Path],
    selected: dict[str, Any],
    out: Path | None,
    opened: dict[str, Any],
    search: dict[str, Any],
) -> Result:
    """Score translation runs on test sets; `opened` says how they are opened."""
    for other in runs[1:]:
        Config.of_run(other, "translation")
    _both_sides(selected.get("source"), selected.get("reference"))
    from headwise.api.evaluating import ScoringSettings, full_table, read_test_sets, score_runs, table

    test_sets = read_test_sets(selected["source"], selected["reference"])
    several = len(runs) > 1 or len(test_sets) > 1
    if several and out is not None:
        raise ConfigError(
            f"-o: expected one run and one test set, found {len(runs)} and {len(test_sets)}: "
            "translations of several don't go into one file"
        )
    names = ("compare", "metric", "test", "samples", "shortlist", "language", "tokenize", "lowercase")
    settings = {name: selected[name] for name in names if name in selected}
    results = score_runs(runs, test_sets, ScoringSettings(**opened, **settings), search, say)
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
