"""The words of a run's source text, each in the case that it mostly has: `the`, `Paris`, `I` and German `Katze`.

A preparation lists them, and the list comes along with a run as its file `words.txt`, a word a line, the most frequent
ones first. Text in one case is translated in the case that they have (see `headwise.engine.readings.recasing`), and
text in an unusual spelling as they are spelled (see `headwise.engine.readings.usual_spelling`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from headwise.characters import WORD
from headwise.errors import CheckpointError
from headwise.parsing import read_bounded
from headwise.shipped.runs import DEMO, FOLDER

FILE = "words.txt"
_MOST = 50_000  # words, the most frequent ones
_LONGEST = 40  # letters
_MOST_BYTES = 1 << 23  # more than so many words have
_ENDS = frozenset(".!?…:\"„“”»«'‚‘’")  # what a word that follows may have a capital for


def usual_words(lines: Iterable[str]) -> list[str]:
    """Return the words of a text in their usual case, the most frequent ones first, and at most 50,000.

    The case of a word counts where no sentence begins with it; one that only begins sentences is in lower case. Words
    of scripts without capitals are left out, as is what is longer than 40 letters.
    """
    count, inside = Counter[str](), Counter[str]()  # by lower case, and by the form where no sentence begins
    for line in lines:
        end = 0
        for match in WORD.finditer(line):
            word, before = match[0], line[end : match.start()].strip()
            if word.lower() != word.upper() and len(word) <= _LONGEST:
                count[word.lower()] += 1
                if end and before[-1:] not in _ENDS:
                    inside[word] += 1
            end = match.end()
    usual: dict[str, str] = {}
    for form in sorted(inside, key=lambda form: (inside[form], form.islower())):
        usual[form.lower()] = form  # the most frequent form comes last, and stays
    order = sorted(count, key=lambda word: (-count[word], word))
    words = (usual.get(word, word) for word in order)
    return list(itertools.islice(filter(WORD.fullmatch, words), _MOST))


class SourceWords:
    """The words of the source text that a run was trained with; read when they are first needed."""

    def __init__(self, file: Path, *, complete: bool = False) -> None:
        """Name the file; `complete` if it has every word of the text, so that others are known to lack."""
        self._file, self._complete = file, complete

    @classmethod
    def of_run(cls, run: Path) -> SourceWords | None:
        """Return those of a run; None if it has no list of them."""
        return cls(run / FILE, complete=run == FOLDER / DEMO) if (run / FILE).is_file() else None

    def usual(self, *words: str) -> str | None:
        """Return the most frequent of some words, in whatever case, in its usual one; None if no word is listed."""
        ranks = [self._ranks[word.lower()] for word in words if word.lower() in self._ranks]
        return self._words[min(ranks)] if ranks else None

    def rank(self, word: str) -> float:
        """Return the place of a word in the list, in whatever case, from 1 for the most frequent; infinite if none."""
        return self._ranks.get(word.lower(), math.inf) + 1

    def lacks(self, text: str) -> tuple[str, ...]:
        """Return the words of a text that the training text lacks, each once; none where the list isn't complete."""
        if not self._complete:
            return ()
        return tuple(dict.fromkeys(word for word in WORD.findall(text) if self.usual(word) is None))

    @functools.cached_property
    def _words(self) -> list[str]:
        """The list; raises `CheckpointError` for a file that has something else."""
        expected = "the words of a run's source text, one a line"
        content = read_bounded(self._file, _MOST_BYTES, CheckpointError, expected)
        words = content.decode("utf-8", errors="replace").splitlines()
        for number, word in enumerate(words, start=1):
            if WORD.fullmatch(word) is None:
                raise CheckpointError(f"{self._file} line {number}: expected a word, found {word[:40]!r}")
        return words

    @functools.cached_property
    def _ranks(self) -> dict[str, int]:
        """The place of each word in the list, by its lower case."""
        return {word.lower(): rank for rank, word in enumerate(self._words)}
