"""The second search of guarded sentences whose first output has a defect: it repeats itself, or has wrong numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.engine.base import SearchSentence
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.repetition_guard import defect, mended, without_repetition
from headwise.engine.terms import TERM_BEAM


@dataclass(frozen=True)
class _Again:
    """A sentence as it is searched again, its number among all, and the numbers that its first output lacks."""

    number: int
    sentence: SearchSentence
    lacking: tuple[str, ...] = ()


class SecondSearch:
    """The second search of those guarded sentences whose first output has a defect."""

    def __init__(self, sentences: Sequence[SearchSentence], found: Sequence[Sequence[Hypothesis]]) -> None:
        """`found` are the hypotheses that the first search found for each sentence."""
        self._again = [
            again
            for number, (sentence, first) in enumerate(zip(sentences, found, strict=True))
            if sentence.options.guard and first and (again := _again(number, sentence, first[0]))
        ]
        self.sentences = [again.sentence for again in self._again]

    def mend(self, found: list[list[Hypothesis]], second: Sequence[Sequence[Hypothesis]]) -> list[bool]:
        """Replace hypotheses of the first search by those that the `second` found for `sentences`.

        Returns for each of these whether nothing is wrong with it any more.
        """
        successes = []
        for again, hypotheses in zip(self._again, second, strict=True):
            first, sentence = found[again.number], again.sentence
            if again.lacking:
                kept, success = _with_numbers(again, first, hypotheses)
            else:
                kept, success = mended(sentence.source, first, hypotheses, sentence.options)
            found[again.number] = kept
            successes.append(success)
        return successes


def _again(number: int, sentence: SearchSentence, first: Hypothesis) -> _Again | None:
    """Return how a sentence is searched again; None if nothing is wrong with its first output."""
    if defect(sentence.source, first, sentence.options):
        return _Again(number, without_repetition(sentence))
    if sentence.numbers is None or sentence.terms is not None:
        return None
    lacking = sentence.numbers.lacking(first.tokens)
    terms = sentence.numbers.terms(lacking) if lacking else None
    if terms is None:
        return None
    options = dataclasses.replace(sentence.options, guard=False, beam=max(sentence.options.beam, TERM_BEAM))
    return _Again(number, dataclasses.replace(sentence, options=options, terms=terms), tuple(lacking))


def _with_numbers(
    again: _Again, first: Sequence[Hypothesis], second: Sequence[Hypothesis]
) -> tuple[list[Hypothesis], bool]:
    """Return the `second` hypotheses if the best has the source's numbers and no other defect, else the `first`."""
    sentence = again.sentence
    assert sentence.numbers is not None
    success = not sentence.numbers.lacking(second[0].tokens) and not defect(
        sentence.source, second[0], sentence.options
    )
    chosen = list(second if success else first)[: len(first)]
    end = "" if success else ", without success"
    note = f"guard: a first output that lacks {', '.join(again.lacking)}, searched again with it{end}"
    chosen[0] = dataclasses.replace(chosen[0], note=note)
    return chosen, success
