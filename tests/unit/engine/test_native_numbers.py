"""The native engine in low precision, and with parameters that overflow, vanish or aren't numbers."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch

from decoding_models import EOS, SYMBOLS, sentences
from headwise.decoding.engine import PyTorchEngine
from headwise.engine.options import SearchOptions
from headwise.errors import CheckpointError
from headwise.models.transformer import Transformer
from headwise.native.library import Library
from native_engines import LIBRARIES, compiled, native_engine, search_at_once
from native_models import (
    SHAPES,
    VOCABULARY,
    assert_same,
    by_pytorch,
    pairs,
    shared_engine,
    step_search,
    transformer,
)

pytestmark = compiled


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.03), ("int8", 0.06)])
@pytest.mark.parametrize("shape", SHAPES)
def test_low_precision_is_close(library: Library, shape: str, precision: str, tolerance: float) -> None:
    model, scored, *_ = by_pytorch(shape)
    again = native_engine(model, library, precision=precision).score(*pairs(), SYMBOLS, alpha=0.6)
    found, expected = (
        np.concatenate([each.token_log_probabilities for each in hypotheses]) for hypotheses in (again, scored)
    )
    error = (found - expected).std() / expected.std()
    assert error < tolerance
    if precision == "int8":
        assert error > 1e-5  # verifies that it computes in low precision


def test_instruction_sets_agree_in_int8() -> None:
    """Integer products are exact, so that only the rounding between them can differ."""
    sources, options = sentences(9, VOCABULARY, seed=8), SearchOptions(beam=1)
    found = [search_at_once(shared_engine(library, "int8"), sources, options, 9) for library in LIBRARIES.values()]
    for other in found[1:]:
        same = sum(a[0].tokens == b[0].tokens for a, b in zip(found[0], other, strict=True))
        assert same >= 8


def test_damaged_parameters_are_named(library: Library) -> None:
    model, name = transformer(), "decoder.0.feed_forward.w1.weight"
    with torch.no_grad():
        model.get_parameter(name).fill_(math.nan)
    with pytest.raises(CheckpointError, match=f"{name}: expected finite numbers"):
        native_engine(model, library, precision="int8")
    with torch.no_grad():
        model.get_parameter(name).fill_(1e38)  # finite, but its products overflow
    with pytest.raises(CheckpointError, match="expected probabilities from the model"):
        search_at_once(native_engine(model, library), sentences(2, VOCABULARY), SearchOptions(), 2)


OVERFLOWING = [[*range(4, 16), EOS]]
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


@cache
def overflowing(place: str) -> Transformer:
    """Return a model in which PyTorch finds that numbers overflow."""
    model = transformer(norm="pre", attention_bias=True)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, size in OVERFLOWS[place].items():
            parameter = model.get_parameter(name)
            parameter = parameter[:1] if place == "one value" else parameter
            varied = torch.rand(parameter.shape, generator=generator) + 0.1
            parameter.copy_(varied * size if parameter.dim() == 1 else varied.sub_(0.6) * size)
    with pytest.raises(CheckpointError, match="expected probabilities from the model"):
        step_search(model, OVERFLOWING, SearchOptions())
    return model


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("place", OVERFLOWS)
def test_numbers_that_overflow_on_the_way_are_not_hidden(library: Library, place: str, precision: str) -> None:
    fast = native_engine(overflowing(place), library, precision=precision)
    with pytest.raises(CheckpointError, match="expected probabilities from the model"):
        search_at_once(fast, OVERFLOWING, SearchOptions(), 2)


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
        search_at_once(native_engine(each, library, precision=precision), sources, options, 2)
        for each in (model, without)
    )
    assert_same(found, expected)


@pytest.mark.parametrize("value", [-1e38, -100.0, 100.0, 1e12])
def test_an_activation_far_out_is_its_limit(library: Library, value: float) -> None:
    model = transformer(activation="silu")
    with torch.no_grad():
        model.encoder[0].feed_forward.w1.bias[:4] = value
    found, expected = (
        each.score(*pairs(5), SYMBOLS, alpha=0.0) for each in (native_engine(model, library), PyTorchEngine(model))
    )
    assert_same([found], [expected])
