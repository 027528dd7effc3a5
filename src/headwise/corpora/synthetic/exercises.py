"""Synthetic sequence-to-sequence tasks with one correct target: reverse and summarize.

Each exercise is a function that draws a sentence pair from a random generator, and one entry in `EXERCISES`.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from headwise.corpora.synthetic.names import split
from headwise.files import write_text

Pair = tuple[str, str]


_NAMES = split(
    "Ada Boris Clara David Emma Felix Greta Hugo Ida Jonas Karla Leo Mia Nils Olga Paul Rosa Simon Tara Viktor"
)
_CITIES = split(
    "Athens Bergen Cairo Dublin Essen Florence Geneva Hanoi Izmir Jena Kyoto Lagos Madrid Naples Oslo Porto"
)
_JOBS = split("baker carpenter doctor farmer gardener judge lawyer miller nurse painter singer tailor teacher weaver")
_ANIMALS = split("cat dog goat horse parrot rabbit")
_FACTS = {
    "name": ("my friend is called {} .", "have you met {} ?", "this is about {} ."),
    "job": (
        "the {} begins work early .",
        "few people know that this {} likes to read .",
        "every day the {} is at work .",
    ),
    "city": ("life in {} is never dull .", "the house stands in {} .", "it was a long way to {} ."),
}
_FILLERS = (
    "it rained the whole week .",
    "nobody remembers why .",
    "the neighbors have a {animal} .",
    "there were {number} people at the market .",
    "the {animal} sleeps all day .",
    "the train was {number} minutes late .",
    "a {animal} crossed the road .",
)


def reverse(random: np.random.Generator) -> Pair:
    """Draw 4 to 12 letters; the target is the letters in reverse order."""
    letters = [string.ascii_lowercase[i] for i in random.integers(0, 26, int(random.integers(4, 13)))]
    return " ".join(letters), " ".join(letters[::-1])


def summary(random: np.random.Generator) -> Pair:
    """Draw a paragraph of 5 to 8 sentences that state a name, a job and a city; the target is these three facts."""
    facts = {"name": _one(random, _NAMES), "job": _one(random, _JOBS), "city": _one(random, _CITIES)}
    sentences = [_one(random, _FACTS[key]).format(value) for key, value in facts.items()]
    for _ in range(int(random.integers(2, 6))):
        number = str(int(random.integers(2, 60)))
        sentences.append(_one(random, _FILLERS).format(animal=_one(random, _ANIMALS), number=number))
    order = random.permutation(len(sentences))
    paragraph = " ".join(sentences[index] for index in order)
    return paragraph, f"{facts['name']} , {facts['job']} , {facts['city']}"


EXERCISES: dict[str, Callable[[np.random.Generator], Pair]] = {"reverse": reverse, "summary": summary}


def write_exercise(name: str, directory: Path, counts: Mapping[str, int], seed: int) -> list[Path]:
    """Write PART.source, PART.target and PART.joined for every part of `counts`; returns the paths.

    The joined file holds `source = target` on each line, for language models. No source line occurs twice, within or
    across the parts. Raises `TrainingError` where the files can't be written.
    """
    random, targets = np.random.default_rng(seed), dict[str, str]()
    while len(targets) < sum(counts.values()):
        source, target = EXERCISES[name](random)
        targets.setdefault(source, target)
    pairs, files = iter(targets.items()), []
    # Train last, so that smaller training sets are prefixes of larger ones.
    for part in sorted(counts, key=lambda part: part == "train"):
        examples = list(islice(pairs, counts[part]))
        texts = {
            "source": (source for source, _ in examples),
            "target": (target for _, target in examples),
            "joined": (f"{source} = {target}" for source, target in examples),
        }
        for side, lines in texts.items():
            files.append(directory / f"{part}.{side}")
            write_text(files[-1], "".join(f"{line}\n" for line in lines))
    return files


def _one(random: np.random.Generator, choices: tuple[str, ...]) -> str:
    return choices[int(random.integers(len(choices)))]
