"""Words that the model in the package has never read; a file of its run lists those that it has."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from headwise.characters import WORD
from headwise.shipped.runs import DEMO, FOLDER

FILE = "words.txt"  # of the source text that the run was trained with, in lower case, a word a line


def words_of(lines: Iterable[str]) -> list[str]:
    """Return the words of a text in lower case, sorted: the lines of `FILE`."""
    texts = {word for line in lines for word in line.split()}
    return sorted({word.lower() for text in texts for word in WORD.findall(text)})


class TrainingWords:
    """The words of the source text that a shipped run was trained with."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @classmethod
    def of_run(cls, run: Path) -> TrainingWords | None:
        """Return those of a run; None unless it is shipped."""
        return cls(run / FILE) if run == FOLDER / DEMO else None

    @functools.cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(self._file.read_text("utf-8").splitlines())

    def lacks(self, text: str) -> tuple[str, ...]:
        """Return the words of a text that the training text lacks, in any case, each once."""
        return tuple(dict.fromkeys(word for word in WORD.findall(text) if word.lower() not in self._words))
