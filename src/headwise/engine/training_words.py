"""Words that the model in the package has never read: its training text is in the package, too."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from headwise.corpora.built_in import read_built_in
from headwise.shipped.runs import FOLDER

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


class TrainingWords:
    """The words of the source text that a shipped run was trained with, which is in the package."""

    def __init__(self, corpus: str, language: str) -> None:
        self._corpus, self._language = corpus, language

    @classmethod
    def of_run(cls, run: Path) -> TrainingWords | None:
        """Return those of a run; None unless it is shipped."""
        return cls("miniature", "en") if run == FOLDER / "demo" else None

    @functools.cached_property
    def _words(self) -> frozenset[str]:
        texts = {
            word for line in read_built_in(self._corpus, f"train.{self._language}") for word in line.split()
        }
        return frozenset(word.lower() for text in texts for word in _WORD.findall(text))

    def lacks(self, text: str) -> tuple[str, ...]:
        """Return the words of a text that the training text lacks, in any case, each once."""
        return tuple(dict.fromkeys(word for word in _WORD.findall(text) if word.lower() not in self._words))
