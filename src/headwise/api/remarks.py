"""Remarks on many lines, counted while they are translated: words without subwords, and what is said of a line."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 8  # words; a file in another language has thousands
_LONGEST = 40  # characters of a word


class UnknownWords:
    """Counter of lines with unknown words; it keeps the first few words with their line numbers."""

    def __init__(self, unit: str = "line") -> None:
        self._unit = unit
        self._lines = self._words = self._all_words = self._more = 0
        self._first: dict[str, int] = {}

    def add(self, line: int, words: Sequence[str], all_words: int) -> None:
        """Add the unknown words of a line, and the number of all its words."""
        self._all_words += all_words
        self._lines += bool(words)
        self._words += len(words)
        for word in words:
            if len(self._first) < _NAMED:
                self._first.setdefault(word, line)
            self._more += word not in self._first

    def lines(self, total: int, what: str | None = None) -> list[str]:
        """Return a warning, if there are unknown words: in how many of `total` lines, which, and their share."""
        if not self._lines:
            return []
        what = what or f"{self._unit}s"
        named = ", ".join(f"{_shown(word)} ({self._unit} {line:,})" for word, line in self._first.items())
        share = self._words / max(self._all_words, self._words)
        more = f" and {self._more:,} more" if self._more else ""
        return [
            f"{self._lines:,} of {total:,} {what} hold words that the model spells by single letters, or not at all "
            f"({self._words:,} of {self._all_words:,} words, {share:.1%}): {named}{more}"
        ]


class Notes:
    """Sentences about single lines, of which the first few are kept."""

    def __init__(self, unit: str = "line") -> None:
        self._unit = unit
        self._count = 0
        self._first: list[str] = []

    def add(self, line: int, sentences: Sequence[str]) -> None:
        """Add the sentences about a line."""
        self._count += len(sentences)
        room = _NAMED - len(self._first)
        self._first += [f"{self._unit} {line:,}: {_shown(sentence, 200)}" for sentence in sentences[:room]]

    def lines(self) -> list[str]:
        """Return the first sentences, and how many more there are."""
        more = self._count - len(self._first)
        return [*self._first, *([f"and {more:,} more"] if more else [])]


def _shown(word: str, longest: int = _LONGEST) -> str:
    """Return a word with unprintable characters escaped, cut to `longest` characters."""
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in word[:longest])
    return printable + "…" * (len(word) > longest)
