"""Scores of translation runs on test sets: in full for one, as a table for several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headwise.engine.sentences import listed
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.evaluation.metrics import check_lines, find_metric
from headwise.evaluation.significance import check_test
from headwise.evaluation.significance import compare as compare_systems
from headwise.evaluation.translation import (
    Perplexity,
    TranslationScores,
    count_words,
    perplexity,
    score_translations,
)
from headwise.text.reading.lines import one_line, read_parallel

_COPIED = 0.5  # share of references that are their source, from which the two are probably one text


@dataclass(frozen=True)
class TestFiles:
    """A test set: two files, and their lines."""

    source: Path
    reference: Path
    sources: list[str]
    references: list[str]


@dataclass(frozen=True)
class ScoringSettings:
    """Options of `headwise evaluate` on translation: engines, scores and the comparison with another run."""

    device: str
    precision: str | None
    engine: str
    compare: Path | None = None
    metric: str = "bleu"
    test: str = "bootstrap"
    samples: int | None = None
    tokenize: str = "13a"
    lowercase: bool = False
    shortlist: bool = False
    language: str | None = None
    also: Sequence[Path] = ()  # the ensemble of which the first run is one


@dataclass(frozen=True)
class Result:
    """Scores of one run on one test set, with the translations and, if asked for, the comparison."""

    run: Path
    test_set: TestFiles
    scores: TranslationScores
    hypotheses: list[str]
    comparison: dict[str, Any] | None
    sentence: str  # that the comparison comes to

    def record(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        record = self.scores.to_json()
        return record if self.comparison is None else record | {"comparison": self.comparison}


def read_test_sets(sources: Sequence[Path], references: Sequence[Path]) -> list[TestFiles]:
    """Read test sets; raises `ConfigError` or `DataError` unless files and lines match one to one."""
    if len(sources) != len(references):
        raise ConfigError(
            f"evaluate: expected one --reference for each --source, found {len(references)} for {len(sources)}"
        )
    return [TestFiles(s, r, *read_parallel(s, r)) for s, r in zip(sources, references, strict=True)]


def score_runs(
    runs: Sequence[Path],
    test_sets: Sequence[TestFiles],
    settings: ScoringSettings,
    search: dict[str, Any],
    say: Callable[[str], None],
) -> list[Result]:
    """Translate and score every test set with every run; the results are in the order of the runs.

    `say` gets the description of each run's engine.
    """
    if settings.also and len(runs) > 1:
        raise ConfigError(f"--with: expected one run beside the ensemble's others, found {len(runs)}")
    find_metric("bleu", settings.tokenize)  # raises for an unknown tokenizer before the translation
    other = None
    if settings.compare is not None:
        find_metric(settings.metric, settings.tokenize)
        check_test(settings.test)
        other = _load([settings.compare], settings)
    results = []
    for run in runs:
        translator = _load([run, *settings.also], settings, shortlist=settings.shortlist)
        say(translator.description)
        results += [_score(run, translator, test_set, settings, search, other) for test_set in test_sets]
    return results


def score_translator(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    search: Mapping[str, Any],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> tuple[TranslationScores, list[str]]:
    """Translate and score a test set; return the scores and the translations.

    A reference that is its source in half of the lines is noted. Raises as `check_lines` and `Translator.translate`.
    """
    sources, references = listed(sources, "sources"), listed(references, "references")
    check_lines(sources, references)
    longest = translator.longest_target
    lengths = (len(translator.subwords.encode_target(one_line(text))) for text in references)
    fitting = [number for number, length in enumerate(lengths) if length <= longest]
    hypotheses = [t.text for t in translator.translate(sources, **search)]
    scores = score_translations(
        hypotheses,
        references,
        tokenize=tokenize,
        lowercase=lowercase,
        perplexity=_perplexity(translator, *([side[n] for n in fitting] for side in (sources, references))),
    )
    notes = [*scores.notes]
    if longer := len(references) - len(fitting):
        notes.append(f"perplexity is without {longer:,} of the references, which have more than {longest} subwords")
    same = sum(s.strip() == r.strip() for s, r in zip(sources, references, strict=True))
    if same >= _COPIED * len(references):
        notes.append(
            f"the reference is the source itself in {same:,} of {len(references):,} lines; expected its "
            "translation by people"
        )
    return replace(scores, notes=tuple(notes)), hypotheses


def full_table(result: Result) -> list[str]:
    """Return all scores of one run on one test set, a line each, with their signatures."""
    lines = result.scores.lines()
    return [*lines, result.sentence] if result.sentence else lines


def table(results: Sequence[Result]) -> list[str]:
    """Return a table with a line for each run and test set, and the signatures below it."""
    names = [(str(result.run), str(result.test_set.source)) for result in results]
    widths = [
        max(len(title), *map(len, column))
        for title, column in zip(("run", "test set"), zip(*names, strict=True), strict=True)
    ]
    columns = [(score.title, max(6, len(score.title) + 1)) for score in results[0].scores.metrics.values()]
    titles = " ".join(f"{title:>{width}}" for title, width in columns)
    lines = [f"{'run':<{widths[0]}}  {'test set':<{widths[1]}} {titles}  exact  perplexity/word"]
    previous = ""
    for (run, source), result in zip(names, results, strict=True):
        scores = result.scores
        word = "" if scores.perplexity is None else f"{scores.perplexity.word:17.2f}"
        numbers = zip(scores.metrics.values(), columns, strict=True)
        cells = " ".join(f"{metric.score:{width}.2f}" for metric, (_, width) in numbers)
        shown = run if run != previous else ""
        lines.append(f"{shown:<{widths[0]}}  {source:<{widths[1]}} {cells} {scores.exact:6.2f}{word}")
        previous = run
    lines += ["", *(f"{s.title:<15} {s.signature}" for s in results[0].scores.metrics.values())]
    return lines + [f"{r.test_set.source}: {r.sentence}" for r in results if r.sentence]


def _load(runs: Sequence[Path], settings: ScoringSettings, *, shortlist: bool = False) -> Translator:
    return Translator.load(
        runs,
        device=settings.device,
        precision=settings.precision,
        engine=settings.engine,
        shortlist=shortlist,
        language=settings.language,
    )


def _score(
    run: Path,
    translator: Translator,
    test_set: TestFiles,
    settings: ScoringSettings,
    search: dict[str, Any],
    other: Translator | None,
) -> Result:
    scores, hypotheses = score_translator(
        translator,
        test_set.sources,
        test_set.references,
        search,
        tokenize=settings.tokenize,
        lowercase=settings.lowercase,
    )
    if other is None:
        return Result(run, test_set, scores, hypotheses, None, "")
    comparison = compare_systems(
        [t.text for t in other.translate(test_set.sources, **search)],
        hypotheses,
        test_set.references,
        metric=settings.metric,
        test=settings.test,
        samples=settings.samples,
        tokenize=settings.tokenize,
    )
    sentence = comparison.sentence(str(settings.compare), str(run))
    return Result(run, test_set, scores, hypotheses, comparison.to_json(), sentence)


def _perplexity(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> Perplexity | None:
    if not sources:
        return None
    scored = translator.score(sources, references)
    total = sum(output.log_probability for output in scored)
    return perplexity(total, sum(len(output.pieces) for output in scored), count_words(references))
