"""The guard finds outputs that repeat themselves or run on, and searches them again."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.robustness import LISTS, phrases
from decoding_models import EOS, SYMBOLS, TreeModel, decode, sentences, tiny_transformer
from headwise.engine.base import SearchSentence
from headwise.engine.guards.repetition import NGRAM, defect, loops
from headwise.engine.guards.second_search import SecondSearch
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions
from headwise.engine.terms import Term, Terms
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from native_engines import compiled
from scheduler_engines import native

GUARDED = SearchOptions(guard=True)


class Stuck(TreeModel):
    """A model that repeats one word nearly always, unless the source has another one."""

    def log_probs(self, source: tuple[int, ...], prefix: tuple[int, ...]) -> np.ndarray:
        stuck = source[0] == 4
        likely = np.array([0, 0, 0, 1e-4 if stuck else 0.5, 0.9 if stuck else 0.2, 0.03, 0.02])
        return np.log(np.maximum(likely, 1e-30) / likely.sum())


@pytest.mark.parametrize(
    ("tokens", "found"),
    [
        ([5] * 8, True),
        ([5] * 7, False),
        ([7, 8, 9] * 4, True),
        ([7, 8, 9] * 3 + [7, 8], False),
        ([1, 2, *[7, 8, 9, 4, 6, 5, 3, 2, 1, 11, 12, 13] * 4, 9], True),
        ([*range(13)] * 5, False),
        (list(range(100)), False),
        ([5, 6, 5, 7, 5, 6, 5, 8] * 3, False),
        ([], False),
    ],
)
def test_loops(tokens: list[int], found: bool) -> None:
    assert loops(tokens) == found


def test_what_is_wrong_with_an_output() -> None:
    def found(source: int, length: int, options: SearchOptions = GUARDED) -> str | None:
        return defect(list(range(source)), Hypothesis(tuple(range(length)), 0.0, 0.0, ()), options)

    assert found(10, 49) is None
    assert found(10, 50) == "is far longer than its source"
    assert found(40, 88) is None
    assert found(40, 89) == "is far longer than its source"  # ended by the limit of 50 more
    assert found(40, 89, SearchOptions(max_length=89)) is None  # ended as was asked for
    assert defect([7] * 9, Hypothesis((8,) * 9, 0.0, 0.0, ()), GUARDED) is None  # as its source


def test_what_is_wrong_with_the_output_of_a_short_source() -> None:
    def found(tokens: list[int], source: list[int]) -> str | None:
        return defect([*source, EOS], Hypothesis(tuple(tokens), 0.0, 0.0, ()), GUARDED)

    assert found([5, 6, 6, 6], [7]) == "repeats itself"
    assert found([5, 6, 6], [7]) is None
    assert found([5, 6, 6, 6], [7, 7, 7]) is None  # as its source
    assert found([5, 6, 6, 6], [7, 8, 9, 10, 11, 12, 13]) == "repeats itself"
    assert found([5, 6, 6, 6], [7, 8, 9, 10, 11, 12, 13, 14]) is None  # of a sentence
    assert found(list(range(13)), [7]) is None
    assert found(list(range(14)), [7]) == "is far longer than its source"


def test_words_and_strings_of_programs() -> None:
    translator = Translator.load("demo", device="cpu")
    for translation in translator.translate(list(phrases(LISTS["words and phrases"], ("en", "de"))), guard=True):
        output, text = translation.outputs[0], translation.source
        assert any(map(str.isalnum, output.text)) >= any(map(str.isalnum, text))
        ids = [*translator.subwords.encode_source(text), EOS]
        problem = defect(ids, Hypothesis(output.tokens, 0.0, 0.0, ()), translator.options)
        assert (problem is None) == ("without success" not in "".join(translation.warnings))


def test_an_output_that_repeats_itself_is_searched_again() -> None:
    model, sources = Stuck(), [[4, 5, 6, 5, 6, 5, 4, 5, EOS], [5, 6, EOS]]
    plain = decode(model, sources, SearchOptions(), SYMBOLS)
    found = decode(model, sources, GUARDED, SYMBOLS)
    assert loops(plain[0][0].tokens)
    assert not loops(found[0][0].tokens)
    assert found[0][0].note.startswith("guard: a first output that repeats itself")
    assert found[1] == plain[1]
    (second,) = decode(model, sources[:1], SearchOptions(no_repeat_ngram=NGRAM), SYMBOLS)
    assert [each.tokens for each in found[0]] == [each.tokens for each in second]


def test_a_second_search_without_success_says_so() -> None:
    class Endless(TreeModel):
        def log_probs(self, source: tuple[int, ...], prefix: tuple[int, ...]) -> np.ndarray:
            found = super().log_probs(source, prefix)
            found[EOS] = -50.0
            return found

    options = SearchOptions(beam=1, guard=True, extra_length=60)
    (found,) = decode(Endless(words=8), [[*range(4, 12), EOS]], options, SYMBOLS)
    assert found[0].note == (
        "guard: a first output that is far longer than its source, searched again without repeated 3-grams, "
        "without success"
    )


@compiled
def test_the_native_engine_is_guarded_alike() -> None:
    sources, options = sentences(30, 50, seed=9), SearchOptions(extra_length=40, guard=True)
    found, plain = (decode(native(), sources, each, SYMBOLS) for each in (options, SearchOptions(extra_length=40)))
    readable = decode(tiny_transformer(50), sources, options, SYMBOLS)
    assert [each[0].tokens for each in found] == [each[0].tokens for each in readable]
    assert [each[0].note for each in found] == [each[0].note for each in readable]
    for ours, theirs in zip(found, plain, strict=True):
        assert bool(ours[0].note) == (theirs != ours)


def test_samples_are_not_guarded() -> None:
    with pytest.raises(ConfigError, match="guard: expected it together with beam search, found sampling"):
        SearchOptions(sample=True, guard=True)


@pytest.mark.parametrize(("count", "used"), [(1, NGRAM), (2, 6)])
def test_a_term_may_occur_again_in_the_second_search(count: int, used: int) -> None:
    terms = Terms([Term(((11, 12), (11, 12, 13, 14, 15)), count)])
    sentence = SearchSentence([*range(10, 30), EOS], GUARDED, terms=terms)
    loop = Hypothesis.scored([7] * 40, [-0.1] * 41, 0.6)
    (again,) = SecondSearch([sentence], [[loop]]).sentences
    assert again.options.no_repeat_ngram == used


@pytest.mark.parametrize(("asked", "used"), [(0, 3), (2, 2), (4, 3)])
def test_the_second_search_is_no_looser_than_the_first(asked: int, used: int) -> None:
    sentence = SearchSentence([*range(10, 30), EOS], SearchOptions(guard=True, no_repeat_ngram=asked))
    loop = Hypothesis.scored([7] * 40, [-0.1] * 41, 0.6)
    (again,) = SecondSearch([sentence], [[loop]]).sentences
    assert again.options.no_repeat_ngram == used
