"""Data sets for tasks that lack free data: drawn from grammars, the same for the same arguments on every machine.

A generator is one file here with a function `(random, count, held_out) -> lines of the file`, and one line in
`GENERATORS`. Names are made of syllables; a quarter of them never occurs in training text (`held_out` lets them), so
that development and test data can't be solved by remembering names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from headwise.errors import ConfigError
from headwise.files import write_text
from headwise.text.generated.entities import entities
from headwise.text.generated.questions import questions


@dataclass(frozen=True)
class Generator:
    """How one data set is made: a function, the ending of its files' names, and what it is."""

    lines: Callable[[Random, int, bool], Iterable[str]]
    suffix: str
    description: str
    train: int  # examples, unless told otherwise


GENERATORS = {
    "entities": Generator(
        entities, ".iob", "sentences with persons, organizations, places and dates, IOB2 tags", 4000
    ),
    "questions": Generator(questions, ".jsonl", "stories, and questions that a part of them answers", 12000),
}


def generate(
    name: str, directory: Path, *, train: int | None = None, dev: int = 500, test: int = 500, seed: int = 1
) -> list[Path]:
    """Write train, dev and test files; a larger training set begins with the smaller one.

    Raises `ConfigError` for an unknown name, and `TrainingError` where the files can't be written.
    """
    if name not in GENERATORS:
        raise ConfigError(f"expected one of {', '.join(GENERATORS)}, found {name!r}")
    generator = GENERATORS[name]
    counts = {"train": generator.train if train is None else train, "dev": dev, "test": test}
    files = []
    for part, count in counts.items():
        file = directory / f"{part}{generator.suffix}"
        lines = generator.lines(Random(f"{name} {part} {seed}"), count, part != "train")
        write_text(file, "".join(f"{line}\n" for line in lines))
        files.append(file)
    return files
