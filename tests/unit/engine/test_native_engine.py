"""The native engine against the PyTorch model: all supported shapes and instruction sets."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding_models import EOS, SYMBOLS, decode, sentences
from headwise.config import ModelConfig
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.native.engine import unsupported
from headwise.engine.native.packing import ACTIVATIONS
from headwise.engine.native.positions import ADDED, INSIDE
from headwise.engine.options import SearchOptions
from headwise.native.library import Library
from native_engines import LIBRARIES, compiled, native_engine, search_at_once
from native_models import (
    SEARCHES,
    SHAPES,
    VOCABULARY,
    assert_same,
    by_pytorch,
    pairs,
    shared_engine,
    shared_transformer,
    step_search,
    transformer,
)

pytestmark = compiled


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_gives_the_pytorch_probabilities_and_weights(library: Library, shape: str) -> None:
    model, scored, weights, hypotheses = by_pytorch(shape)
    fast = native_engine(model, library)
    assert_same([fast.score(*pairs(), SYMBOLS, alpha=0.6, batch_tokens=60)], [scored])
    for found, expected in zip(fast.cross_attention(*pairs(), SYMBOLS), weights, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    options = SearchOptions(beam=3, n_best=2, extra_length=8)
    assert_same(search_at_once(fast, sentences(9, VOCABULARY), options, 5), hypotheses)


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a small model of any shape that the native engine supports."""
    flag = st.booleans()
    heads = draw(st.integers(1, 4))
    shared = draw(st.sampled_from([n for n in range(1, heads + 1) if heads % n == 0]))
    buckets = draw(st.sampled_from([4, 8, 12]))
    inside = {
        "relative": {"reach": draw(st.integers(1, 9)), "values": draw(flag), "per_head": draw(flag)},
        "t5": {"buckets": buckets, "reach": buckets // 2 + draw(st.integers(1, 9))},
        "rotary": {"base": draw(st.floats(2, 1e4)), "pairs": draw(st.sampled_from(["adjacent", "halves"]))},
    }
    switches = ["gated", "feed_forward_bias", "attention_bias"]
    switches += ["scale_embeddings", "logit_bias", "source_end"]
    return {
        **{name: draw(st.integers(1, 2)) for name in ("encoder_layers", "decoder_layers")},
        **{"d_model": 2 * draw(st.integers(2, 20)), "d_ff": draw(st.integers(1, 50)), "heads": heads},
        **{"d_k": 2 * draw(st.integers(1, 20)), "d_v": draw(st.integers(1, 40)), "key_value_heads": shared},
        **{name: draw(flag) for name in switches},
        "norm": draw(st.sampled_from(["pre", "post"])),
        "final_norm": draw(st.sampled_from([None, True, False])),
        "normalization": draw(st.sampled_from(["layer", "rms"])),
        "activation": draw(st.sampled_from(sorted(ACTIVATIONS))),
        "share_embeddings": draw(st.sampled_from(["all", "target", "none"])),
        "positions": draw(st.sampled_from([*ADDED, *INSIDE])),
        **{"position_options": inside, "attention": "reference"},
    }


@given(shape=configurations(), seed=st.integers(0, 99))
@settings(max_examples=60)
def test_float32_gives_the_pytorch_probabilities_of_any_model(shape: dict[str, Any], seed: int) -> None:
    model = transformer(seed=seed, **shape)
    assert unsupported(model.config) is None
    slow = PyTorchEngine(model)
    scored = slow.score(*pairs(4, seed), SYMBOLS, alpha=0.6)
    attended = slow.cross_attention(*pairs(4, seed), SYMBOLS)
    for library in LIBRARIES.values():
        fast = native_engine(model, library)
        assert_same([fast.score(*pairs(4, seed), SYMBOLS, alpha=0.6)], [scored], within=1e-3)
        weights = fast.cross_attention(*pairs(4, seed), SYMBOLS)
        for found, expected in zip(weights, attended, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_without_source_end_the_end_symbol_is_dropped(library: Library) -> None:
    model = transformer(source_end=False)
    sources = [*sentences(23, VOCABULARY, seed=5), [EOS]]
    options = SearchOptions(length_factor=1.5, extra_length=2)
    fast = native_engine(model, library)
    assert_same(search_at_once(fast, sources, options, 5), step_search(model, sources, options))


@cache
def found_by_pytorch(options: SearchOptions) -> list[list[Hypothesis]]:
    """Search with PyTorch, once for all variants of the library."""
    return step_search(shared_transformer(), sentences(23, VOCABULARY, seed=5), options)


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES.keys())
def test_float32_searches_find_the_pytorch_hypotheses(library: Library, options: SearchOptions) -> None:
    sources = sentences(23, VOCABULARY, seed=5)
    expected = found_by_pytorch(options)
    fast = shared_engine(library)
    found = search_at_once(fast, sources, options, 5)
    assert_same(found, expected)
    assert_same(decode(fast, sources, options, SYMBOLS), expected)
    assert len({len(hypotheses[0].tokens) for hypotheses in expected}) > 2 or options.max_length


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_no_result_depends_on_the_batch(library: Library, precision: str) -> None:
    fast = shared_engine(library, precision)
    sources = sentences(15, VOCABULARY, seed=6)
    options = SearchOptions(n_best=4)
    together = search_at_once(fast, sources, options, 15)
    alone = [search_at_once(fast, [source], options, 1)[0] for source in sources]
    refilled = search_at_once(fast, sources[::-1], options, 3)[::-1]
    assert together == alone == refilled


def test_a_step_may_have_more_rows_than_32_bits_can_square() -> None:
    fast = native_engine(transformer(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8))
    options = SearchOptions(beam=40, min_length=1, max_length=2)
    found = search_at_once(fast, [[EOS]] * 3000, options, 3000)
    assert {hypotheses[0] for hypotheses in found} == {search_at_once(fast, [[EOS]], options, 1)[0][0]}


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_forced_decoding_gives_what_the_search_reported(library: Library, precision: str) -> None:
    fast, sources = shared_engine(library, precision), sentences(9, VOCABULARY, seed=3)
    found = [hypotheses[0] for hypotheses in search_at_once(fast, sources, SearchOptions(alpha=0.6), 4)]
    assert fast.score(sources, [each.tokens for each in found], SYMBOLS, alpha=0.6) == found


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"architecture": "recurrent"}, "it can't do model.architecture=recurrent"),
        (
            {"attention": "window", "residual": False},
            "it can't do model.residual=false, model.attention=window",
        ),
        ({"positions": "unheard-of"}, "it can't do model.positions=unheard-of"),
        (
            {"positions": "relative", "position_options": {"relative": {"reach": 2**20, "per_head": True}}},
            "its table of distances would be too large with model.positions=relative",
        ),
    ],
)
def test_what_the_engine_does_not_know_is_said(changes: dict[str, Any], reason: str) -> None:
    found = unsupported(ModelConfig.model_validate(changes))
    assert found is not None
    assert reason in found
