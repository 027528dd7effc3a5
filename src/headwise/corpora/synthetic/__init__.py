"""Synthetic data sets: generated at random, and identical on every machine for the same arguments.

For tasks without free data, grammars generate labelled examples (`entities`, `questions`). Their names are composed of
syllables, and a quarter of the names never occurs in training text, so that memorizing names doesn't solve the
development and test sets. Exercises (`reverse`, `summary`) are sentence pairs with one correct target.

`DATA_SETS` is the registry: one entry per data set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from random import Random

from headwise.corpora.synthetic.entities import entities
from headwise.corpora.synthetic.exercises import write_exercise
from headwise.corpora.synthetic.questions import questions
from headwise.files import write_text


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


Write = Callable[[Path, Mapping[str, int], int], list[Path]]  # directory, examples per part, seed -> files

# What writes each data set, and its number of training examples.
DATA_SETS: dict[str, tuple[Write, int]] = {
    "entities": (partial(_write_lines, "entities", ".iob", entities), 4_000),
    "questions": (partial(_write_lines, "questions", ".jsonl", questions), 40_000),
    "reverse": (partial(write_exercise, "reverse"), 20_000),
    "summary": (partial(write_exercise, "summary"), 20_000),
}


def generate(
    name: str, directory: Path, *, train: int | None = None, dev: int = 500, test: int = 500, seed: int = 1
) -> list[Path]:
    """Write the train, dev and test files of a data set; returns their paths.

    Raises `TrainingError` where the files can't be written.
    """
    write, enough = DATA_SETS[name]
    return write(directory, {"train": enough if train is None else train, "dev": dev, "test": test}, seed)
