"""A guard against quotations that an output leaves open: a second search places the marks that end those of a source.

At the end of a quotation, a small model has often forgotten that it began one: "Ich meine natürlich, sagte Kennedy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.engine.hypotheses import Hypothesis
from headwise.engine.terms import Term, Terms
from headwise.text.tokens.subwords import Subwords

_ENDS = {'"': '"', "“": "”", "„": "“”", "”": "”", "»": "«", "«": "»"}  # of quotations, by the mark that begins them
_MARK = f"[{''.join(_ENDS)}]"
_MARKS = re.compile(_MARK)
_BEGINNINGS = re.compile(rf"(?<![^\s(\[{{–—/-]){_MARK}(?=\S)")
# A mark, and the punctuation that a subword may have with it.
_WRITTEN = ("{}", "{},", "{}.", ",{}", ".{}", "?{}", "!{}")
_TWO_COMMAS = re.compile(rf",{_MARK},")
_AS_LONG = 0.75  # times the words of the first output, at least: a search may end a quotation by cutting it short


@dataclass(frozen=True, eq=False)
class SourceQuotations:
    """The quotations of a source: how many there are. `room` bounds the tokens that end those of an output."""

    count: int
    subwords: Subwords
    room: int

    @classmethod
    def of(cls, text: str, subwords: Subwords, room: int) -> SourceQuotations | None:
        """Return the quotations of a source text; None where there are none, or one isn't both begun and ended."""
        count = _quotations(text)
        return cls(count, subwords, room) if count else None

    def lacking_ends(self, tokens: Sequence[int]) -> Terms | None:
        """Return the ends of quotations that an output must contain, if it hasn't as many marks as the source.

        They go with the beginnings that the output has, if any. None where the vocabulary can't write them.
        """
        text = self.subwords.decode_target(tokens)
        if len(_MARKS.findall(text)) == 2 * self.count:
            return None
        ends = dict.fromkeys("".join(_ENDS[mark] for mark in _BEGINNINGS.findall(text) or _ENDS))
        forms = (self._behind_a_word(written.format(end)) for end in ends for written in _WRITTEN)
        term = Term(tuple(dict.fromkeys(form for form in forms if form)), self.count)
        return Terms([term]) if term.forms and term.length <= self.room else None

    def best(self, first: Hypothesis, second: Sequence[Hypothesis]) -> Hypothesis | None:
        """Return the likeliest of the second outputs that has the quotations and is hardly shorter; None if none is."""
        least = _AS_LONG * len(self.subwords.decode_target(first.tokens).split())
        texts = ((each, self.subwords.decode_target(each.tokens)) for each in second)
        return next((each for each, text in texts if self._has(text) and len(text.split()) >= least), None)

    def _has(self, text: str) -> bool:
        return _quotations(text) == self.count and not _TWO_COMMAS.search(text)

    def _behind_a_word(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text without letters as they are behind a word; none where they can't be written."""
        word = self.subwords.encode_target("a")
        ids = self.subwords.encode_target(f"a{text}")
        written = ids[: len(word)] == word and self.subwords.decode_target(ids) == f"a{text}"
        return tuple(ids[len(word) :]) if written else ()


def _quotations(text: str) -> int:
    """Return the number of quotations in a text; 0 where marks don't begin and end one after the other."""
    marks = [mark.start() for mark in _MARKS.finditer(text)]
    beginnings = [mark.start() for mark in _BEGINNINGS.finditer(text)]
    return len(beginnings) if marks[::2] == beginnings and len(marks) == 2 * len(beginnings) else 0
