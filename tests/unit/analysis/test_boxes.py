"""Every box against an independent forward pass in NumPy, for every option of the Transformer; and the boxes' sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from boxes import (
    Case,
    Watched,
    each_begins_with_the_last,
    outputs_are_those_of,
    steps_recombine,
    vary_vectors,
)
from headwise.analysis.boxes.architecture import architecture, box_of
from headwise.analysis.boxes.steps import box_lines
from headwise.analysis.boxes.tensors import BoxTensors
from headwise.analysis.interventions import parse_interventions
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.models.counting import forward_flops, parameter_count
from headwise.models.transformer import Transformer
from headwise.text.tokens.subwords import BOS
from oracle import oracle_of
from translator_run import ENGLISH, make_run

TEXT, TARGET = ENGLISH[0], [17, 40, 9, 23, 40, 3]
SWIGLU = {"activation": "silu", "gated": True, "feed_forward_bias": False, "normalization": "rms"}
MODELS: dict[str, dict[str, Any]] = {
    "paper": {"share_embeddings": "all"},
    "pre": {"norm": "pre", "activation": "gelu", "attention_bias": True, "logit_bias": True},
    "llama": {"norm": "pre", "positions": "rotary", "key_value_heads": 1, **SWIGLU},
    "halves": {"positions": "rotary", "position_options": {"rotary": {"pairs": "halves"}}},
    "learned": {"positions": "learned", "activation": "gelu_tanh", "share_embeddings": "target"},
    "none": {"positions": "none", "scale_embeddings": False, "source_end": False},
    "fairseq": {"positions": "fairseq", "d_k": 4, "d_v": 6, "final_norm": True},
    "relative": {
        "positions": "relative",
        "position_options": {"relative": {"reach": 3, "values": True}},
        "attention": "reference",
    },
    "alibi": {
        "positions": "alibi",
        "attention": "window",
        "attention_options": {"window": {"size": 3}},
        "cross_attention": "fused",
    },
    "t5": {"positions": "t5", "normalization": "rms", "cross_attention": "linear"},
}


@pytest.fixture(scope="module", params=MODELS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    path = make_run(tmp_path_factory.mktemp("runs") / request.param, seed=5, **MODELS[request.param])
    tracer = TranslationTracer(Translator.load(path))
    model = tracer.trained
    assert isinstance(model, Transformer)
    vary_vectors(model)
    recorded = BoxTensors(tracer.record(TEXT, TARGET))
    oracle = Watched(oracle_of(model, model.config))
    source, reads = list(recorded.forward.sides["encoder"].ids), [BOS, *TARGET[:-1]]
    seen = [True] * len(source)
    seen[-1] = model.config.source_end
    hidden = oracle.decode(reads, oracle.encode(source, seen), seen)
    oracle.keep("logits", oracle.logits(hidden))
    embedded = {
        "encoder": oracle.embed("source_embedding.weight", source),
        "decoder": oracle.embed(oracle.target_embedding(), reads),
    }
    return Case(recorded, oracle, oracle.outputs, embedded)


def test_every_box_hands_on_what_an_independent_forward_pass_computes(case: Case) -> None:
    assert outputs_are_those_of(case) >= 2 * 4 + 2 * 6  # each sub-layer and its normalization


def test_each_box_begins_with_what_the_box_before_it_hands_on(case: Case) -> None:
    for stack in ("encoder", "decoder"):
        each_begins_with_the_last(case, stack)


def test_the_steps_of_a_box_recombine(case: Case) -> None:
    steps_recombine(case)


def test_the_shares_add_up_and_the_operations_are_torchs(case: Case) -> None:
    found, model = architecture(case.recorded.forward), case.recorded.structure.model
    assert isinstance(model, Transformer)
    assert [(box.name, box.layer) for box in found.boxes] == [(p.name, p.layer) for p in case.places]
    assert sum(part.parameters for part in found.parts) == parameter_count(model)
    n, m = (len(case.recorded.forward.sides[stack].ids) for stack in ("encoder", "decoder"))
    if case.config.cross_attention == "linear":
        assert all(part.flops is None for part in found.parts)
        return
    total = sum(part.flops or 0 for part in found.parts)
    assert total == forward_flops(case.config, model.target_size, n, m)
    if case.config.positions not in ("relative", "alibi", "t5"):
        ids = torch.zeros(1, n, dtype=torch.long)
        with FlopCounterMode(display=False) as counter, torch.inference_mode():
            hidden = model(ids, torch.ones_like(ids).bool(), torch.zeros(1, m, dtype=torch.long))
            model.project(hidden)
        assert counter.get_total_flops() == total


def test_sizes_are_those_of_what_each_box_hands_on(case: Case) -> None:
    found = architecture(case.recorded.forward)
    for place, box in zip(case.places, found.boxes, strict=True):
        tokens = len(case.recorded.forward.sides[place.stack].ids)
        assert box.sizes.shape == (tokens,) == box.shape[:1]
        if place.kind not in ("projection", "softmax", "embedding"):
            output = case.box(place, 1).output
            assert box.shape[1] == len(output)
            assert box.sizes[1] == pytest.approx(np.sqrt((output**2).mean()), rel=1e-4)


# ------------------------------------------------------------------------------------------ what isn't there


@pytest.fixture(scope="module")
def tracer(tmp_path_factory: pytest.TempPathFactory) -> TranslationTracer:
    return TranslationTracer(Translator.load(make_run(tmp_path_factory.mktemp("runs") / "pre", seed=3, norm="pre")))


@pytest.mark.parametrize(
    ("name", "layer", "position", "message"),
    [
        ("encoder.self-attention.add-norm", 0, 0, "expected encoder.self-attention.norm and "),
        ("encoder.cross-attention", 0, 0, "box: expected one of this model's (encoder.embedding, "),
        ("encoder.self-attention", 2, 0, "layer: expected a number from 1 to 2, found 3"),
        ("encoder.self-attention", -1, 0, "layer: expected a number from 1 to 2, found 0"),
        ("softmax", 1, 0, "layer: expected none for softmax, which is outside the layers, found 2"),
        ("decoder.feed-forward", 1, 6, "position: expected a number from 1 to 6, found 7"),
        ("decoder.feed-forward", 1, -1, "position: expected a number from 1 to 6, found 0"),
    ],
)
def test_a_box_that_there_is_none_of(
    tracer: TranslationTracer, name: str, layer: int, position: int, message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        box_of(tracer.record(TEXT, TARGET), name, layer, position)
    assert message in str(raised.value)


def test_interventions_act_on_the_boxes(tracer: TranslationTracer) -> None:
    silence = parse_interventions(["silence:encoder.1.1"])
    before, after = (
        box_of(tracer.record(TEXT, TARGET, changes), "encoder.self-attention", 0, 1) for changes in ((), silence)
    )
    heads = after.steps[-1].vector("heads")
    assert not heads[:8].any()
    np.testing.assert_array_equal(heads[8:], before.steps[-1].vector("heads")[8:])


def test_probabilities_that_underflow_have_finite_logarithms(tracer: TranslationTracer) -> None:
    forward = tracer.record(TEXT, TARGET)
    logits = forward.logits[2].double() / 1e-5
    facts = box_of(forward, "softmax", position=2, temperature=1e-5).steps[-1].facts
    assert facts["P of this translation's token"] == 0
    assert facts["log P"] == pytest.approx(float(logits[TARGET[2]] - logits.max()), rel=1e-6)


def test_an_exponent_of_several_characters_is_printed_in_parentheses(tracer: TranslationTracer) -> None:
    lines = box_lines(box_of(tracer.record(TEXT, TARGET), "encoder.positions"))
    assert "1. PE    PE_pos,2i = sin(pos / 10000^(2i/d))" in lines


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "recurrent"}, "expected a Transformer, found a recurrent model"),
        ({"attention": "state_space", "cross_attention": "fused"}, "found a state_space layer"),
    ],
)
def test_models_without_the_box(
    changes: dict[str, Any], message: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = make_run(tmp_path_factory.mktemp("runs") / "other", **changes)
    with pytest.raises(ConfigError, match=message):
        box_of(TranslationTracer(Translator.load(run)).record(TEXT, TARGET), "encoder.self-attention", 0)
