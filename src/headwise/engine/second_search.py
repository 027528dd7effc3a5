"""The second search of guarded sentences whose first output has a defect: it repeats itself, or has wrong numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwise.engine.base import SearchSentence
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.repetition_guard import defect, mended, without_repetition
from headwise.engine.terms import TERM_BEAM


@dataclass(frozen=True)
class _Again:
    """A sentence as it is searched again, and its number among all.

    `what` is wrong with its first output, and `how` it is searched again, as phrases.
    """

    number: int
    sentence: SearchSentence
    what: str
    how: str
    mended: Callable[
        [SearchSentence, Sequence[Hypothesis], Sequence[Hypothesis]], tuple[Sequence[Hypothesis], bool]
    ]


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
            kept, success = again.mended(again.sentence, found[again.number], hypotheses)
            end = "" if success else ", without success"
            note = f"guard: a first output that {again.what}, searched again {again.how}{end}"
            found[again.number] = [dataclasses.replace(kept[0], note=note), *kept[1:]]
            successes.append(success)
        return successes


def _again(number: int, sentence: SearchSentence, first: Hypothesis) -> _Again | None:
    """Return how a sentence is searched again; None if nothing is wrong with its first output."""
    if (what := defect(sentence.source, first, sentence.options)) is not None:
        again = without_repetition(sentence)
        how = f"without repeated {again.options.no_repeat_ngram}-grams"
        return _Again(number, again, what, how, mended)
    if sentence.numbers is None or sentence.terms is not None:
        return None
    lacking = sentence.numbers.lacking(first.tokens)
    terms = sentence.numbers.terms(lacking) if lacking else None
    if terms is None:
        return None
    options = dataclasses.replace(sentence.options, guard=False, beam=max(sentence.options.beam, TERM_BEAM))
    again = dataclasses.replace(sentence, options=options, terms=terms)
    return _Again(number, again, f"lacks {', '.join(lacking)}", "with it", _with_numbers)


def _with_numbers(
    sentence: SearchSentence, first: Sequence[Hypothesis], second: Sequence[Hypothesis]
) -> tuple[Sequence[Hypothesis], bool]:
    """Return the `second` hypotheses if the best has the source's numbers and no other defect, else the `first`."""
    assert sentence.numbers is not None
    success = not sentence.numbers.lacking(second[0].tokens) and not defect(
        sentence.source, second[0], sentence.options
    )
    return (second if success else first)[: len(first)], success
