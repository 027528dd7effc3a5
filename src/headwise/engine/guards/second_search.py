"""The search of sentences, and the second search of guarded ones whose first output has a defect.

It repeats itself, lacks numbers of its source or what a dictionary says for a word that the model hardly knows, or
leaves a quotation open.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwise.engine.base import BATCH_TOKENS, Engine, SearchSentence
from headwise.engine.guards.repetition import defect, mended, without_repetition
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.ids import check_sentences
from headwise.engine.symbols import Symbols
from headwise.engine.terms import TERM_BEAM, Terms


def search_checked(
    engine: Engine, sentences: Sequence[SearchSentence], symbols: Symbols, *, batch_tokens: int = BATCH_TOKENS
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence, as `Engine.search`; with the guard, those to keep.

    Raises `DataError` for ids that aren't in the vocabularies, a shortlist that isn't in order or has no end symbol,
    and terms that don't fit in an output, and `ConfigError` for terms with sampling.
    """
    check_sentences(engine, sentences, symbols)
    found = engine.search(sentences, symbols, batch_tokens=batch_tokens)
    again = SecondSearch(sentences, found)
    again.mend(found, engine.search(again.sentences, symbols, batch_tokens=batch_tokens))
    return found


@dataclass(frozen=True)
class _Again:
    """A sentence as it is searched again, and its number among all.

    `what` is wrong with its first output, and `how` it is searched again, as phrases; empty if nobody needs to know.
    """

    number: int
    sentence: SearchSentence
    what: str
    how: str
    mended: Callable[[SearchSentence, Sequence[Hypothesis], Sequence[Hypothesis]], tuple[Sequence[Hypothesis], bool]]


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
            note = note if again.what else ""
            found[again.number] = [dataclasses.replace(kept[0], note=note), *kept[1:]]
            successes.append(success)
        return successes


def _again(number: int, sentence: SearchSentence, first: Hypothesis) -> _Again | None:
    """Return how a sentence is searched again; None if nothing is wrong with its first output."""
    words = []
    if sentence.words is not None and sentence.terms is None:
        words = sentence.words.lacking(first.tokens)
        if words and sentence.prefix is None and (whole := sentence.words.whole()) is not None:
            return _Again(number, _as_whole(sentence, whole), "", "", _looked_up)
    if (what := defect(sentence.source, first, sentence.options)) is not None:
        again = without_repetition(sentence)
        how = f"without repeated {again.options.no_repeat_ngram}-grams"
        return _Again(number, again, what, how, mended)
    if sentence.terms is not None:
        return None
    if sentence.numbers is not None and (lacking := sentence.numbers.lacking(first.tokens)):
        terms = sentence.numbers.terms(lacking)
        if terms is not None:
            what = f"lacks {', '.join(lacking)}"
            return _Again(number, _with_terms(sentence, terms), what, "with it", _with_numbers)
    if words and sentence.words is not None and (terms := sentence.words.terms(words)) is not None:
        return _Again(number, _with_terms(sentence, terms), "", "", _with_words)
    if sentence.quotations is not None and (terms := sentence.quotations.lacking_ends(first.tokens)) is not None:
        return _Again(number, _with_terms(sentence, terms), "", "", _with_quotations)
    return None


def _as_whole(sentence: SearchSentence, ids: Sequence[int]) -> SearchSentence:
    """Return a sentence as it is searched for the one output that has these ids."""
    options = dataclasses.replace(sentence.options, guard=False, max_length=len(ids), min_length=0, n_best=1)
    return dataclasses.replace(sentence, options=options, prefix=ids, lettered=False)


def _with_terms(sentence: SearchSentence, terms: Terms) -> SearchSentence:
    """Return a sentence as it is searched with terms, for as many outputs as the beam has, of twice as many.

    The first ones that end are often those that place a term early, at an unlikely place, and end early.
    """
    beam = max(sentence.options.beam, TERM_BEAM)
    patience = max(sentence.options.patience, 2.0)
    options = dataclasses.replace(sentence.options, guard=False, beam=beam, n_best=beam, patience=patience)
    return dataclasses.replace(sentence, options=options, terms=terms)


def _with_numbers(
    sentence: SearchSentence, first: Sequence[Hypothesis], second: Sequence[Hypothesis]
) -> tuple[Sequence[Hypothesis], bool]:
    """Return the `second` hypotheses, the best sound one first, or the `first` ones if none is."""
    return _headed(next(iter(_sound(sentence, second)), None), first, second)


def _looked_up(
    sentence: SearchSentence, first: Sequence[Hypothesis], second: Sequence[Hypothesis]
) -> tuple[Sequence[Hypothesis], bool]:
    """Return the one hypothesis of a single word that was looked up, and the `first` ones behind it."""
    return [second[0], *first][: len(first)], True


def _with_words(
    sentence: SearchSentence, first: Sequence[Hypothesis], second: Sequence[Hypothesis]
) -> tuple[Sequence[Hypothesis], bool]:
    """Return the `second` hypotheses, that in which the dictionary's words fit best first, or else the `first`."""
    assert sentence.words is not None
    assert sentence.terms is not None
    return _headed(sentence.words.best(first[0], _sound(sentence, second), sentence.terms), first, second)


def _with_quotations(
    sentence: SearchSentence, first: Sequence[Hypothesis], second: Sequence[Hypothesis]
) -> tuple[Sequence[Hypothesis], bool]:
    """Return the `second` hypotheses, the best one that ends its quotations first, or else the `first`."""
    assert sentence.quotations is not None
    return _headed(sentence.quotations.best(first[0], _sound(sentence, second)), first, second)


def _sound(sentence: SearchSentence, found: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return the hypotheses that have the source's numbers and no defect."""
    return [
        each
        for each in found
        if not (sentence.numbers is not None and sentence.numbers.lacking(each.tokens))
        and not defect(sentence.source, each, sentence.options)
    ]


def _headed(
    best: Hypothesis | None, first: Sequence[Hypothesis], second: Sequence[Hypothesis]
) -> tuple[Sequence[Hypothesis], bool]:
    """Return the `second` hypotheses, the best one first and as many as the `first`, which are kept without a best."""
    if best is None:
        return first, False
    return [best, *(each for each in second if each is not best)][: len(first)], True
