"""`headwise analyze heads`: measurements of every head's role and importance, pruning."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from headwise import bounds
from headwise.cli.arguments import (
    AsJson,
    Device,
    Imports,
    Limit,
    Lowercase,
    Tokenized,
    TrainedRun,
    refuse_beside,
    refuse_without,
)
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.analysis.heads.importance import HeadPlace
    from headwise.analysis.heads.measuring import PartReport
    from headwise.analysis.heads.roles import Rate, RelationRate
    from headwise.engine.translator import Translator

Order = Literal["gradient", "masking", "random"]


Source = Annotated[Path | None, Option(help="Source text, or a .conllu file with trees; plain or .gz.")]
Target = Annotated[Path | None, Option(help="Its translation, likewise; the model's own unless given.")]
Prune = Annotated[Order | None, Option(help="Remove heads in this order and score the translations.")]


def command(
    run: TrainedRun,
    source: Source = None,
    target: Target = None,
    miniature: Annotated[bool, Option("--miniature", help="The built-in corpus's test set.")] = False,
    seed: Annotated[int, Option(min=0, max=bounds.SEED, help="Of random orders.")] = 1,
    tokenized: Tokenized = False,
    lowercase: Lowercase = False,
    limit: Limit = None,
    importance: Annotated[
        bool, Option("--importance", help="Measure importance: by masking each head alone, and by gradients.")
    ] = False,
    prune: Prune = None,
    points: Annotated[
        int | None,
        Option(min=1, max=bounds.COUNT, help="Points of the pruning curve, besides none removed; 8 unless given."),
    ] = None,
    train_source: Annotated[Path | None, Option(help="Training text, to count rare words in.")] = None,
    train_target: Annotated[Path | None, Option(help="Its translation.")] = None,
    out: Annotated[Path | None, Option("-o", "--out", help="Draw a summary as .png.")] = None,
    device: Device = "auto",
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Measure every head: position, syntax, coreference, rare words, separators, similarity; optionally importance.

    A model of single texts, such as a language model, reads --source alone.

    Example: headwise analyze heads runs/demo --miniature -o heads.png

    Example: headwise analyze heads runs/de --source en.conllu.gz --target de.conllu.gz --importance --prune gradient
    """
    from headwise.analysis.heads.measuring import Annotated as Sentence
    from headwise.analysis.heads.measuring import measure_heads
    from headwise.analysis.heads.single_text import TASKS as SINGLE_TEXT
    from headwise.analysis.heads.single_text import measure_single_text
    from headwise.cli.annotated import read_sentences
    from headwise.config import Config
    from headwise.engine.translator import Translator

    if out is not None and out.suffix != ".png":
        raise ConfigError(f"{out}: expected a file that ends in .png")
    if prune is None:
        refuse_without("--prune", {"--points": points})
    subset = "test" if miniature else None
    sentences = read_sentences(source, target, miniature=subset, tokenized=tokenized, lowercase=lowercase, limit=limit)
    if (train_source is None) != (train_target is None):
        raise ConfigError("--train-source and --train-target: expected both or none, found one")
    config = Config.of_run(run, "translation", *SINGLE_TEXT)
    importances: dict[str, dict[HeadPlace, float]] = {}
    record: dict[str, Any] = {"run": str(run)}
    pruned: list[str] = []
    if config.task != "translation":
        of_pairs = {
            "--target": target,
            "--prune": prune,
            "--importance": importance,
            "--train-source": train_source,
        }
        refuse_beside(f"{run}, a run of task {config.task}", of_pairs)
        reports = [measure_single_text(run, config, sentences.sources, device=device)]
    else:
        translator = Translator.load(run, device=device)
        sources = [one.sentence.text for one in sentences.sources]
        targets = sentences.targets
        if targets is None:
            targets = [Sentence.of(translation.text) for translation in translator.translate(sources)]
        frequencies = None
        if train_source is not None and train_target is not None:
            frequencies = _frequencies(translator, train_source, train_target)
        reports = measure_heads(translator, sentences.sources, targets, frequencies=frequencies)
        texts = [one.sentence.text for one in targets]
        if importance or prune:
            importances = _importance(translator, sources, texts, every=importance, order=prune)
        if prune is not None:
            pruned = _pruned(translator, record, importances, prune, sources, texts, points or 8, seed)
    record["parts"] = [asdict(report) for report in reports]
    for name, values in importances.items():
        record[f"importance_{name}"] = {str(place): value for place, value in values.items()}
    if out is not None:
        from headwise.analysis.heads.summary import draw_heads

        draw_heads(reports, out, importances.get("masking"))
    lines = [line for report in reports for line in _heads_table(report, importances)]
    lines += [line for report in reports for line in _relations_table(report)]
    typer.echo(json.dumps(record, ensure_ascii=False) if as_json else "\n".join([*lines, *pruned]))


def _importance(
    translator: Translator, sources: list[str], targets: list[str], *, every: bool, order: Order | None
) -> dict[str, dict[HeadPlace, float]]:
    """Return the importance of heads by `every` measure, or by that of the order in which they are removed, if any."""
    from headwise.analysis.heads.importance import Pairs, importance_by_gradient, importance_by_masking

    pairs = Pairs.encode(translator, sources, targets)
    measures = {"masking": importance_by_masking, "gradient": importance_by_gradient}
    return {name: measure(translator, pairs) for name, measure in measures.items() if every or name == order}


def _frequencies(translator: Translator, source: Path, target: Path) -> tuple[Counter[int], Counter[int]]:
    """Return the counts of the training text's subwords, source and target."""
    from headwise.analysis.heads.importance import Pairs
    from headwise.text.reading.lines import read_parallel
    from headwise.text.tokens.subwords import BOS

    training = Pairs.encode(translator, *read_parallel(source, target))
    counts = Counter(token for ids in training.targets for token in ids)
    counts[BOS] = len(training.targets)
    return Counter(token for ids in training.sources for token in ids), counts


def _pruned(
    translator: Translator,
    record: dict[str, Any],
    importances: dict[str, dict[HeadPlace, float]],
    order: Order,
    sources: list[str],
    references: list[str],
    points: int,
    seed: int,
) -> list[str]:
    """Add the pruning curves to the record; return the lines of their table."""
    from headwise.analysis.heads.importance import pruning_curve, random_order, removal_order
    from headwise.decoding.translator_model import pytorch_model

    model = pytorch_model(translator)
    chosen = random_order(model, seed) if order == "random" else removal_order(importances[order])
    orders = {order: chosen} | ({} if order == "random" else {"random": random_order(model, seed)})
    curves = {
        name: pruning_curve(translator, places, sources, references, points=points) for name, places in orders.items()
    }
    record["pruning"] = {name: [asdict(point) for point in curve] for name, curve in curves.items()}
    record["removed_first"] = [str(place) for place in chosen]
    names = "".join(f"{name:>12}" for name in curves)
    lines = ["", f"BLEU of {len(sources)} sentences by heads removed", f"  removed   share{names}"]
    for row in zip(*curves.values(), strict=True):
        scores = "".join(f"{point.bleu:12.2f}" for point in row)
        lines.append(f"  {row[0].removed:7d}  {row[0].share:6.0%}{scores}")
    return lines


def _heads_table(report: PartReport, importance: dict[str, dict[HeadPlace, float]]) -> list[str]:
    """Return the lines of a table with one head per line; a number's baseline follows it."""
    from headwise.analysis.heads.importance import HeadPlace
    from headwise.analysis.interventions import PART_NAMES

    first = report.heads[0]
    lines = [
        "",
        f"{PART_NAMES[report.part]}: {report.sentences} sentences, {first.position.n} rows "
        "(after each number: what chance gives)",
        "  head   argmax at one offset   rare word      entropy      largest weight  end    separators    similar      "
        + "".join(f"{name:>9}" for name in importance)
        + "  best relation, found / best offset / chance / n",
    ]
    for head in report.heads:
        place = HeadPlace(report.part, head.layer, head.head)
        marks = "".join(f"{values[place]:9.4f}" for values in importance.values())
        lines.append(
            f"  {head.layer + 1}.{head.head + 1}   {head.offset:+4d} {_share(head.position, 'chance')}      "
            f"{_share(head.rare, 'chance')}  {head.entropy.rate:5.2f} {head.entropy.baselines['uniform']:5.2f}   "
            f"{_share(head.confidence, 'uniform')}    {head.end.rate:4.0%}  {_share(head.separator, 'uniform')}  "
            f"{_similarity(head.similarity)}  {marks}  {_relation(head.relation)}"
            + "".join(f"  [{role}]" for role in head.roles)
        )
    return lines


def _relations_table(report: PartReport) -> list[str]:
    """Return a table with the best head for each relation, selected on every other sentence, measured on the rest."""
    relations = [*report.relations, *report.coreference]
    if not relations:
        return []
    from headwise.analysis.interventions import PART_NAMES

    lines = [
        "",
        f"{PART_NAMES[report.part]}: the best head for each relation",
        "  relation              head   found   best offset   chance      n",
    ]
    for best in relations:
        base = best.found.baselines
        lines.append(
            f"  {best.name:<21} {best.layer + 1}.{best.head + 1}    {best.found.rate:5.1%}  {base['offset']:6.1%} "
            f"({best.offset:+d})   {base['chance']:6.1%}  {best.found.n:5d}"
        )
    return lines


def _share(rate: Rate, base: str) -> str:
    return f"{rate.rate:5.0%} {rate.baselines[base]:5.0%}"


def _similarity(rate: Rate | None) -> str:
    return "           " if rate is None else f"{rate.rate:+.2f} {rate.baselines['permuted']:+.2f}"


def _relation(best: RelationRate | None) -> str:
    if best is None:
        return ""
    base = best.found.baselines
    return f"{best.name} {best.found.rate:.0%} / {base['offset']:.0%} / {base['chance']:.0%} / {best.found.n}"
