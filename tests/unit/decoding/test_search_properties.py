from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding_models import EOS, SYMBOLS, TreeModel, decode, plain_beam_search, sentences, tiny_transformer
from headwise.decoding.engine import PyTorchEngine
from headwise.decoding.search import search
from headwise.decoding.selection import best_continuations
from headwise.engine.base import SearchSentence
from headwise.engine.options import SearchOptions

TRANSFORMER = tiny_transformer()


@st.composite
def beam_options(draw: st.DrawFn) -> SearchOptions:
    beam = draw(st.integers(1, 5))
    return SearchOptions(
        beam=beam,
        n_best=draw(st.integers(1, beam)),
        alpha=draw(st.sampled_from([0.0, 0.6, 1.0, 3.0])),
        min_length=draw(st.integers(0, 3)),
        max_length=draw(st.sampled_from([None, 3, 5])),
        extra_length=draw(st.integers(0, 4)),
        no_repeat_ngram=draw(st.integers(0, 3)),
        patience=draw(st.sampled_from([1.0, 2.0, math.inf])),
        allow_unknown=draw(st.booleans()),
    )


def words(vocabulary: int, longest: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(4, vocabulary - 1), max_size=longest)


@settings(max_examples=60, deadline=None)
@given(
    options=beam_options(),
    pairs=st.lists(st.tuples(words(8, 4), words(8, 3), st.booleans()), min_size=1, max_size=4),
    letters=st.frozensets(st.integers(4, 7)),
    sharpness=st.sampled_from([0.5, 1.5, 4.0]),
    seed=st.integers(0, 1000),
)
def test_search_is_its_definition(
    options: SearchOptions,
    pairs: list[tuple[list[int], list[int], bool]],
    letters: frozenset[int],
    sharpness: float,
    seed: int,
) -> None:
    model = TreeModel(words=4, sharpness=sharpness, seed=seed)
    sources = [[*source, EOS] for source, _, _ in pairs]
    prefixes, lettered = [prefix for _, prefix, _ in pairs], [needy for _, _, needy in pairs]
    symbols = dataclasses.replace(SYMBOLS, lettered=bytes(token in letters for token in range(8)))
    found = decode(model, sources, options, symbols, prefixes=prefixes, lettered=lettered)
    for source, prefix, needy, hypotheses in zip(sources, prefixes, lettered, found, strict=True):
        expected = plain_beam_search(model, source, options, tuple(prefix), letters if needy else None)
        assert [h.tokens for h in hypotheses] == [tokens for _, tokens in expected]
        assert [h.score for h in hypotheses] == pytest.approx([value for value, _ in expected], rel=1e-4, abs=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    order=st.permutations(range(10)),
    tokens=st.sampled_from([1, 30, 1000]),
    options=beam_options() | st.builds(SearchOptions, sample=st.just(True), n_best=st.integers(1, 3)),
)
def test_batch_order_and_size_never_change_a_translation(order: list[int], tokens: int, options: SearchOptions) -> None:
    sources = sentences(10, longest=8)
    together = decode(TRANSFORMER, sources, options, SYMBOLS)
    shuffled = decode(TRANSFORMER, [sources[row] for row in order], options, SYMBOLS, batch_tokens=tokens)
    for row, found in zip(order, shuffled, strict=True):
        assert [h.tokens for h in found] == [h.tokens for h in together[row]]
        for a, b in zip(found, together[row], strict=True):
            assert a.token_log_probabilities == pytest.approx(b.token_log_probabilities, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(extra=st.integers(1, 20), row=st.integers(0, 9))
def test_padding_never_changes_a_translation(extra: int, row: int) -> None:
    source, options = sentences(10, longest=8)[row], SearchOptions(n_best=4, extra_length=8)
    sentence, longer = (SearchSentence(ids, options) for ids in (source, [*[5] * extra, *source]))
    ((*plain,),) = search(TRANSFORMER, [sentence], SYMBOLS)
    (*padded_out,), _ = search(TRANSFORMER, [sentence, longer], SYMBOLS)
    assert [h.tokens for h in plain] == [h.tokens for h in padded_out]
    assert [h.score for h in plain] == pytest.approx([h.score for h in padded_out], abs=1e-4)


@settings(max_examples=30, deadline=None)
@given(targets=st.lists(words(50, 10), min_size=1, max_size=6), tokens=st.sampled_from([1, 40, 1000]))
def test_forced_scores_do_not_depend_on_the_batch(targets: list[list[int]], tokens: int) -> None:
    sources = sentences(len(targets), longest=8)
    engine = PyTorchEngine(TRANSFORMER)
    together = engine.score(sources, targets, SYMBOLS, alpha=0.6, batch_tokens=tokens)
    for source, target, found in zip(sources, targets, together, strict=True):
        (alone,) = engine.score([source], [target], SYMBOLS, alpha=0.6)
        assert found.tokens == tuple(target)
        assert len(found.token_log_probabilities) == len(target) + 1
        assert found.token_log_probabilities == pytest.approx(alone.token_log_probabilities, abs=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 4), st.sampled_from([5, 63, 64, 65, 130, 200])),
    seed=st.integers(0, 10_000),
    levels=st.sampled_from([2, 5, 10_000]),
)
def test_best_continuations_are_the_first_of_all_sorted(shape: tuple[int, int, int], seed: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    log_probs = -rng.integers(0, levels, shape).astype(np.float32)
    log_probs[rng.random(shape) < 0.1] = -np.inf
    totals = -rng.integers(0, 3, shape[:2]).astype(np.float32)
    totals[rng.random(shape[:2]) < 0.2] = -np.inf
    count = 2 * shape[1]
    values, parents, tokens = best_continuations(torch.tensor(log_probs), torch.tensor(totals), count)
    for row in range(shape[0]):
        every = (log_probs[row] + totals[row][:, None]).flatten()
        order = np.argsort(-every, kind="stable")[:count]  # stable: equal values by hypothesis, then by token
        real = np.isfinite(every[order])
        assert values[row].tolist() == every[order].tolist()
        assert (parents[row].numpy() * shape[2] + tokens[row].numpy())[real].tolist() == order[real].tolist()
