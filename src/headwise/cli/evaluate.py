"""`headwise evaluate`: scores of a run on a test set, each with its signature, and whether two runs differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from headwise.decoding.translator import Translator
    from headwise.evaluation.translation import Perplexity, TranslationScores


def command(
    run: Annotated[Path, typer.Argument(help="A trained run directory.")],
    source: Annotated[Path, typer.Option(help="Source text, plain or .gz.")],
    reference: Annotated[Path, typer.Option(help="Its reference translation, line by line.")],
    compare: Annotated[
        Path | None, typer.Option(metavar="RUN2", help="Another run: say whether the two differ by chance.")
    ] = None,
    metric: Annotated[str, typer.Option(help="Of the comparison: bleu or chrf.")] = "bleu",
    test: Annotated[
        str, typer.Option(help="bootstrap (Koehn 2004) or randomization (Riezler & Maxwell 2005).")
    ] = ("bootstrap"),
    samples: Annotated[
        int | None, typer.Option(help="Resamples of the comparison.", show_default="by test")
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Beam size.", show_default="the run's")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Exponent of the length penalty.", show_default="the run's")
    ] = None,
    tokenize: Annotated[str, typer.Option(help="sacreBLEU's tokenizer: 13a, zh, ja-mecab, char, …")] = "13a",
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Lower-case for tokenized_bleu only.")
    ] = False,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write the translations here, too.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto for what is fastest.")
    ] = "float32",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Translate a test set and score it: sacreBLEU, chrF2, tokenized BLEU, perplexity.

    Example: headwise evaluate runs/de --source test.en --reference test.de

    Example: headwise evaluate runs/de --source test.en --reference test.de --compare runs/de2 --json
    """
    from headwise.cli.lines import line_writer, read_lines
    from headwise.decoding.translator import Translator
    from headwise.evaluation.significance import compare as compare_systems
    from headwise.evaluation.translation import bleu_metric, check_lines, score_translations

    bleu_metric(tokenize, lowercase)  # an unknown tokenizer is said before the translating, not after it
    sources, references = list(read_lines(source)), list(read_lines(reference))
    check_lines(sources, references)
    changes = {key: value for key, value in {"beam": beam, "alpha": alpha}.items() if value is not None}
    translator = Translator.load(run, device=device, precision=precision)
    hypotheses = [t.text for t in translator.translate(sources, **changes)]
    if out is not None:
        with line_writer(out, source, reference) as write:
            for hypothesis in hypotheses:
                write(hypothesis)
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
        other = Translator.load(compare, device=device, precision=precision)
        theirs = [t.text for t in other.translate(sources, **changes)]
        comparison = compare_systems(
            theirs,
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
    for note in scores.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(json.dumps(record) if as_json else "\n".join(lines))


def _perplexity(translator: Translator, sources: list[str], references: list[str]) -> Perplexity:
    from headwise.evaluation.translation import count_words, perplexity

    scored = translator.score(sources, references)
    total = sum(output.log_probability for output in scored)
    return perplexity(total, sum(len(output.pieces) for output in scored), count_words(references))


def _table(scores: TranslationScores) -> list[str]:
    named = [("BLEU", scores.bleu), ("chrF2", scores.chrf), ("tokenized BLEU", scores.tokenized_bleu)]
    lines = [f"{name:<15} {score.score:6.2f}  {score.signature}" for name, score in named]
    if scores.perplexity is not None:
        lines.append(
            f"{'perplexity':<15} {scores.perplexity.subword:6.2f}  per subword, "
            f"{scores.perplexity.word:.2f} per word"
        )
    return lines
