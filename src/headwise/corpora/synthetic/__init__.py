"""Synthetic data sets: generated at random, and identical on every machine for the same arguments.

For tasks without free data, grammars generate labelled examples (`entities`, `questions`). Their names are composed of
syllables, and a quarter of the names never occurs in training text, so that memorizing names doesn't solve the
development and test sets. Exercises (`copy`, `reverse`, `sort`, `summary`) are sentence pairs with one correct target.
The miniature corpus (`headwise.corpora.miniature`) is a parallel corpus with gold annotation.

`GENERATORS` is the registry: one entry per data set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from headwise.corpora import miniature
from headwise.corpora.synthetic.entities import entities
from headwise.corpora.synthetic.exercises import write_exercise
from headwise.corpora.synthetic.questions import questions
from headwise.errors import ConfigError
from headwise.files import write_text


@dataclass(frozen=True)
class Generator:
    """Entry of the registry: a function that writes the data set, its description and default size."""

    write: Callable[
        [Path, Mapping[str, int], int], list[Path]
    ]  # directory, number of examples per part, seed → files
    description: str
    train: int  # default number of training examples


def _write_lines(
    name: str,
    suffix: str,
    lines: Callable[[Random, int, bool], Iterable[str]],
    directory: Path,
    counts: Mapping[str, int],
    seed: int,
) -> list[Path]:
    """Write one file per part with `lines(random, count, held_out)`; a smaller set is a prefix of a larger one."""
    files = []
    for part, count in counts.items():
        files.append(directory / f"{part}{suffix}")
        generated = lines(Random(f"{name} {part} {seed}"), count, part != "train")
        write_text(files[-1], "".join(f"{line}\n" for line in generated))
    return files


def _write_miniature(directory: Path, counts: Mapping[str, int], seed: int) -> list[Path]:
    return miniature.write(miniature.generate(**counts, seed=seed), directory)


GENERATORS = {
    "miniature": Generator(
        _write_miniature,
        "English and German, with alignments (Pharaoh), trees and coreference links (CoNLL-U) for dev and test",
        20_000,
    ),
    "entities": Generator(
        partial(_write_lines, "entities", ".iob", entities),
        "sentences with persons, organizations, places and dates, IOB2 tags",
        4_000,
    ),
    "questions": Generator(
        partial(_write_lines, "questions", ".jsonl", questions),
        "stories, and questions that a part of them answers",
        40_000,
    ),
    "copy": Generator(partial(write_exercise, "copy"), "4 to 12 letters; the same again", 20_000),
    "reverse": Generator(partial(write_exercise, "reverse"), "4 to 12 letters; the last one first", 20_000),
    "sort": Generator(
        partial(write_exercise, "sort"), "4 to 12 letters; in the order of the alphabet", 20_000
    ),
    "summary": Generator(
        partial(write_exercise, "summary"),
        "paragraphs in which a name, a job and a city are told between other sentences; these three",
        20_000,
    ),
}


def generate(
    name: str, directory: Path, *, train: int | None = None, dev: int = 500, test: int = 500, seed: int = 1
) -> list[Path]:
    """Write the train, dev and test files of a data set; returns their paths.

    Raises `ConfigError` for an unknown name, and `TrainingError` where the files can't be written.
    """
    if name not in GENERATORS:
        raise ConfigError(f"data generate: expected one of {', '.join(GENERATORS)}, found {name!r}")
    generator = GENERATORS[name]
    counts = {"train": generator.train if train is None else train, "dev": dev, "test": test}
    return generator.write(directory, counts, seed)
