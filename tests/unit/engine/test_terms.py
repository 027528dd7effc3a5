"""Terms are placed: the automaton against plain string search, the search against all outputs, and both engines."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding_models import EOS, SYMBOLS, TreeModel, all_outputs, decode, sentences, tiny_transformer
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.options import SearchOptions
from headwise.engine.scheduling.scheduler import Scheduler
from headwise.engine.terms import START, Term, Terms
from headwise.errors import ConfigError, DataError
from native_engines import compiled
from scheduler_engines import SIZE, assert_alike, native, shortlist, submit, transformer

FORMS = st.lists(st.integers(4, 6), min_size=1, max_size=3).map(tuple)
TERMS = st.lists(
    st.builds(Term, st.lists(FORMS, min_size=1, max_size=2).map(tuple), st.integers(1, 2)),
    min_size=1,
    max_size=3,
)


def contains(tokens: tuple[int, ...], term: Term, continuing: bytes = b"") -> bool:
    """Whether a form ends at enough places, none of them inside a word."""
    ends = {
        end
        for form in term.forms
        for end in range(len(form), len(tokens) + 1)
        if tokens[end - len(form) : end] == form and not (continuing and end < len(tokens) and continuing[tokens[end]])
    }
    return len(ends) >= term.count


@settings(max_examples=300)
@given(TERMS, st.lists(st.integers(4, 7), max_size=12), st.sampled_from([b"", bytes([0, 0, 0, 0, 0, 1, 0, 0])]))
def test_the_automaton_finds_what_searching_the_tokens_finds(
    terms: list[Term], tokens: list[int], continuing: bytes
) -> None:
    automaton, state = Terms(terms), START
    for token in tokens:
        state = automaton.next(state, token, bool(continuing) and bool(continuing[token]))
        assert automaton.left(state) >= 0
    missing = [term for term in terms if not contains(tuple(tokens), term, continuing)]
    assert (automaton.left(state) == 0) == (not missing)
    # So many tokens suffice: those of the forms of the missing terms, one after the other.
    assert automaton.left(state) <= sum(term.length for term in terms)


def test_an_unfinished_form_is_found_in_what_follows() -> None:
    automaton, state = Terms([Term(((5, 5, 6),))]), START
    left = [automaton.left(state := automaton.next(state, token, False)) for token in (5, 5, 5, 6)]
    assert left == [2, 1, 1, 0]


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ([], "from 1 to 64 in a sentence, found 0"),
        ([Term(((4,),), 65)], "from 1 to 64 in a sentence, found 65"),
        ([Term(((4,),), 0)], "from 1 to 64 in a sentence, found 0"),
        ([Term(())], "forms of at least one token"),
        ([Term(((),))], "forms of at least one token"),
        ([Term((tuple(range(256)),))], "at most 256 tokens together"),
    ],
)
def test_terms_that_can_not_be(terms: list[Term], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        Terms(terms)


@pytest.mark.parametrize(
    ("forms", "options", "error", "sentence"),
    [
        ([(EOS,)], SearchOptions(), DataError, "terms of sentence 1: expected no special symbols, found 3"),
        ([(4, SIZE)], SearchOptions(), DataError, "form 1: expected ids from 0 to 49, found 50"),
        ([tuple([7] * 64)], SearchOptions(), DataError, "expected at most 63 tokens together, found 64"),
        ([(4,)], SearchOptions(sample=True), ConfigError, "expected beam search with them, found sampling"),
    ],
)
def test_terms_that_a_search_refuses(
    forms: list[tuple[int, ...]], options: SearchOptions, error: type[Exception], sentence: str
) -> None:
    terms = Terms([Term(tuple(forms))])
    with pytest.raises(error, match=sentence):
        decode(transformer(), [[5, EOS]], options, SYMBOLS, terms=[terms])
    with Scheduler(PyTorchEngine(transformer()), SYMBOLS) as scheduler, pytest.raises(error, match=sentence):
        submit(scheduler, [5, EOS], options, terms=terms)


def test_a_language_code_in_a_prefix_takes_one_place() -> None:
    """Regression: a prefix that began with the code left one token less for terms than there is room for."""
    symbols, terms = dataclasses.replace(SYMBOLS, given=(9,)), Terms([Term((tuple([7] * 62),))])
    (found,) = decode(transformer(), [[5, EOS]], SearchOptions(), symbols, prefixes=[[9]], terms=[terms])
    assert found[0].tokens == (9, *[7] * 62)


WIDE = {
    "one": [Term(((4, 5),))],
    "alternatives": [Term(((4, 4), (5,)))],
    "twice": [Term(((4,),), 2)],
    "two": [Term(((4,),)), Term(((5, 6),))],
    "three": [Term(((4,),)), Term(((5,),)), Term(((6,),))],
    "long": [Term(((6, 5, 4),))],
}


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("terms", WIDE.values(), ids=WIDE.keys())
def test_a_wide_beam_finds_the_best_of_all_outputs_with_the_terms(alpha: float, terms: list[Term], seed: int) -> None:
    model = TreeModel(words=3, seed=seed)
    options = SearchOptions(beam=121, n_best=3, alpha=alpha, max_length=4, patience=math.inf)
    (found,) = decode(model, [[4, 6, EOS]], options, SYMBOLS, terms=[Terms(terms)])
    expected = [
        (value, words)
        for value, words in all_outputs(model, [4, 6, EOS], alpha, longest=4)
        if all(contains(words, term) for term in terms)
    ][:3]
    assert [hypothesis.tokens for hypothesis in found] == [words for _, words in expected]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([value for value, _ in expected], rel=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(beam=1),
        SearchOptions(beam=5, n_best=5, extra_length=5),
        SearchOptions(beam=3, max_length=2, extra_length=0),
        SearchOptions(beam=4, min_length=9, no_repeat_ngram=5),
    ],
)
def test_all_outputs_contain_the_terms_and_have_the_forced_score(options: SearchOptions) -> None:
    model, sources = tiny_transformer(), sentences(12)
    chosen = random_terms(12)
    found = decode(model, sources, options, SYMBOLS, terms=chosen)
    plain = decode(model, sources, options, SYMBOLS)
    for terms, hypotheses, without in zip(chosen, found, plain, strict=True):
        if terms is None:
            assert_alike(hypotheses, without)
            continue
        for hypothesis in hypotheses:
            assert all(contains(hypothesis.tokens, term) for term in terms.terms)
    outputs = [list(hypothesis.tokens) for hypotheses in found for hypothesis in hypotheses]
    repeated = [source for source, hypotheses in zip(sources, found, strict=True) for _ in hypotheses]
    forced = PyTorchEngine(model).score(repeated, outputs, SYMBOLS, alpha=options.alpha)
    scores = [hypothesis.score for hypotheses in found for hypothesis in hypotheses]
    assert [hypothesis.score for hypothesis in forced] == pytest.approx(scores, abs=1e-4)


def test_a_term_that_the_output_has_anyway_changes_nothing() -> None:
    model, sources = tiny_transformer(), sentences(12)
    options = SearchOptions(beam=12, patience=math.inf)
    plain = decode(model, sources, options, SYMBOLS)
    terms = [Terms([Term((hypotheses[0].tokens[:2] or (9,),))]) for hypotheses in plain]
    found = decode(model, sources, options, SYMBOLS, terms=terms)
    pairs = [(ours[0], theirs[0]) for ours, theirs in zip(found, plain, strict=True) if theirs[0].tokens]
    assert len(pairs) > 6
    assert all(ours.tokens == theirs.tokens for ours, theirs in pairs)


def test_the_search_waits_for_a_term_that_is_likely_late() -> None:
    class Late(TreeModel):
        def log_probs(self, source: tuple[int, ...], prefix: tuple[int, ...]) -> np.ndarray:
            values = np.full(self.target_size, -30.0)
            if 5 in prefix:
                values[EOS] = math.log(0.99)
            else:
                values[4], values[5] = math.log(0.98), math.log(0.02)
                if len(prefix) == 8:
                    values[4], values[5] = values[5], values[4]
            return values

    # From the second step on, hypotheses that have placed it are finished, of probability 0.02.
    (found,) = decode(Late(), [[4, EOS]], SearchOptions(beam=2), SYMBOLS, terms=[Terms([Term(((5,),))])])
    assert found[0].tokens == (4,) * 8 + (5,)


def random_terms(count: int, seed: int = 0, size: int = 50) -> list[Terms | None]:
    """Return terms for so many sentences: none, or up to 3 of up to 2 forms."""
    rng = np.random.default_rng(seed)

    def form() -> tuple[int, ...]:
        return tuple(rng.integers(4, size, size=rng.integers(1, 4)).tolist())

    def term() -> Term:
        return Term(tuple(form() for _ in range(rng.integers(1, 3))), int(rng.integers(1, 3)))

    return [Terms([term() for _ in range(number)]) if number else None for number in rng.integers(0, 4, size=count)]


NATIVE: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "beam": {},
    "n best": {"beam": 8, "n_best": 8, "alpha": 1.3},
    "long": {"beam": 3, "min_length": 9, "extra_length": 12},
    "tight": {"beam": 3, "max_length": 3},
    "patient": {"beam": 2, "patience": math.inf, "n_best": 2, "allow_unknown": True},
    "wide": {"beam": 20, "n_best": 2, "extra_length": 4},
}


@compiled
@pytest.mark.parametrize(
    ("options", "given_code"),
    [*((options, ()) for options in NATIVE.values()), ({}, (9,)), ({"beam": 2}, (9,))],
    ids=[*NATIVE, "given", "given, narrow"],
)
def test_both_engines_place_the_same(options: dict[str, Any], given_code: tuple[int, ...]) -> None:
    continuing = bytes(number % 5 == 4 for number in range(SIZE))
    symbols = dataclasses.replace(SYMBOLS, given=given_code, continuing=continuing)
    sources, search = sentences(9, SIZE, seed=3), SearchOptions(**options)
    terms = random_terms(9, seed=5, size=9 if search.beam == 8 else SIZE)  # many with common beginnings
    if given_code:
        terms = [None if each is None or 9 in each.tokens else each for each in terms]
    symbols = dataclasses.replace(symbols, lettered=bytes(number % 9 == 8 for number in range(SIZE)))
    for lists, needy in ((None, False), (shortlist, False), (None, True), (shortlist, True)):
        expected, found = (
            decode(each, sources, search, symbols, terms=terms, shortlist=lists, lettered=[needy] * 9)
            for each in (transformer(), native())
        )
        for ours, theirs in zip(found, expected, strict=True):
            assert_alike(ours, theirs)


@compiled
def test_continuous_batches_give_the_results_of_each_sentence_alone() -> None:
    sources, options = sentences(30, SIZE, seed=4), SearchOptions(beam=6, n_best=2)
    terms = random_terms(30, seed=6)
    alone = [
        decode(native(), [source], options, SYMBOLS, terms=[each])[0]
        for source, each in zip(sources, terms, strict=True)
    ]
    lists = [shortlist(source) if number % 3 == 0 else None for number, source in enumerate(sources)]
    with Scheduler(native(), SYMBOLS, batch_tokens=300) as scheduler:
        futures = [submit(scheduler, source, options, terms=each) for source, each in zip(sources, terms, strict=True)]
        listed = [
            submit(scheduler, source, options, terms=each, allowed=allowed)
            for source, each, allowed in zip(sources, terms, lists, strict=True)
        ]
        begun = submit(scheduler, sources[0], options, terms=Terms([Term(((7, 8),))]), prefix=[9])
    assert [future.result() for future in futures] == alone
    assert begun.result()[0].tokens[0] == 9
    assert contains(begun.result()[0].tokens, Term(((7, 8),)))
    for future, each in zip(listed, terms, strict=True):
        for hypothesis in future.result():
            assert all(contains(hypothesis.tokens, term) for term in (each.terms if each else ()))
