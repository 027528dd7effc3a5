"""`headwise evaluate --per-line`: log-probabilities of given translations, by forced decoding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.errors import DataError

if TYPE_CHECKING:
    from headwise.engine.outputs import Output

_CHUNK = 1024  # pairs scored together


def score_lines(
    runs: Sequence[Path],
    source: Path,
    target: Path,
    out: Path | None,
    *,
    alpha: float | None,
    language: str | None,
    jsonl: bool,
    device: str,
    precision: str,
    engine: str,
) -> None:
    """Write a line for each pair: the total, a tab, and the log-probabilities that add up to it; or a JSON object."""
    from headwise.api.remarks import UnknownWords
    from headwise.chunks import chunks, results
    from headwise.cli.lines import line_writer, watched
    from headwise.cli.streams import warn
    from headwise.engine.translator import Translator
    from headwise.text.reading.lines import json_line

    translator = Translator.load(
        list(runs), device=device, precision=precision, engine=engine, language=language
    )
    unknown = UnknownWords(), UnknownWords()
    line = 0

    def score(part: Sequence[tuple[int, str, str]]) -> list[Output]:
        numbers, sources, targets = zip(*part, strict=True)
        return translator.score(sources, targets, alpha=alpha, first_line=numbers[0])

    pairs = watched(_pairs(source, target), source, out, "scoring")
    with line_writer(out, source, target) as write:
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
