"""Samples, prefixes and ensembles of the native engine are those of PyTorch; samples have the model's probabilities."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from decoding_models import EOS, SYMBOLS, decode, sentences
from headwise.decoding.engine import PyTorchEngine
from headwise.decoding.ensemble import Ensemble
from headwise.engine.base import Engine
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.native.engine import NativeEngine
from headwise.engine.options import SearchOptions
from headwise.models.base import Seq2Seq
from headwise.models.transformer import Transformer
from headwise.native.library import Library
from native_engines import compiled, native_engine, search_at_once
from native_models import (
    SEARCHES,
    VOCABULARY,
    assert_same,
    pairs,
    shared_engine,
    shared_transformer,
    shortlist,
    transformer,
)

pytestmark = compiled


SAMPLED = {
    "all": SearchOptions(sample=True, n_best=5, seed=4),
    "one": SearchOptions(sample=True, allow_unknown=True),
    "likeliest": SearchOptions(sample=True, n_best=3, top_k=9, min_length=4),
    "most": SearchOptions(sample=True, n_best=3, top_k=VOCABULARY - 1, max_length=9),  # more than are listed
    "nucleus": SearchOptions(sample=True, n_best=3, top_p=0.7),
    "cold": SearchOptions(sample=True, n_best=3, top_k=40, top_p=0.9, temperature=0.5, max_length=9),
    "hot": SearchOptions(sample=True, n_best=3, temperature=3.0, no_repeat_ngram=1, min_length=9),
}


PREFIXES: list[list[int]] = [[7, 8], [], [9], [149], [4, 5, 6], [2, 0, 1]]


@pytest.mark.parametrize("options", [*SEARCHES.values(), *SAMPLED.values()], ids=[*SEARCHES, *SAMPLED])
@pytest.mark.parametrize("listed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_prefixes_and_samples_are_those_of_pytorch(library: Library, options: SearchOptions, listed: bool) -> None:
    for found, expected in zip(
        prefixed(shared_engine(library), options, listed), prefixed_by_pytorch(options, listed), strict=True
    ):
        assert_same_but_for_draws(found, expected, options)


def prefixed(searched: Engine | Seq2Seq, options: SearchOptions, listed: bool) -> list[list[list[Hypothesis]]]:
    """Search with prefixes; samples, whose other tests have none, without them, too."""
    sources, lists = sentences(6, VOCABULARY, seed=11), shortlist if listed else None
    return [
        decode(searched, sources, options, prefixes=prefixes, shortlist=lists, batch_tokens=60)
        for prefixes in (PREFIXES, *([None] if options.sample else []))
    ]


@cache
def prefixed_by_pytorch(options: SearchOptions, listed: bool) -> list[list[list[Hypothesis]]]:
    """Search with PyTorch, once for all variants of the library."""
    return prefixed(shared_transformer(), options, listed)


LETTERED = [number % 4 > 0 for number in range(12)]
FEW = {17, 40, 99, 149}  # tokens with letters, so that most outputs would end without one


@pytest.mark.parametrize("options", [*SEARCHES.values(), *SAMPLED.values()], ids=[*SEARCHES, *SAMPLED])
@pytest.mark.parametrize("listed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_letters_are_demanded_as_by_pytorch(library: Library, options: SearchOptions, listed: bool) -> None:
    found, expected = lettered(shared_engine(library), options, listed), lettered_by_pytorch(options, listed)
    assert_same_but_for_draws(found, expected, options)


def lettered(
    searched: Engine | Seq2Seq, options: SearchOptions, listed: bool, **demanded: Any
) -> list[list[Hypothesis]]:
    """Search where some sentences need a token with a letter."""
    symbols = dataclasses.replace(SYMBOLS, lettered=bytes(token in FEW for token in range(VOCABULARY)))
    sources, lists = sentences(12, VOCABULARY, seed=11), shortlist if listed else None
    given: dict[str, Any] = {"prefixes": [*PREFIXES, *[[]] * 6], "shortlist": lists, "lettered": LETTERED}
    return decode(searched, sources, options, symbols, **given | demanded)


@cache
def lettered_by_pytorch(options: SearchOptions, listed: bool) -> list[list[Hypothesis]]:
    """Search with PyTorch, once for all variants of the library; outputs have letters where they are demanded."""
    expected, lists = lettered(shared_transformer(), options, listed), shortlist if listed else None
    for source, needy, hypotheses in zip(sentences(12, VOCABULARY, seed=11), LETTERED, expected, strict=True):
        if needy and (lists is None or FEW & {*lists(source).tolist()}):
            assert all(FEW & {*hypothesis.tokens} for hypothesis in hypotheses)
    free = lettered(shared_transformer(), options, listed, lettered=None)
    assert [found for found, needy in zip(expected, LETTERED, strict=True) if not needy] == [
        found for found, needy in zip(free, LETTERED, strict=True) if not needy
    ]
    return expected


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("options", SAMPLED.values(), ids=SAMPLED.keys())
def test_no_sample_depends_on_the_batch_or_the_other_samples(
    library: Library, precision: str, options: SearchOptions
) -> None:
    fast = shared_engine(library, precision)
    sources = sentences(9, VOCABULARY, seed=6)
    together = search_at_once(fast, sources, options, 9)
    alone = [search_at_once(fast, [source], options, 1)[0] for source in sources]
    fewer = search_at_once(fast, sources, dataclasses.replace(options, n_best=1), 3)
    assert together == alone
    assert [hypotheses[:1] for hypotheses in together] == fewer


def test_samples_have_the_probabilities_of_the_model() -> None:
    """The chi-square statistic of 20,000 drawn first tokens; exact probabilities by the PyTorch model."""
    model, source, count = shared_transformer(), [9, 30, EOS], 20_000
    options = SearchOptions(sample=True, n_best=count, max_length=1, temperature=1.5, top_k=30, seed=8)
    (found,) = decode(native_engine(model), [source], options)
    with torch.inference_mode():
        hidden = model(torch.tensor([source]), torch.ones(1, 3, dtype=torch.bool), torch.tensor([[SYMBOLS.bos]]))
        logits = model.project(hidden)[0, 0].double()
        logits[[SYMBOLS.pad, SYMBOLS.bos, SYMBOLS.unknown]] = -math.inf
    kept = logits.topk(30)
    expected = dict(zip(kept.indices.tolist(), (kept.values / 1.5).softmax(0).tolist(), strict=True))
    drawn = Counter(hypothesis.tokens[0] if hypothesis.tokens else EOS for hypothesis in found)
    assert sum(drawn.values()) == count
    assert drawn.keys() <= expected.keys()
    statistic = sum((drawn[token] - count * p) ** 2 / (count * p) for token, p in expected.items())
    assert statistic < 29 + 5 * math.sqrt(2 * 29)  # mean and standard deviation with 29 degrees of freedom


def test_more_rows_than_16_bits_count_keep_apart() -> None:
    """Regression: samples from the 65,536th on continued the keys and values of other samples."""
    model = transformer(d_model=16, d_ff=16, heads=1, encoder_layers=1, decoder_layers=1)
    fast, count, source = native_engine(model), (1 << 16) + 8, [9, 8, EOS]
    options = SearchOptions(sample=True, n_best=count, min_length=3, max_length=3, alpha=0.0)
    (found,) = search_at_once(fast, [source], options, 1)
    assert len(found) == count
    for part in (found[:8], found[-8:]):
        assert_same([fast.score([source] * 8, [each.tokens for each in part], SYMBOLS, alpha=0.0)], [part])


@cache
def several() -> list[Transformer]:
    """Return models of one vocabulary and different shapes."""
    others = (
        {},
        {"d_model": 16, "decoder_layers": 1, "source_end": False},
        {"positions": "rotary", "max_length": 63},
    )
    return [transformer(seed=seed, **shape) for seed, shape in enumerate(others)]


@pytest.mark.parametrize(
    "options",
    [
        *(SearchOptions(), SEARCHES["n best"], SAMPLED["likeliest"], SAMPLED["nucleus"]),
        *(pytest.param(SAMPLED[name], marks=pytest.mark.slow) for name in ("all", "one", "most", "cold", "hot")),
    ],
)
def test_an_ensemble_is_that_of_pytorch(library: Library, options: SearchOptions) -> None:
    for found, expected in zip(
        searched_together(ensemble(library), options), searched_by_pytorch(options), strict=True
    ):
        assert_same_but_for_draws(found, expected, options)


def test_an_ensemble_scores_and_attends_as_that_of_pytorch(library: Library) -> None:
    fast, slow, (sources, targets) = ensemble(library), PyTorchEngine(Ensemble(several())), pairs()
    assert fast.max_length == slow.max_length == 63
    found, expected = ([each.score(sources, targets, SYMBOLS, alpha=1.0)] for each in (fast, slow))
    assert_same(found, expected)
    weights = zip(*(each.cross_attention(sources, targets, SYMBOLS) for each in (fast, slow)), strict=True)
    for found, expected in weights:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@cache
def ensemble(library: Library) -> NativeEngine:
    packed = [model for each in several() for model in native_engine(each, library).models]
    return NativeEngine(packed, open_pytorch=list, workers=2)


def searched_together(engine: Engine, options: SearchOptions) -> list[list[list[Hypothesis]]]:
    """Search by itself, with shortlists, and with prefixes."""
    sources, targets = pairs()
    return [
        decode(engine, sources, options, prefixes=prefixes, shortlist=lists)
        for prefixes, lists in ((None, None), (None, shortlist), (targets, None))
    ]


@cache
def searched_by_pytorch(options: SearchOptions) -> list[list[list[Hypothesis]]]:
    return searched_together(PyTorchEngine(Ensemble(several())), options)


def test_an_ensemble_may_mix_precisions(library: Library) -> None:
    sources, targets = pairs()
    mixed = [shared_engine(library, precision).models[0] for precision in ("float32", "int8", "bfloat16")]
    combined = NativeEngine(mixed, open_pytorch=list)
    found, expected = (
        np.concatenate([each.token_log_probabilities for each in engine.score(sources, targets, SYMBOLS, alpha=0.0)])
        for engine in (combined, shared_engine(library))
    )
    assert combined.description.endswith(", float32 and int8 and bfloat16, 1 worker")
    assert 0 < (found - expected).std() < 0.06 * expected.std()


def test_weights_are_averaged_over_heads_where_models_have_other_numbers_of_them(library: Library) -> None:
    models, (sources, targets) = [shared_transformer(), transformer(heads=2, decoder_layers=1)], pairs()
    alone = [PyTorchEngine(model).cross_attention(sources, targets, SYMBOLS) for model in models]
    packed = [part for model in models for part in native_engine(model, library).models]
    for engine in (PyTorchEngine(Ensemble(models)), NativeEngine(packed, open_pytorch=list)):
        weights = engine.cross_attention(sources, targets, SYMBOLS)
        for found, first, second in zip(weights, *alone, strict=True):
            expected = np.concatenate([first.mean(1, keepdims=True), second.mean(1, keepdims=True)])
            np.testing.assert_allclose(found, expected, atol=1e-5)


def assert_same_but_for_draws(
    found: list[list[Hypothesis]], expected: list[list[Hypothesis]], options: SearchOptions
) -> None:
    """Compare hypotheses; one sample may differ, where a random number lies between two tokens by rounding."""
    assert [len(each) for each in found] == [len(each) for each in expected]
    drawn = zip(*(list(itertools.chain(*each)) for each in (found, expected)), strict=True)
    other = [ours.tokens != theirs.tokens for ours, theirs in drawn]
    if sum(other) != 1 or not options.sample:
        assert_same(found, expected)
