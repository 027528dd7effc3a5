"""`headwise analyze align`: word alignments from cross-attention, and their error rate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from headwise.cli.arguments import Device, Imports, TrainedRun, named, refuse_without
from headwise.errors import ConfigError, DataError

if TYPE_CHECKING:
    from headwise.analysis.alignment import Links, Rule
    from headwise.cli.annotated import AnnotatedSentences
    from headwise.engine.translator import Translator
    from headwise.evaluation.alignment import Alignment


ReverseRule = Annotated[str | None, Option(help="The other run's rule.", show_default="as --rule")]


def command(
    run: TrainedRun,
    source: Annotated[Path | None, Option(help="Source text, or a .conllu file; plain or .gz.")] = None,
    target: Annotated[Path | None, Option(help="Its translation, likewise.")] = None,
    miniature: Annotated[
        bool, Option("--miniature", help="The built-in corpus's test set, with its gold alignments.")
    ] = False,
    rule: Annotated[
        str,
        Option(
            help="mean; a layer (3) or head (3.2), from 1; with +1 for the step that reads the word; or best, selected "
            "on one half of the gold alignments (of the built-in corpus: on its dev set) and measured on the other."
        ),
    ] = "mean",
    reverse: Annotated[
        Path | None,
        Option(metavar="RUN2", callback=named, help="A run of the reverse direction, to symmetrize with."),
    ] = None,
    symmetrize: Annotated[
        str | None,
        Option(
            help="intersection, union, grow-diag, grow-diag-final or grow-diag-final-and.",
            show_default="grow-diag-final-and",
        ),
    ] = None,
    reverse_rule: ReverseRule = None,
    gold: Annotated[Path | None, Option(help="Gold alignments in Pharaoh format: 0-0 1?2.")] = None,
    out: Annotated[Path | None, Option("-o", "--out", help="Write the alignments here.")] = None,
    device: Device = "auto",
    imports: Imports = None,
    as_json: Annotated[
        bool, Option("--json", help="Print one JSON object: the error rate; without gold ones and -o, the alignments.")
    ] = False,
) -> None:
    """Align each target word with the source word it attends to most; write Pharaoh lines, score against gold ones.

    Example: headwise analyze align runs/de --source test.en --target test.de --rule 3 -o test.align

    Example: headwise analyze align runs/demo --miniature --rule best --json
    """
    from headwise.analysis.alignment import SYMMETRIZATIONS
    from headwise.analysis.alignment import symmetrize as symmetrize_links
    from headwise.cli.annotated import read_sentences
    from headwise.cli.lines import line_writer
    from headwise.engine.translator import Translator
    from headwise.evaluation.alignment import Alignment, check_words, format_alignment, read_alignments

    if reverse is None:
        refuse_without("--reverse", {"--symmetrize": symmetrize, "--reverse-rule": reverse_rule})
    symmetrize = symmetrize or "grow-diag-final-and"
    if symmetrize not in SYMMETRIZATIONS:
        raise ConfigError(f"symmetrize: expected one of {', '.join(SYMMETRIZATIONS)}, found {symmetrize!r}")
    if source is not None and target is None:
        raise ConfigError("align: expected --target with --source")
    test = read_sentences(source, target, miniature="test" if miniature else None)
    gold_alignments = None if test.gold is None else [Alignment.of(links) for links in test.gold]
    if gold is not None:
        gold_alignments = read_alignments(gold)
        if len(gold_alignments) != len(test.sources):
            raise DataError(f"{gold}: expected {len(test.sources):,} lines, found {len(gold_alignments):,}")
        pairs = zip(test.sources, test.targets or [], gold_alignments, strict=True)
        for number, (one, other, alignment) in enumerate(pairs, start=1):
            check_words(alignment, one.sentence.words, other.sentence.words, f"{gold} line {number}")
    scored = range(len(test.sources))
    selects = "best" in (rule, reverse_rule)
    dev = read_sentences(None, None, miniature="dev") if miniature and selects else None
    if dev is None and selects:
        if gold_alignments is None or len(gold_alignments) < 2:
            raise ConfigError("rule best: expected --gold with at least two lines, or --miniature")
        scored = range(1, len(test.sources), 2)
    forward, chosen = _direction(Translator.load(run, device=device), test, gold_alignments, rule, dev)
    record: dict[str, Any] = {"rule": str(chosen)}
    links = forward
    if reverse is not None:
        other = Translator.load(reverse, device=device)
        backward, other_rule = _direction(other, test, gold_alignments, reverse_rule or rule, dev, swap=True)
        links = [symmetrize_links(one, two, symmetrize) for one, two in zip(forward, backward, strict=True)]
        record |= {"reverse_rule": str(other_rule), "symmetrize": symmetrize}
    lines = [format_alignment(Alignment.of(sentence_links)) for sentence_links in links]
    if gold_alignments is not None:
        record |= _scores(links, gold_alignments, scored)
    elif as_json and out is None:
        record["alignments"] = lines
    if out is not None or not as_json:
        with line_writer(out, source, target, gold) as write:
            for line in lines:
                write(line)
    if as_json:
        typer.echo(json.dumps(record))
    else:
        typer.echo("; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in record.items()), err=True)


def _direction(
    translator: Translator,
    test: AnnotatedSentences,
    gold: Sequence[Alignment] | None,
    rule: str,
    dev: AnnotatedSentences | None,
    *,
    swap: bool = False,
) -> tuple[list[Links], Rule]:
    """Return one model's alignments and their rule; `swap` for a model of the reverse direction."""
    from headwise.analysis.alignment import Rule, align, best_rule
    from headwise.cli.annotated import attentions_of

    attentions = attentions_of(translator, test, swap)
    if rule == "best":
        if dev is not None:
            gold_links, selection = (
                [set(links) for links in dev.gold or []],
                attentions_of(translator, dev, swap),
            )
        else:
            assert gold is not None
            gold_links, selection = [set(alignment.sure) for alignment in gold[::2]], attentions[::2]
        chosen = best_rule(selection, [_swapped(links) if swap else frozenset(links) for links in gold_links])
    else:
        chosen = Rule.parse(rule, *attentions[0].weights.shape[:2])
    links = [align(attention, chosen) for attention in attentions]
    return [_swapped(sentence_links) for sentence_links in links] if swap else links, chosen


def _swapped(links: Sequence[tuple[int, int]] | set[tuple[int, int]] | Links) -> Links:
    return frozenset((target, source) for source, target in links)


def _scores(links: list[Links], gold: Sequence[Alignment], scored: range) -> dict[str, Any]:
    """Return the alignment error rate, a baseline's, precision and recall over the sentences with these numbers."""
    from headwise.evaluation.alignment import alignment_error_rate

    predicted, reference = [links[number] for number in scored], [gold[number] for number in scored]
    sure, possible = [one.sure for one in reference], [one.possible for one in reference]
    predicted_count = sum(map(len, predicted))
    # A baseline without a model: target word i is aligned with source word i.
    diagonal = [frozenset((i, i) for i in {target for _, target in one}) for one in predicted]
    return {
        "alignment_error_rate": alignment_error_rate(predicted, sure, possible),
        "diagonal": alignment_error_rate(diagonal, sure, possible),
        "precision": sum(len(a & p) for a, p in zip(predicted, possible, strict=True)) / max(predicted_count, 1),
        "recall": sum(len(a & s) for a, s in zip(predicted, sure, strict=True)) / max(sum(map(len, sure)), 1),
        "sentences": len(predicted),
    }
