"""The development set of a translation run, as far as its files still exist."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from headwise.config import DataConfig
from headwise.errors import CheckpointError, DataError
from headwise.text.preparation.stores import development_texts
from headwise.text.reading.lines import open_text, text_lines
from headwise.text.reading.pairs import CleaningReport, Pair, clean_pairs, development_files, read_pairs

SAMPLES = 6  # sentences of the development set that the page suggests
_SAMPLE_WORDS = range(4, 17)  # words of such a sentence
_SAMPLES_FROM = 200  # sentence pairs they are chosen from
_MOST_EXAMPLES, _LONGEST_EXAMPLE = 20, 300  # lines of the file of examples, and their bytes


def development_pairs(run: Path | None, data: DataConfig, most: int) -> list[Pair]:
    """Return the first `most` sentence pairs; none if neither their files nor what was split off exist any more."""
    files = development_files(data)
    if files is None:
        folders = data.prepared or ([] if run is None else [run / "prepared"])
        return [pair for folder in folders for pair in _split_off(Path(folder), most)][:most]
    try:
        pairs = read_pairs(files, data.source_field, data.target_field)
        return list(islice(clean_pairs(pairs, data.cleaning, CleaningReport()), most))
    except DataError:
        return []


def _split_off(prepared: Path, most: int) -> list[Pair]:
    """Return the first pairs of the development set that a folder of prepared text has."""
    try:
        sources, targets = development_texts(prepared, most)
    except (CheckpointError, UnicodeDecodeError):
        return []
    return [Pair(*texts, line) for line, texts in enumerate(zip(sources, targets, strict=False), start=1)]


def suggestions(run: Path | None, data: DataConfig) -> list[str]:
    """Return sentences that the page suggests.

    First those of the file `examples` beside the development set, such as `examples.en` beside `dev.en`, if there is
    one; then some of the development set.
    """
    candidates = [
        pair.source for pair in development_pairs(run, data, _SAMPLES_FROM) if len(pair.source.split()) in _SAMPLE_WORDS
    ]
    samples = candidates[:: max(1, len(candidates) // SAMPLES)][:SAMPLES]
    return [*_examples(data), *samples]


def _examples(data: DataConfig) -> list[str]:
    """Return the lines of the file of examples, if there is one that can be read."""
    if data.dev_source is None:
        return []
    source = Path(data.dev_source)
    file = source.with_name(f"examples{source.suffix}")
    try:
        with open_text(file) as opened:
            lines = islice(text_lines(file, opened), _MOST_EXAMPLES)
            return [line.decode() for line in lines if 0 < len(line) <= _LONGEST_EXAMPLE]
    except (DataError, UnicodeDecodeError):
        return []
