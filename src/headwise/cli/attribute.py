"""`headwise analyze attribute`: rank correlations of attention with attributions of the output."""

from __future__ import annotations

import json
import math
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from headwise import bounds
from headwise.cli.arguments import AsJson, Device, Imports, TrainedRun
from headwise.errors import ConfigError

if TYPE_CHECKING:
    from headwise.analysis.attribution import Attribution

_VIEWS = ("attention", "rollout", "gradient", "deletion")


def command(
    run: TrainedRun,
    text: Annotated[str | None, Option(help="One sentence, shown word by word.")] = None,
    source: Annotated[Path | None, Option(help="Many sentences, for the mean correlation.")] = None,
    target: Annotated[Path | None, Option(help="Their translations; the model's own unless given.")] = None,
    limit: Annotated[int, Option(min=1, max=bounds.COUNT, help="Sentences of the files to read.")] = 50,
    device: Device = "auto",
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Compare attention with rollout, gradient × input, and the drop in log-probability when a word is deleted.

    Example: headwise analyze attribute runs/de --text "A man rides a horse."

    Example: headwise analyze attribute runs/de --source test.en --target test.de --limit 100
    """
    from headwise.analysis.attribution import attributable, attribute
    from headwise.analysis.translation_tracer import TranslationTracer
    from headwise.engine.translator import Translator
    from headwise.text.reading.lines import read_lines

    if (text is None) == (source is None):
        raise ConfigError("attribute: expected either --text or --source")
    tracer = TranslationTracer(Translator.load(run, device=device))
    most = limit if text is None else 1
    sources = list(islice(read_lines(source), most)) if text is None else [text]
    if target is not None:
        targets = list(islice(read_lines(target), most))
        if len(targets) != len(sources):
            found = "more" if len(targets) > len(sources) else f"{len(targets)}"
            raise ConfigError(f"{target}: expected {len(sources)} lines, found {found}")
    else:
        targets = [translation.text for translation in tracer.translator.translate(sources)]
    pairs = [(one, other) for one, other in zip(sources, targets, strict=True) if attributable(tracer, one, other)]
    attributions = [attribute(tracer, one, other) for one, other in pairs]
    if not attributions:
        raise ConfigError(
            f"attribute: expected a text with words, of at most {tracer.longest} subwords, and such a translation, "
            "found none"
        )
    correlations = _mean_correlations(attributions)
    record: dict[str, Any] = {"sentences": len(attributions), "rank_correlation": correlations}
    lines = []
    if text is not None:
        record |= _words(attributions[0])
        lines = _table(attributions[0])
    lines += [f"mean rank correlation across source words; sentences: {len(attributions)}"]
    lines += [f"  {name:<22} {value['rho']:+.3f}   n {value['n']}" for name, value in correlations.items()]
    typer.echo(json.dumps(record, ensure_ascii=False) if as_json else "\n".join(lines))


def _mean_correlations(attributions: list[Attribution]) -> dict[str, dict[str, float]]:
    """Return the correlations averaged over the target words of all sentences."""
    sums: dict[str, list[float]] = {}
    for attribution in attributions:
        for name, (rho, n) in attribution.correlations().items():
            total = sums.setdefault(name, [0.0, 0])
            if not math.isnan(rho):
                total[0] += rho * n
                total[1] += n
    return {name: {"rho": rho / n, "n": int(n)} for name, (rho, n) in sums.items() if n}


def _words(attribution: Attribution) -> dict[str, Any]:
    """Return the words of a sentence pair and all views of them as JSON values."""
    views = {name: getattr(attribution, name) for name in _VIEWS}
    return {
        "source_words": list(attribution.source_words),
        "target_words": list(attribution.target_words),
        **{name: None if view is None else view.tolist() for name, view in views.items()},
    }


def _table(attribution: Attribution) -> list[str]:
    """Return a table of the top-ranked source word in each view, one target word per line."""
    from headwise.analysis.terminal import columns, padded

    views = {name: getattr(attribution, name) for name in _VIEWS if getattr(attribution, name) is not None}
    rows = [["", *views]]
    for number, word in enumerate(attribution.target_words):
        best = [
            attribution.source_words[int((abs(view) if name == "gradient" else view)[number].argmax())]
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
