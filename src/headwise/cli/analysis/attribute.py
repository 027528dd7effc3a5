"""`headwise attribute`: attention beside what the model uses, and how far they agree."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise import bounds
from headwise.cli.arguments import AsJson, Device, TrainedRun
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.analysis.attribution import Attribution

_VIEWS = ("attention", "rollout", "gradient", "deletion")


def command(
    run: TrainedRun,
    text: Annotated[str | None, typer.Option(help="One sentence to look at word by word.")] = None,
    source: Annotated[Path | None, typer.Option(help="Many sentences, for the mean agreement.")] = None,
    target: Annotated[
        Path | None, typer.Option(help="Their translations; the model's own unless given.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=bounds.COUNT, help="Sentences of the files to read.")] = 50,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Compare attention with rollout, gradient × input, and the loss of log-probability when a word is deleted.

    Example: headwise attribute runs/de --text "A man rides a horse."

    Example: headwise attribute runs/de --source test.en --target test.de --limit 100
    """
    from headwise.analysis.attribution import attribute
    from headwise.analysis.tracer import Tracer
    from headwise.cli.lines import read_lines
    from headwise.decoding.translator import Translator

    if (text is None) == (source is None):
        raise ConfigError("attribute: expected either --text or --source")
    tracer = Tracer(Translator.load(run, device=device))
    sources = (
        [text]
        if text is not None
        else [line for _, line in zip(range(limit), read_lines(source), strict=False)]
    )
    if target is not None:
        targets = [line for _, line in zip(range(len(sources)), read_lines(target), strict=False)]
        if len(targets) < len(sources):
            raise ConfigError(f"{target}: expected {len(sources)} lines, found {len(targets)}")
    else:
        targets = [translation.text for translation in tracer.translator.translate(sources)]
    pairs = [
        (one, other) for one, other in zip(sources, targets, strict=True) if one.split() and other.split()
    ]
    found = [attribute(tracer, one, other) for one, other in pairs]
    if not found:
        raise ConfigError("attribute: expected a text with words, found none")
    agreement = _agreement(found)
    record: dict[str, Any] = {"sentences": len(found), "rank_correlation": agreement}
    lines = []
    if text is not None:
        record |= _words(found[0])
        lines = _table(found[0])
    lines += [f"mean rank correlation across source words, {len(found)} sentences"]
    lines += [f"  {name:<22} {value['rho']:+.3f}   n {value['n']}" for name, value in agreement.items()]
    typer.echo(json.dumps(record, ensure_ascii=False) if as_json else "\n".join(lines))


def _agreement(found: list[Attribution]) -> dict[str, dict[str, float]]:
    """Average the correlations over target words of all sentences."""
    sums: dict[str, list[float]] = {}
    for one in found:
        for name, (rho, n) in one.correlations().items():
            total = sums.setdefault(name, [0.0, 0])
            if not math.isnan(rho):
                total[0] += rho * n
                total[1] += n
    return {name: {"rho": rho / n, "n": int(n)} for name, (rho, n) in sums.items() if n}


def _words(one: Attribution) -> dict[str, Any]:
    views = {name: getattr(one, name) for name in _VIEWS}
    return {
        "source_words": list(one.source_words),
        "target_words": list(one.target_words),
        **{name: None if view is None else view.tolist() for name, view in views.items()},
    }


def _table(one: Attribution) -> list[str]:
    """Name for each target word the source word that comes first in each view."""
    from headwise.analysis.terminal import columns, padded

    views = {name: getattr(one, name) for name in _VIEWS if getattr(one, name) is not None}
    rows = [["", *views]]
    for number, word in enumerate(one.target_words):
        best = [
            one.source_words[int((abs(view) if name == "gradient" else view)[number].argmax())]
            for name, view in views.items()
        ]
        rows.append([word, *best])
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    cells = [[padded(cell, width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return [
        "the source word that comes first, for each word of the output",
        *("  " + "   ".join(row) for row in cells),
        "",
    ]
