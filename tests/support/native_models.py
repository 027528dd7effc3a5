"""Random models of all shapes for the tests of the native engine, with what PyTorch computes."""

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

from decoding_models import EOS, SYMBOLS, sentences
from headwise.config import ModelConfig
from headwise.decoding.engine import PyTorchEngine
from headwise.decoding.search import search
from headwise.engine.base import SearchSentence
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.native.engine import NativeEngine
from headwise.engine.options import SearchOptions
from headwise.models.transformer import Transformer
from headwise.native.library import Library
from native_engines import native_engine
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
        "norm": "pre",
        "normalization": "rms",
        "positions": "rotary",
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
        **{"attention": "reference", "key_value_heads": 2, "d_k": 7, "d_v": 5},
        **{"norm": "pre", "final_norm": False},
    },
}


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


def transformer(seed: int = 3, **changes: Any) -> Transformer:
    """Build a PyTorch model with random parameters, some of whose outputs end before the maximum length."""
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "d_ff": 64, "heads": 4}
    shape |= {"max_length": 64, "share_embeddings": "none", "positions": "learned"}
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


@cache
def shared_transformer() -> Transformer:
    """The model without changes, which tests leave as it is."""
    return transformer()


@cache
def shared_engine(library: Library, precision: str = "float32") -> NativeEngine:
    """The native engine of `shared_transformer`, which searches with two threads where there are enough sentences."""
    return native_engine(shared_transformer(), library, precision=precision, workers=2)


def pairs(count: int = 9, seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    """Return random sources and targets, whose tokens are any of the vocabulary; some are empty."""
    rng = np.random.default_rng(seed)
    targets = [rng.integers(0, VOCABULARY, rng.integers(0, 20)).tolist() for _ in range(count)]
    return sentences(count, VOCABULARY, seed=seed), targets


def shortlist(source: Sequence[int]) -> NDArray[np.int32]:
    """Return a random shortlist for a sentence; some are so short that a beam runs out of tokens."""
    chosen = np.random.default_rng(source).permutation(np.arange(4, VOCABULARY))[: 3 + 7 * len(source)]
    return np.union1d(chosen, EOS).astype(np.int32)


@cache
def by_pytorch(shape: str) -> tuple[Transformer, list[Hypothesis], list[NDArray[np.float32]], Any]:
    """Return a model with what PyTorch computes, once for all variants of the library."""
    model = transformer(**SHAPES[shape])
    engine, options = PyTorchEngine(model), SearchOptions(beam=3, n_best=2, extra_length=8)
    scored = engine.score(*pairs(), SYMBOLS, alpha=0.6)
    weights = engine.cross_attention(*pairs(), SYMBOLS)
    return model, scored, weights, step_search(model, sentences(9, VOCABULARY), options)


def step_search(model: Transformer, sources: list[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
    return search(model, [SearchSentence(source, options) for source in sources], SYMBOLS)


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]], within: float = 1e-4) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        for a, b in zip(ours, theirs, strict=True):
            assert dataclasses.astuple(a)[1:3] == pytest.approx(dataclasses.astuple(b)[1:3], rel=1e-5, abs=within)
            assert a.token_log_probabilities == pytest.approx(b.token_log_probabilities, rel=1e-5, abs=within)
