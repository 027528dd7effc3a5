"""The native engine against the PyTorch model: all supported shapes and instruction sets."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from decoding_models import EOS, SYMBOLS, decode, sentences
from headwise.config import ModelConfig
from headwise.decoding.engine import PyTorchEngine
from headwise.decoding.ensemble import Ensemble
from headwise.decoding.scoring import score
from headwise.decoding.search import search
from headwise.engine.base import SearchSentence
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.native.engine import NativeEngine, unsupported
from headwise.engine.native.packing import ACTIVATIONS
from headwise.engine.native.positions import ADDED, INSIDE
from headwise.engine.options import SearchOptions
from headwise.errors import CheckpointError, ConfigError
from headwise.models.transformer import Transformer
from headwise.native.library import Library
from native_engines import LIBRARIES, native_engine, search_at_once
from seq2seq import randomized

VOCABULARY = 150
SHAPES: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre", "positions": "sinusoidal"},
    "biased": {"attention_bias": True, "activation": "gelu"},
    "unbiased": {"feed_forward_bias": False, "norm_epsilon": 0.1},
    "grouped": {"key_value_heads": 2, "activation": "silu"},
    "odd sizes": {"d_model": 20, "d_ff": 30, "heads": 4, "d_k": 7, "d_v": 17},
    "wide heads": {"d_model": 160, "d_ff": 130, "heads": 1, "norm": "pre"},
    "shared": {"share_embeddings": "all", "positions": "none", "encoder_layers": 1, "decoder_layers": 3},
    "unscaled": {"scale_embeddings": False, "logit_bias": True, "share_embeddings": "all"},
    "target shared": {"share_embeddings": "target", "attention": "memory_efficient"},
    "modern": {
        "positions": "rotary",
        "norm": "pre",
        "normalization": "rms",
        "activation": "silu",
        "gated": True,
    },
    "rotated halves": {
        "positions": "rotary",
        "d_k": 6,
        "position_options": {"rotary": {"pairs": "halves", "base": 500.0}},
        "key_value_heads": 2,
    },
    "wide rotations": {"positions": "rotary", "d_k": 38, "d_v": 5, "heads": 3, "final_norm": True},
    "alibi": {"positions": "alibi", "heads": 6, "d_k": 5, "d_v": 5, "activation": "gelu_tanh", "gated": True},
    "buckets": {"positions": "t5", "position_options": {"t5": {"reach": 5, "buckets": 8}}},
    "relative": {"positions": "relative", "normalization": "rms", "final_norm": True},
    "relative in all": {
        "positions": "relative",
        "position_options": {"relative": {"reach": 3, "values": True, "per_head": True}},
        **{
            "attention": "reference",
            "key_value_heads": 2,
            "d_k": 7,
            "d_v": 5,
            "norm": "pre",
            "final_norm": False,
        },
    },
}

pytestmark = pytest.mark.skipif(
    not LIBRARIES, reason="the native engine was not compiled (pip install -e . with a C++ compiler)"
)


def transformer(seed: int = 3, **changes: Any) -> Transformer:
    """Build a PyTorch model with random parameters, some of whose outputs end before the maximum length."""
    shape = {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "d_model": 32,
        "d_ff": 64,
        "heads": 4,
        "max_length": 64,
    }
    shape |= {"share_embeddings": "none", "positions": "learned"}
    torch.manual_seed(seed)
    config = ModelConfig.model_validate(shape | changes)
    model = randomized(Transformer(config, VOCABULARY, VOCABULARY).eval())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "attention.positions" in name:
                parameter.normal_(std=0.7)
            elif "embedding" in name or "positions" in name:
                parameter *= 2
        model.output_weight[EOS] *= 2
    return model


def native(model: Transformer, library: Library, precision: str = "float32") -> NativeEngine:
    return native_engine(model, library, precision=precision)


@pytest.fixture(params=LIBRARIES.values(), ids=LIBRARIES.keys())
def library(request: pytest.FixtureRequest) -> Library:
    return request.param


def pairs(count: int = 9, seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    """Return random sources and targets, whose tokens are any of the vocabulary; some are empty."""
    rng = np.random.default_rng(seed)
    targets = [rng.integers(0, VOCABULARY, rng.integers(0, 20)).tolist() for _ in range(count)]
    return sentences(count, VOCABULARY, seed=seed), targets


@cache
def by_pytorch(shape: str) -> tuple[Transformer, list[Hypothesis], list[NDArray[np.float32]], Any]:
    """Return a model with what PyTorch computes, once for all variants of the library."""
    model = transformer(**SHAPES[shape])
    engine, options = PyTorchEngine(model), SearchOptions(beam=3, n_best=2, extra_length=8)
    scored = engine.score(*pairs(), SYMBOLS, alpha=0.6)
    return (
        model,
        scored,
        engine.cross_attention(*pairs(), SYMBOLS),
        step_search(model, sentences(9, VOCABULARY), options),
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_float32_gives_the_pytorch_probabilities_and_weights(library: Library, shape: str) -> None:
    model, scored, weights, hypotheses = by_pytorch(shape)
    fast = native(model, library)
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
    switches = (
        "gated",
        "feed_forward_bias",
        "attention_bias",
        "scale_embeddings",
        "logit_bias",
        "source_end",
    )
    return {
        **{name: draw(st.integers(1, 2)) for name in ("encoder_layers", "decoder_layers")},
        **{"d_model": 2 * draw(st.integers(2, 20)), "d_ff": draw(st.integers(1, 50)), "heads": heads},
        **{"d_k": 2 * draw(st.integers(1, 20)), "d_v": draw(st.integers(1, 40)), "key_value_heads": shared},
        **{name: draw(flag) for name in switches},
        **{
            "norm": draw(st.sampled_from(["pre", "post"])),
            "final_norm": draw(st.sampled_from([None, True, False])),
        },
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
    for name in LIBRARIES:
        fast, slow = native(model, LIBRARIES[name]), PyTorchEngine(model)
        assert_same(
            *([each.score(*pairs(4, seed), SYMBOLS, alpha=0.6)] for each in (fast, slow)), within=1e-3
        )
        weights = zip(*(each.cross_attention(*pairs(4, seed), SYMBOLS) for each in (fast, slow)), strict=True)
        for found, expected in weights:
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_without_source_end_the_end_symbol_is_dropped(library: Library) -> None:
    model = transformer(source_end=False)
    sources = [*sentences(23, VOCABULARY, seed=5), [EOS]]
    options = SearchOptions(length_factor=1.5, extra_length=2)
    fast = native(model, library)
    assert_same(search_at_once(fast, sources, options, 5), step_search(model, sources, options))


SEARCHES = {
    "greedy": SearchOptions(beam=1),
    "beam": SearchOptions(),
    "n best": SearchOptions(beam=5, n_best=5, alpha=1.3),
    "long": SearchOptions(beam=3, min_length=9, extra_length=12),
    "forced length": SearchOptions(beam=4, min_length=6, max_length=6),
    "short": SearchOptions(beam=4, max_length=2, n_best=2),
    "patient": SearchOptions(beam=2, patience=3.0, n_best=2, allow_unknown=True),
    "endless patience": SearchOptions(beam=2, patience=math.inf, alpha=0.0, extra_length=6),
    "wide": SearchOptions(beam=40, n_best=3, extra_length=3),
    "no token twice": SearchOptions(beam=3, n_best=3, min_length=9, extra_length=20, no_repeat_ngram=1),
    "no 2-gram twice": SearchOptions(beam=4, alpha=0.0, min_length=30, extra_length=30, no_repeat_ngram=2),
    "greedy, no 3-gram twice": SearchOptions(beam=1, min_length=20, extra_length=20, no_repeat_ngram=3),
}


@cache
def found_by_pytorch(options: SearchOptions) -> list[list[Hypothesis]]:
    """Search with PyTorch, once for all variants of the library."""
    return step_search(transformer(), sentences(23, VOCABULARY, seed=5), options)


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES.keys())
def test_float32_searches_find_the_pytorch_hypotheses(library: Library, options: SearchOptions) -> None:
    sources = sentences(23, VOCABULARY, seed=5)
    expected = found_by_pytorch(options)
    fast = native(transformer(), library)
    fast.workers = 2
    found = search_at_once(fast, sources, options, 5)
    assert_same(found, expected)
    assert_same(decode(fast, sources, options, SYMBOLS), expected)
    assert len({len(hypotheses[0].tokens) for hypotheses in expected}) > 2 or options.max_length


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_no_result_depends_on_the_batch(library: Library, precision: str) -> None:
    fast = native(transformer(), library, precision)
    sources = sentences(15, VOCABULARY, seed=6)
    options = SearchOptions(n_best=4)
    together = search_at_once(fast, sources, options, 15)
    alone = [search_at_once(fast, [source], options, 1)[0] for source in sources]
    refilled = search_at_once(fast, sources[::-1], options, 3)[::-1]
    assert together == alone == refilled


SAMPLED = {
    "all": SearchOptions(sample=True, n_best=5, seed=4),
    "one": SearchOptions(sample=True, allow_unknown=True),
    "likeliest": SearchOptions(sample=True, n_best=3, top_k=9, min_length=4),
    "nucleus": SearchOptions(sample=True, n_best=3, top_p=0.7),
    "cold": SearchOptions(sample=True, n_best=3, top_k=40, top_p=0.9, temperature=0.5, max_length=9),
    "hot": SearchOptions(sample=True, n_best=3, temperature=3.0, no_repeat_ngram=1, min_length=9),
}
PREFIXES: list[list[int]] = [[7, 8], [], [9], [149], [4, 5, 6], [2, 0, 1]]


@pytest.mark.parametrize("options", [*SEARCHES.values(), *SAMPLED.values()], ids=[*SEARCHES, *SAMPLED])
@pytest.mark.parametrize("listed", [False, True])
def test_prefixes_and_samples_are_those_of_pytorch(
    library: Library, options: SearchOptions, listed: bool
) -> None:
    model, sources = transformer(), sentences(6, VOCABULARY, seed=11)
    fast = native(model, library)
    fast.workers = 2
    for prefixes in (PREFIXES, *([None] if options.sample else [])):
        found, expected = (
            decode(
                each,
                sources,
                options,
                prefixes=prefixes,
                shortlist=shortlist if listed else None,
                batch_tokens=60,
            )
            for each in (fast, model)
        )
        assert_same_but_for_draws(found, expected, options)


@pytest.mark.parametrize("options", [*SEARCHES.values(), *SAMPLED.values()], ids=[*SEARCHES, *SAMPLED])
@pytest.mark.parametrize("listed", [False, True])
def test_letters_are_demanded_as_by_pytorch(library: Library, options: SearchOptions, listed: bool) -> None:
    model, sources = transformer(), sentences(12, VOCABULARY, seed=11)
    few = {17, 40, 99, 149}  # so that most outputs would end without one
    symbols = dataclasses.replace(SYMBOLS, lettered=bytes(token in few for token in range(VOCABULARY)))
    lettered, lists = [number % 4 > 0 for number in range(12)], shortlist if listed else None
    prefixes = [*PREFIXES, *[[]] * 6]
    found, expected = (
        decode(each, sources, options, symbols, prefixes=prefixes, shortlist=lists, lettered=lettered)
        for each in (native(model, library), model)
    )
    assert_same_but_for_draws(found, expected, options)
    for source, needy, hypotheses in zip(sources, lettered, expected, strict=True):
        if needy and (lists is None or few & {*lists(source).tolist()}):
            assert all(few & {*hypothesis.tokens} for hypothesis in hypotheses)
    free = decode(model, sources, options, symbols, prefixes=prefixes, shortlist=lists)
    assert [found for found, needy in zip(expected, lettered, strict=True) if not needy] == [
        found for found, needy in zip(free, lettered, strict=True) if not needy
    ]


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("options", SAMPLED.values(), ids=SAMPLED.keys())
def test_no_sample_depends_on_the_batch_or_the_other_samples(
    library: Library, precision: str, options: SearchOptions
) -> None:
    fast = native(transformer(), library, precision)
    sources = sentences(9, VOCABULARY, seed=6)
    together = search_at_once(fast, sources, options, 9)
    alone = [search_at_once(fast, [source], options, 1)[0] for source in sources]
    fewer = search_at_once(fast, sources, dataclasses.replace(options, n_best=1), 3)
    assert together == alone
    assert [hypotheses[:1] for hypotheses in together] == fewer


def test_samples_have_the_probabilities_of_the_model() -> None:
    """The chi-square statistic of 20,000 drawn first tokens; exact probabilities by the PyTorch model."""
    model, source, count = transformer(), [9, 30, EOS], 20_000
    options = SearchOptions(sample=True, n_best=count, max_length=1, temperature=1.5, top_k=30, seed=8)
    (found,) = decode(native_engine(model), [source], options)
    with torch.inference_mode():
        hidden = model(
            torch.tensor([source]), torch.ones(1, 3, dtype=torch.bool), torch.tensor([[SYMBOLS.bos]])
        )
        logits = model.project(hidden)[0, 0].double()
        logits[[SYMBOLS.pad, SYMBOLS.bos, SYMBOLS.unknown]] = -math.inf
    kept = logits.topk(30)
    expected = dict(zip(kept.indices.tolist(), (kept.values / 1.5).softmax(0).tolist(), strict=True))
    drawn = Counter(hypothesis.tokens[0] if hypothesis.tokens else EOS for hypothesis in found)
    assert sum(drawn.values()) == count
    assert drawn.keys() <= expected.keys()
    statistic = sum((drawn[token] - count * p) ** 2 / (count * p) for token, p in expected.items())
    assert statistic < 29 + 5 * math.sqrt(2 * 29)  # mean and standard deviation with 29 degrees of freedom


def assert_same_but_for_draws(
    found: list[list[Hypothesis]], expected: list[list[Hypothesis]], options: SearchOptions
) -> None:
    """Compare hypotheses; one sample may differ, where a random number lies between two tokens by rounding."""
    assert [len(each) for each in found] == [len(each) for each in expected]
    drawn = zip(*(list(itertools.chain(*each)) for each in (found, expected)), strict=True)
    other = [ours.tokens != theirs.tokens for ours, theirs in drawn]
    if sum(other) != 1 or not options.sample:
        assert_same(found, expected)


def several() -> list[Transformer]:
    """Return models of one vocabulary and different shapes."""
    others = (
        {},
        {"d_model": 16, "decoder_layers": 1, "source_end": False},
        {"positions": "rotary", "max_length": 63},
    )
    return [transformer(seed=seed, **shape) for seed, shape in enumerate(others)]


@pytest.mark.parametrize("options", [SearchOptions(), SEARCHES["n best"], *SAMPLED.values()])
def test_an_ensemble_is_that_of_pytorch(library: Library, options: SearchOptions) -> None:
    models, (sources, targets) = several(), pairs()
    packed = [model for each in models for model in native(each, library).models]
    fast, slow = NativeEngine(packed, open_pytorch=list, workers=2), PyTorchEngine(Ensemble(models))
    assert fast.max_length == slow.max_length == 63
    for prefixes, lists in ((None, None), (None, shortlist), (targets, None)):
        found, expected = (
            decode(each, sources, options, prefixes=prefixes, shortlist=lists) for each in (fast, slow)
        )
        assert_same_but_for_draws(found, expected, options)
    found, expected = ([each.score(sources, targets, SYMBOLS, alpha=1.0)] for each in (fast, slow))
    assert_same(found, expected)
    weights = zip(*(each.cross_attention(sources, targets, SYMBOLS) for each in (fast, slow)), strict=True)
    for found, expected in weights:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_an_ensemble_may_mix_precisions_but_not_numbers_of_heads(library: Library) -> None:
    model, (sources, targets) = transformer(), pairs()
    mixed = [native(model, library, precision).models[0] for precision in ("float32", "int8", "bfloat16")]
    found, expected = (
        np.concatenate(
            [each.token_log_probabilities for each in engine.score(sources, targets, SYMBOLS, alpha=0.0)]
        )
        for engine in (NativeEngine(mixed, open_pytorch=list), native(model, library))
    )
    assert 0 < (found - expected).std() < 0.06 * expected.std()
    other = native(transformer(heads=2), library).models
    with pytest.raises(ConfigError, match=r"expected models with equally many heads, found \[2, 4\]"):
        NativeEngine([mixed[0], *other], open_pytorch=list).cross_attention(sources, targets, SYMBOLS)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_forced_decoding_gives_what_the_search_reported(library: Library, precision: str) -> None:
    fast, sources = native(transformer(), library, precision), sentences(9, VOCABULARY, seed=3)
    found = [hypotheses[0] for hypotheses in search_at_once(fast, sources, SearchOptions(alpha=0.6), 4)]
    assert fast.score(sources, [each.tokens for each in found], SYMBOLS, alpha=0.6) == found


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.03), ("int8", 0.06)])
@pytest.mark.parametrize("shape", SHAPES)
def test_low_precision_is_close(library: Library, shape: str, precision: str, tolerance: float) -> None:
    model, scored, *_ = by_pytorch(shape)
    again = native(model, library, precision).score(*pairs(), SYMBOLS, alpha=0.6)
    found, expected = (
        np.concatenate([each.token_log_probabilities for each in hypotheses])
        for hypotheses in (again, scored)
    )
    error = (found - expected).std() / expected.std()
    assert error < tolerance
    if precision == "int8":
        assert error > 1e-5  # verifies that it computes in low precision


def test_instruction_sets_agree_in_int8() -> None:
    """Integer products are exact, so that only the rounding between them can differ."""
    model, sources, options = transformer(), sentences(9, VOCABULARY, seed=8), SearchOptions(beam=1)
    found = [
        search_at_once(native(model, library, "int8"), sources, options, 9) for library in LIBRARIES.values()
    ]
    for other in found[1:]:
        same = sum(a[0].tokens == b[0].tokens for a, b in zip(found[0], other, strict=True))
        assert same >= 8


def shortlist(source: Sequence[int]) -> NDArray[np.int32]:
    """Return a random shortlist for a sentence; some are so short that a beam runs out of tokens."""
    chosen = np.random.default_rng(source).permutation(np.arange(4, VOCABULARY))[: 3 + 7 * len(source)]
    return np.union1d(chosen, EOS).astype(np.int32)


@cache
def found_with_pytorch(options: SearchOptions) -> list[list[list[Hypothesis]]]:
    """Search without the tokens outside the shortlists, and with these, once for all variants of the library."""
    model, sources = transformer(), sentences(6, VOCABULARY, seed=9)
    found = []
    for source in sources:
        others = torch.from_numpy(np.setdiff1d(np.arange(VOCABULARY), shortlist(source)))
        found += step_search(Restricted(model, others), [source], options)
    return [found, decode(model, sources, options, SYMBOLS, shortlist=shortlist)]


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES.keys())
def test_a_shortlist_is_as_if_there_were_no_other_tokens(library: Library, options: SearchOptions) -> None:
    fast = native(transformer(), library)
    fast.workers = 2
    sources = sentences(6, VOCABULARY, seed=9)
    found = search_at_once(fast, sources, options, 3, lists=[shortlist(each) for each in sources])
    for source, hypotheses in zip(sources, found, strict=True):
        listed = shortlist(source)
        assert {token for hypothesis in hypotheses for token in hypothesis.tokens} <= set(listed.tolist())
    for expected in found_with_pytorch(options):
        assert_same(found, expected)
    assert found == decode(fast, sources, options, SYMBOLS, shortlist=shortlist)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_no_result_with_a_shortlist_depends_on_the_batch(library: Library, precision: str) -> None:
    fast = native(transformer(), library, precision)
    sources, options = sentences(9, VOCABULARY, seed=10), SearchOptions(n_best=4)
    lists = [shortlist(source) for source in sources]
    together = search_at_once(fast, sources, options, 9, lists=lists)
    alone = [
        search_at_once(fast, [source], options, 1, lists=[listed])[0]
        for source, listed in zip(sources, lists, strict=True)
    ]
    assert together == alone


class Restricted(Transformer):
    """A model that never predicts the tokens `others`."""

    def __init__(self, model: Transformer, others: torch.Tensor) -> None:
        super().__init__(model.config, model.source_size, model.target_size)
        self.load_state_dict(model.state_dict())
        self.others = others
        self.eval()

    def project(self, hidden: torch.Tensor) -> torch.Tensor:
        return super().project(hidden).index_fill(-1, self.others, -1e30)


def test_damaged_parameters_are_named(library: Library) -> None:
    model, name = transformer(), "decoder.0.feed_forward.w1.weight"
    with torch.no_grad():
        model.get_parameter(name).fill_(math.nan)
    with pytest.raises(CheckpointError, match=f"{name}: expected finite numbers"):
        native(model, library, "int8")
    with torch.no_grad():
        model.get_parameter(name).fill_(1e38)  # finite, but its products overflow
    with pytest.raises(CheckpointError, match="expected probabilities from the model"):
        search_at_once(native(model, library), sentences(2, VOCABULARY), SearchOptions(), 2)


OVERFLOWS: dict[str, dict[str, float]] = {  # finite parameters that lead to an overflow
    "variance": {"encoder.0.feed_forward.w2.bias": 1e21},
    "product": {"decoder.0.feed_forward.w1.weight": 1e38},
    "behind the activation": {
        "encoder.1.feed_forward.w1.bias": 3e38,
        "encoder.1.feed_forward.w2.weight": 1e8,
    },
    "scores": {"decoder.1.cross_attention.query.bias": 1e30, "decoder.1.cross_attention.key.bias": 1e30},
    "scores below all": {
        "decoder.0.cross_attention.query.bias": 1e30,
        "decoder.0.cross_attention.key.bias": -1e30,
    },
    "one value": {"decoder.0.cross_attention.value.weight": 3e38},  # only in the first row
    "logits": {"decoder_norm.bias": 1e37, "output_projection.weight": 1e37},
}


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("place", OVERFLOWS)
def test_numbers_that_overflow_on_the_way_are_not_hidden(
    library: Library, place: str, precision: str
) -> None:
    model = transformer(norm="pre", attention_bias=True)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, size in OVERFLOWS[place].items():
            parameter = model.get_parameter(name)
            parameter = parameter[:1] if place == "one value" else parameter
            varied = torch.rand(parameter.shape, generator=generator) + 0.1
            parameter.copy_(varied * size if parameter.dim() == 1 else varied.sub_(0.6) * size)
    sources = [[*range(4, 16), EOS]]
    with pytest.raises(CheckpointError, match="expected probabilities from the model"):
        step_search(model, sources, SearchOptions())
    with pytest.raises(CheckpointError, match="expected probabilities from the model"):
        search_at_once(native(model, library, precision), sources, SearchOptions(), 2)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_numbers_that_vanish_are_zeros(library: Library, precision: str) -> None:
    """For magnitudes near the float32 minimum, a row's int8 scale or its reciprocal isn't a finite number."""
    model = transformer(norm="pre")
    with torch.no_grad():
        for part in ("w1", "w2"):
            model.get_parameter(f"decoder.0.feed_forward.{part}.weight").mul_(1e-37)
            model.get_parameter(f"decoder.0.feed_forward.{part}.bias").mul_(1e-39)
    without = transformer(norm="pre")
    with torch.no_grad():
        for part in ("w1", "w2"):
            without.get_parameter(f"decoder.0.feed_forward.{part}.weight").zero_()
            without.get_parameter(f"decoder.0.feed_forward.{part}.bias").zero_()
    sources, options = sentences(5, VOCABULARY), SearchOptions(n_best=2)
    found, expected = (
        search_at_once(native(each, library, precision), sources, options, 2) for each in (model, without)
    )
    assert_same(found, expected)


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


def step_search(
    model: Transformer, sources: list[list[int]], options: SearchOptions
) -> list[list[Hypothesis]]:
    return search(model, [SearchSentence(source, options) for source in sources], SYMBOLS)


def assert_same(
    found: list[list[Hypothesis]], expected: list[list[Hypothesis]], within: float = 1e-4
) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        for a, b in zip(ours, theirs, strict=True):
            assert dataclasses.astuple(a)[1:3] == pytest.approx(
                dataclasses.astuple(b)[1:3], rel=1e-5, abs=within
            )
            assert a.token_log_probabilities == pytest.approx(b.token_log_probabilities, rel=1e-5, abs=within)


def test_more_rows_than_16_bits_count_keep_apart(library: Library) -> None:
    """Regression: samples from the 65,536th on continued the keys and values of other samples."""
    model = transformer(d_model=16, d_ff=16, heads=1, encoder_layers=1, decoder_layers=1)
    fast, count, source = native(model, library), (1 << 16) + 8, [9, 8, EOS]
    options = SearchOptions(sample=True, n_best=count, min_length=3, max_length=3, alpha=0.0)
    (found,) = search_at_once(fast, [source], options, 1)
    assert len(found) == count
    for part in (found[:8], found[-8:]):
        assert_same([fast.score([source] * 8, [each.tokens for each in part], SYMBOLS, alpha=0.0)], [part])


@pytest.mark.parametrize("value", [-1e38, -100.0, 100.0, 1e12])
def test_an_activation_far_out_is_its_limit(library: Library, value: float) -> None:
    model = transformer(activation="silu")
    with torch.no_grad():
        model.encoder[0].feed_forward.w1.bias[:4] = value
    found, expected = (
        each.score(*pairs(5), SYMBOLS, alpha=0.0) for each in (native(model, library), PyTorchEngine(model))
    )
    assert_same([found], [expected])


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("listed", [False, True])
@torch.inference_mode()
def test_a_given_symbol_begins_every_output(library: Library, beam: int, listed: bool) -> None:
    """The search equals that in PyTorch with the symbol as a prefix, whose log-probability is then left out."""
    model, given = transformer(), 17
    symbols = dataclasses.replace(SYMBOLS, given=(given, 18))
    options = SearchOptions(beam=beam, alpha=0.0, min_length=2, extra_length=8)
    sources = sentences(9, VOCABULARY)
    lists = [np.array([EOS, *range(20, 60, 1 + n % 3)], np.int32) for n in range(9)]
    shortlist = (lambda source: lists[sources.index(source)]) if listed else None
    found, again = (
        decode(each, sources, options, symbols, shortlist=shortlist)
        for each in (native(model, library), model)
    )
    prefixed = decode(model, sources, options, SYMBOLS, prefixes=[[given]] * 9, shortlist=shortlist)
    for native_outputs, outputs, (expected, *_) in zip(found, again, prefixed, strict=True):
        assert native_outputs[0].tokens == outputs[0].tokens
        assert listed or outputs[0].tokens == expected.tokens  # a prefix is on the shortlist, too
        assert native_outputs[0].tokens[0] == given
        log_probs = [0.0, *expected.token_log_probabilities[1:]]
        for output in (native_outputs[0], outputs[0]):
            if not listed:
                assert output.token_log_probabilities == pytest.approx(log_probs, abs=1e-4)
            assert output.log_probability == pytest.approx(sum(output.token_log_probabilities), abs=1e-4)
            assert output.token_log_probabilities[0] == 0.0
    (scored,) = score(model, sources[:1], [found[0][0].tokens], symbols, alpha=0.0)
    if not listed:
        assert scored.log_probability == pytest.approx(found[0][0].log_probability, abs=1e-4)
