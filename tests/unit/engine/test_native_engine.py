"""The native engine against the PyTorch model: all supported shapes and instruction sets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from decoding_models import EOS, SYMBOLS, decode, sentences
from headwise.config import ModelConfig
from headwise.decoding.batching import padded
from headwise.decoding.native_steps import NativeSteps
from headwise.decoding.scoring import score
from headwise.decoding.search import search
from headwise.engine.base import SearchSentence
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.native.engine import NativeEngine, unsupported
from headwise.engine.options import SearchOptions
from headwise.errors import CheckpointError
from headwise.models.transformer import Transformer
from headwise.native.library import Library
from native_engines import LIBRARIES, native_engine, search_at_once

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
    model = Transformer(config, VOCABULARY, VOCABULARY).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.3)
            elif parameter.dim() == 1:
                parameter.normal_(mean=1.0, std=0.3)
            elif "attention.positions" in name:
                parameter.normal_(std=0.7)
            elif "embedding" in name or "positions" in name:
                parameter *= 2
        model.output_weight[EOS] *= 2
    return model


def native(model: Transformer, library: Library, precision: str = "float32") -> NativeEngine:
    return native_engine(model, library, precision=precision)


def steps(model: Transformer, library: Library, precision: str = "float32") -> NativeSteps:
    return NativeSteps(native(model, library, precision))


@pytest.fixture(params=LIBRARIES.values(), ids=LIBRARIES.keys())
def library(request: pytest.FixtureRequest) -> Library:
    return request.param


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@torch.inference_mode()
def test_float32_steps_give_the_pytorch_log_probabilities(library: Library, shape: dict[str, Any]) -> None:
    model = transformer(**shape)
    fast = steps(model, library)
    source, mask = padded(sentences(7, VOCABULARY), 0, torch.device("cpu"))
    memory, again = model.encode(source, mask), fast.encode(source, mask)
    torch.testing.assert_close(again.states[mask], memory.states[mask], rtol=1e-4, atol=1e-5)
    state, ours = model.start(memory, 2), fast.start(again, 2)
    tokens = torch.full((14,), SYMBOLS.bos)
    generator = torch.Generator().manual_seed(1)
    for step in range(20):
        expected, state = model.step(tokens, state)
        found, ours = fast.step(tokens, ours)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        if step == 5:
            kept = torch.tensor([6, 0, 3])
            state, ours = state.keep(kept), ours.keep(kept)
        rows = len(kept) * 2 if step >= 5 else 14
        within = torch.randint(2, (rows,), generator=generator)
        parents = torch.arange(rows) // 2 * 2 + within
        state, ours = state.reorder(parents), ours.reorder(parents)
        tokens = torch.randint(4, VOCABULARY, (rows,), generator=generator)


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


def test_options_that_the_native_search_does_not_know_go_step_by_step(library: Library) -> None:
    model = transformer()
    fast = native(model, library)
    sources = sentences(6, VOCABULARY, seed=7)
    options = SearchOptions(sample=True, n_best=3, top_k=9, seed=4)
    assert not fast.joins(SearchSentence(sources[0], options))
    assert_same(decode(fast, sources, options, SYMBOLS), decode(model, sources, options, SYMBOLS))
    prefixes = [[7, 8]] * 6
    options = SearchOptions()
    expected = decode(model, sources, options, SYMBOLS, prefixes=prefixes)
    assert_same(decode(fast, sources, options, SYMBOLS, prefixes=prefixes), expected)


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.03), ("int8", 0.06)])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@torch.inference_mode()
def test_low_precision_is_close(
    library: Library, shape: dict[str, Any], precision: str, tolerance: float
) -> None:
    model = transformer(**shape)
    fast = steps(model, library, precision)
    source, mask = padded(sentences(9, VOCABULARY), 0, torch.device("cpu"))
    memory, again = model.encode(source, mask), fast.encode(source, mask)
    tokens = torch.full((9,), SYMBOLS.bos)
    expected, _ = model.step(tokens, model.start(memory))
    found, _ = fast.step(tokens, fast.start(again))
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


def test_a_prefix_and_samples_keep_to_the_shortlist_in_both_engines(library: Library) -> None:
    model = transformer()
    fast = native(model, library)
    sources = sentences(5, VOCABULARY, seed=11)
    prefixes = [[7, 8], [], [9], [149], [4, 5, 6]]
    found = decode(fast, sources, SearchOptions(), SYMBOLS, prefixes=prefixes, shortlist=shortlist)
    expected = decode(model, sources, SearchOptions(), SYMBOLS, prefixes=prefixes, shortlist=shortlist)
    assert_same(found, expected)
    sampled = SearchOptions(sample=True, n_best=4)
    found = decode(fast, sources, sampled, SYMBOLS, shortlist=shortlist)
    assert_same(found, decode(model, sources, sampled, SYMBOLS, shortlist=shortlist))
    for source, prefix, hypotheses in zip(sources, prefixes, expected, strict=True):
        tokens = hypotheses[0].tokens
        assert tokens[: len(prefix)] == tuple(prefix)
        assert set(tokens) <= {*shortlist(source).tolist(), *prefix}


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


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        for a, b in zip(ours, theirs, strict=True):
            assert dataclasses.astuple(a)[1:3] == pytest.approx(dataclasses.astuple(b)[1:3], abs=1e-4)
            assert a.token_log_probabilities == pytest.approx(b.token_log_probabilities, abs=1e-4)


def test_more_rows_than_16_bits_count_keep_apart(library: Library) -> None:
    """Regression: samples from the 65,536th on continued the keys and values of other samples."""
    model = transformer(d_model=16, d_ff=16, heads=1, encoder_layers=1, decoder_layers=1)
    fast, rows = steps(model, library), (1 << 16) + 8
    source, mask = padded(sentences(1, VOCABULARY), 0, torch.device("cpu"))
    with torch.inference_mode():
        state, ours = (
            model.start(model.encode(source, mask), rows),
            fast.start(fast.encode(source, mask), rows),
        )
        # Only the first and the last hypotheses differ; each would read the keys and values of the other.
        tokens = torch.full((rows,), 9)
        tokens[-8:] = torch.arange(20, 28)
        for _ in range(3):
            expected, state = model.step(tokens, state)
            found, ours = fast.step(tokens, ours)
            torch.testing.assert_close(found[-8:], expected[-8:], rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(found[:8], expected[:8], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("value", [-1e38, -100.0, 100.0, 1e12])
def test_an_activation_far_out_is_its_limit(library: Library, value: float) -> None:
    model = transformer(activation="silu")
    with torch.no_grad():
        model.encoder[0].feed_forward.w1.bias[:4] = value
    source, mask = padded(sentences(3, VOCABULARY, seed=2), 0, torch.device("cpu"))
    with torch.inference_mode():
        expected = model.encode(source, mask).states[mask]
        found = steps(model, library).encode(source, mask).states[mask]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


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
