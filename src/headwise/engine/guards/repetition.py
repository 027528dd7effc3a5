"""A guard against outputs that repeat themselves or run on: they are found after the search, and searched again.

A model that gets stuck repeats a few tokens until the length limit. The second search forbids it to repeat any n-gram
(`no_repeat_ngram`), which would harm other sentences, as good translations repeat n-grams, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from headwise.engine.base import SearchSentence
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions

NGRAM = 3  # of which none is repeated in the second search
_PERIOD = 12  # most tokens that are repeated
_TIMES = 4  # repetitions of them, one after the other
_LEAST = 8  # tokens of all repetitions
_MORE = 20  # tokens besides 3 times the source
# The same of a short source, such as the strings of a program.
_SHORT = 8  # tokens of a source, the end symbol included
_SHORT_NGRAM, _SHORT_TIMES, _SHORT_LEAST, _SHORT_MORE = 2, 3, 3, 8


def without_repetition(sentence: SearchSentence) -> SearchSentence:
    """Return a sentence, unguarded, whose output repeats no n-gram of the guard's size, or the request's if smaller.

    The guard's is longer than each term that must occur several times.
    """
    terms = () if sentence.terms is None else sentence.terms.terms
    repeated = (len(form) + 1 for term in terms if term.count > 1 for form in term.forms)
    size = max([_SHORT_NGRAM if len(sentence.source) <= _SHORT else NGRAM, *repeated])
    size = min(size, sentence.options.no_repeat_ngram or size)
    options = dataclasses.replace(sentence.options, guard=False, no_repeat_ngram=size)
    return dataclasses.replace(sentence, options=options)


def defect(source: Sequence[int], hypothesis: Hypothesis, options: SearchOptions) -> str | None:
    """Return a phrase that says what is wrong with an output; None where nothing is.

    It repeats up to 12 tokens at least 4 times in a row, over at least 8 tokens, while the source doesn't; or it is
    longer than 3 times the source and 20 tokens; or it is longer than 1.5 times the source and 10 tokens and was ended
    by the length limit that depends on the source. Lengths count end symbols. Of a source of at most 8 tokens, an
    output repeats itself with 3 repetitions, of one token or more, and is too long beyond 3 times the source and 8.
    """
    length, short = len(hypothesis.tokens) + 1, len(source) <= _SHORT
    bounds = (_SHORT_TIMES, _SHORT_LEAST) if short else (_TIMES, _LEAST)
    if loops(hypothesis.tokens, *bounds) and not loops(source, *bounds):
        return "repeats itself"
    limited = length >= options.limit(len(source)) and (options.max_length is None or length <= options.max_length)
    if length > 3 * len(source) + (_SHORT_MORE if short else _MORE) or (limited and length > 1.5 * len(source) + 10):
        return "is far longer than its source"
    return None


def loops(tokens: Sequence[int], times: int = _TIMES, least: int = _LEAST) -> bool:
    """Whether up to `_PERIOD` tokens occur `times` times in a row, over `least` tokens at least."""
    for period in range(1, min(_PERIOD, len(tokens) // times) + 1):
        equal = 0
        for one, other in zip(tokens, tokens[period:], strict=False):
            equal = equal + 1 if one == other else 0
            if equal + period >= max(times * period, least):
                return True
    return False


def mended(
    sentence: SearchSentence, first: Sequence[Hypothesis], second: Sequence[Hypothesis]
) -> tuple[Sequence[Hypothesis], bool]:
    """Return the hypotheses to keep, and whether nothing is wrong with the best any more.

    `first` are those with the defect; they are kept only where the `second` ones have one and are longer.
    """
    success = defect(sentence.source, second[0], sentence.options) is None
    return second if success or len(second[0].tokens) <= len(first[0].tokens) else first, success
