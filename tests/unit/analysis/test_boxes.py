"""Every box against an independent forward pass in NumPy, for every option of the Transformer; and the boxes' sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headwise.analysis.boxes.architecture import architecture
from headwise.analysis.boxes.explaining import box_of, explain_box
from headwise.analysis.boxes.places import Place, places
from headwise.analysis.boxes.recording import Recorded, record
from headwise.analysis.boxes.steps import Box, Step
from headwise.analysis.interventions import parse_interventions
from headwise.analysis.tracer import Tracer
from headwise.decoding.translator import Translator
from headwise.errors import ConfigError
from headwise.learn.from_scratch import linear, softmax
from headwise.models.counting import forward_flops, parameter_count
from headwise.models.transformer import Transformer
from headwise.text.tokens.subwords import BOS
from oracle import ACTIVATIONS, Oracle, oracle_of, rotate
from translator_run import ENGLISH, make_run

TEXT, TARGET = ENGLISH[0], [17, 40, 9, 23, 40, 3]
CLOSE = {"rtol": 1e-4, "atol": 2e-5}
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


class Watched(Oracle):
    """The independent model, which also keeps the inputs and outputs of its parts."""

    def __init__(self, oracle: Oracle) -> None:
        super().__init__(oracle.weights, oracle.config)
        self.outputs: dict[str, np.ndarray] = {}

    def self_attention(self, name: str, x: Any, mask: Any) -> Any:
        return self.keep(name, super().self_attention(name, x, mask))

    def cross_attention(self, name: str, x: Any, memory: Any, mask: Any) -> Any:
        return self.keep(name, super().cross_attention(name, x, memory, mask))

    def feed_forward(self, name: str, x: Any) -> Any:
        return self.keep(name, super().feed_forward(name, x))

    def layer_norm(self, name: str, x: Any) -> Any:
        return self.keep(name, super().layer_norm(name, x))

    def last_norm(self, name: str, x: Any) -> Any:
        return self.keep(name, super().last_norm(name, x))

    def keep(self, name: str, x: Any) -> Any:
        self.outputs[name] = x
        return x


@dataclass
class Case:
    """A run with random weights, one recorded sentence, and the independent model after the same sentence."""

    tracer: Tracer
    recorded: Recorded
    oracle: Watched
    model: Transformer
    embedded: dict[str, np.ndarray] = field(default_factory=dict)

    def box(self, place: Place, position: int, **options: Any) -> Box:
        return box_of(self.tracer, self.recorded, place.name, place.layer, position, **options)

    @property
    def places(self) -> list[Place]:
        return places(self.model)


@pytest.fixture(scope="module", params=MODELS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    path = make_run(tmp_path_factory.mktemp("runs") / request.param, seed=5, **MODELS[request.param])
    tracer = Tracer(Translator.load(path))
    model = tracer.translator.model
    assert isinstance(model, Transformer)
    with torch.no_grad():  # norms and biases other than their initial ones and zeros
        torch.manual_seed(1)
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    recorded = record(tracer, TEXT, TARGET)
    oracle = Watched(oracle_of(model, model.config))
    source, reads = list(recorded.sides["encoder"].ids), [BOS, *TARGET[:-1]]
    seen = [True] * len(source)
    seen[-1] = model.config.source_end
    hidden = oracle.decode(reads, oracle.encode(source, seen), seen)
    oracle.keep("logits", oracle.logits(hidden))
    embedded = {
        "encoder": oracle.embed("source_embedding.weight", source),
        "decoder": oracle.embed(oracle.target_embedding(), reads),
    }
    return Case(tracer, recorded, oracle, model, embedded)


def expected_output(case: Case, place: Place) -> np.ndarray | None:
    """What the independent model has at the end of a box, (time, features)."""
    if place.kind == "positions":
        return case.embedded[place.stack]
    if place.kind in ("norm", "add-norm"):
        return case.oracle.outputs[place.norm]
    if place.kind in ("attention", "feed-forward"):
        return case.oracle.outputs[place.module]
    return None


def test_every_box_hands_on_what_an_independent_forward_pass_computes(case: Case) -> None:
    compared = 0
    for place in case.places:
        expected = expected_output(case, place)
        if expected is None:
            continue
        for position in (0, 2, len(expected) - 1):
            np.testing.assert_allclose(case.box(place, position).output, expected[position], **CLOSE)
            compared += 1
    assert compared >= 3 * (2 * 4 + 2 * 6)  # each sub-layer and its normalization


def test_each_box_begins_with_what_the_box_before_it_hands_on(case: Case) -> None:
    for stack in ("encoder", "decoder"):
        x: np.ndarray | None = None
        for place in case.places:
            if place.stack != stack or place.kind in ("projection", "softmax"):
                continue
            box = case.box(place, 2)
            first = box.steps[0].vectors[0].values
            if place.kind == "add":  # x and Sublayer(Norm(x)): the sub-layer's output is the second vector
                np.testing.assert_allclose(box.steps[0].vectors[1].values, x, **CLOSE)
            elif place.kind == "add-norm":
                np.testing.assert_allclose(box.steps[0].vector("Sublayer(x)"), x, **CLOSE)
            elif x is not None and place.kind != "positions":
                np.testing.assert_allclose(first, x, **CLOSE)
            x = box.output
        assert x is not None


def test_the_steps_of_a_box_recombine(case: Case) -> None:
    for place in case.places:
        for position in (0, 3):
            box = case.box(place, position)
            RECOMBINE[place.kind](case, place, {step.name: step for step in box.steps}, position)


def embedding(case: Case, place: Place, steps: dict[str, Step], position: int) -> None:
    name = "source_embedding.weight" if place.stack == "encoder" else case.oracle.target_embedding()
    token = case.recorded.sides[place.stack].ids[position]
    e = steps["token"].vector("e")
    np.testing.assert_allclose(e, case.oracle.weights[name][token], **CLOSE)
    assert ("× √d_{model}" in steps) == case.model.config.scale_embeddings
    if case.model.config.scale_embeddings:
        scaled = steps["× √d_{model}"].vector("√d_{model} e")
        np.testing.assert_allclose(scaled, e * math.sqrt(case.model.config.d_model), **CLOSE)


def position(case: Case, place: Place, steps: dict[str, Step], position: int) -> None:
    if case.model.positions.table is None:
        (step,) = steps.values()
        assert "adds no positional encoding" in step.sentence
        np.testing.assert_array_equal(step.vectors[0].values, step.vector("x"))
        return
    table = steps["PE"].grid("PE")
    np.testing.assert_array_equal(table[position], steps["PE"].vector("PE"))
    scaled, encoding, x = (vector.values for vector in steps["+ PE"].vectors)
    np.testing.assert_array_equal(encoding, table[position])
    np.testing.assert_allclose(scaled + encoding, x, **CLOSE)


def normalization(case: Case, place: Place, steps: dict[str, Step], position: int) -> None:
    if "+" in steps:
        x, y, s = (vector.values for vector in steps["+"].vectors)
        np.testing.assert_allclose(x + y, s, **CLOSE)
    if place.kind == "add":
        return
    first, last = list(steps.values())[-2:]
    before, facts = first.vectors[0].values.astype(float), first.facts
    if case.model.config.normalization == "rms":
        assert facts["mean square"] == pytest.approx((before**2).mean(), rel=1e-5)
        n = before / math.sqrt(facts["mean square"] + facts["ε"])
    else:
        assert facts["mean"] == pytest.approx(before.mean(), abs=1e-6)
        assert facts["variance"] == pytest.approx(before.var(), rel=1e-5)
        n = (before - facts["mean"]) / math.sqrt(facts["variance"] + facts["ε"])
    np.testing.assert_allclose(first.vector("n"), n, **CLOSE)
    bias = last.vector("β") if case.model.config.normalization == "layer" else 0.0
    np.testing.assert_allclose(last.vector("n") * last.vector("γ") + bias, last.vector("out"), **CLOSE)


def feed_forward(case: Case, place: Place, steps: dict[str, Step], position: int) -> None:
    w, config = case.oracle.part(place.module), case.model.config
    x, z = steps["W_1"].vector("x"), steps["W_1"].vector("z")
    np.testing.assert_allclose(z, linear(x, w, "w1"), **CLOSE)
    h = steps["W_2"].vector("h")
    expected = ACTIVATIONS[config.activation](z.astype(float))
    if config.gated:
        np.testing.assert_allclose(steps["gate"].vector("gate"), linear(x, w, "gate"), **CLOSE)
        expected = steps["gate"].vector("a") * steps["gate"].vector("gate")
    np.testing.assert_allclose(h, expected, **CLOSE)
    facts = steps["gate" if config.gated else config.activation].facts
    assert facts["share that is 0"] == (h == 0).mean()
    if config.activation == "relu":
        assert 0.1 < facts["share that is 0"] < 0.9
    units = next(vector for vector in steps["units"].vectors if vector.label == "h_j")
    np.testing.assert_array_equal(units.values, h[[int(name) - 1 for name in units.names or ()]])
    assert np.abs(h).max() == np.abs(units.values[0])
    np.testing.assert_allclose(steps["W_2"].vector("FFN(x)"), linear(h, w, "w2"), **CLOSE)


def attention(case: Case, place: Place, steps: dict[str, Step], position: int) -> None:
    w, config = case.oracle.part(place.module), case.model.config
    cross = place.module.endswith("cross_attention")
    rotary = config.positions == "rotary" and not cross
    q, k, v = (steps["W^Q"].vector("q"), *(steps["W^K, W^V"].grid(name) for name in "kv"))
    x, memory = steps["W^Q"].vector("x"), steps["W^K, W^V"].grid("x")
    if not rotary:
        np.testing.assert_allclose(q, linear(x, w, "query"), **CLOSE)
    else:
        np.testing.assert_allclose(steps["W^Q"].vector("x W^Q"), linear(x, w, "query"), **CLOSE)
        whole = np.tile(steps["W^Q"].vector("x W^Q"), (position + 1, 1))
        turned = [rotate(config, one)[position] for one in np.split(whole, config.heads, axis=1)]
        np.testing.assert_allclose(q, np.concatenate(turned), **CLOSE)
    groups = config.key_value_heads or config.heads
    keys, values = (np.split(linear(memory, w, name), groups, axis=1) for name in ("key", "value"))
    keys = [rotate(config, one) if rotary else one for one in keys]
    copies = config.heads // groups
    np.testing.assert_allclose(k, np.concatenate([one for one in keys for _ in range(copies)], 1), **CLOSE)
    np.testing.assert_allclose(v, np.concatenate([one for one in values for _ in range(copies)], 1), **CLOSE)
    weights = next(step for step in steps.values() if any(grid.label == "α" for grid in step.grids)).grid("α")
    if "softmax" in steps:
        scores = steps["softmax"].grid("s")
        np.testing.assert_allclose(weights, softmax(scores.astype(float)), **CLOSE)
        if config.positions not in ("alibi", "t5", "relative") or cross:
            products = [
                one_k @ one_q / math.sqrt(config.key_size)
                for one_q, one_k in zip(
                    np.split(q, config.heads), np.split(k, config.heads, axis=1), strict=True
                )
            ]
            shown = np.isfinite(scores)
            np.testing.assert_allclose(scores[shown], np.array(products)[shown], **CLOSE)
        if place.name == "decoder.self-attention":
            assert not weights[:, position + 1 :].any()
    heads = steps["concat"].vector("heads")
    if not (config.position_options.relative.values and not cross):
        mixed = [a @ one for a, one in zip(weights, np.split(v, config.heads, axis=1), strict=True)]
        np.testing.assert_allclose(heads, np.concatenate(mixed), **CLOSE)
    np.testing.assert_allclose(steps["W^O"].vector("out"), linear(heads, w, "output"), **CLOSE)


def projection(case: Case, place: Place, steps: dict[str, Step], position: int) -> None:
    expected = np.sort(case.oracle.outputs["logits"][position])[::-1][:10]
    np.testing.assert_allclose(steps["logits"].vector("z"), expected, **CLOSE)
    h, e, terms, z = (vector.values for vector in steps["h · e"].vectors)
    np.testing.assert_allclose(h * e, terms, **CLOSE)
    bias = steps["h · e"].facts.get("bias", 0.0)
    assert ("bias" in steps["h · e"].facts) == case.model.config.logit_bias
    assert terms.sum() + bias == pytest.approx(z[0], abs=1e-4)


def softmax_box(case: Case, place: Place, steps: dict[str, Step], position: int) -> None:
    for temperature in (1.0, 0.5, 3.0):
        box = case.box(place, position, temperature=temperature)
        z, divided = (vector.values for vector in box.steps[0].vectors)
        np.testing.assert_allclose(z / temperature, divided, **CLOSE)
        exponentials, p = box.steps[2].vectors[0].values, box.steps[2].vector("P")
        np.testing.assert_allclose(np.exp(divided - box.steps[1].facts["max"]), exponentials, **CLOSE)
        np.testing.assert_allclose(exponentials / box.steps[1].facts["Σ"], p, **CLOSE)
        expected = softmax(case.oracle.outputs["logits"][position] / temperature)
        np.testing.assert_allclose(p, np.sort(expected)[::-1][:10], **CLOSE)
        facts = box.steps[2].facts
        assert facts["P of this translation's token"] == pytest.approx(expected[TARGET[position]], rel=1e-3)
        assert facts["entropy in nats"] == pytest.approx(-(expected * np.log(expected)).sum(), rel=1e-3)


RECOMBINE: dict[str, Callable[[Case, Place, dict[str, Step], int], None]] = {
    "embedding": embedding,
    "positions": position,
    "attention": attention,
    "feed-forward": feed_forward,
    "add-norm": normalization,
    "norm": normalization,
    "add": normalization,
    "projection": projection,
    "softmax": softmax_box,
}


def test_the_shares_add_up_and_the_operations_are_torchs(case: Case) -> None:
    found = architecture(case.recorded)
    assert [(box.name, box.layer) for box in found.boxes] == [(p.name, p.layer) for p in case.places]
    assert sum(part.parameters for part in found.parts) == parameter_count(case.model)
    n, m = (len(case.recorded.sides[stack].ids) for stack in ("encoder", "decoder"))
    if case.model.config.cross_attention == "linear":
        assert all(part.flops is None for part in found.parts)
        return
    total = sum(part.flops or 0 for part in found.parts)
    assert total == forward_flops(case.model.config, case.model.target_size, n, m)
    if case.model.config.positions not in ("relative", "alibi", "t5"):
        ids = torch.zeros(1, n, dtype=torch.long)
        with FlopCounterMode(display=False) as counter, torch.inference_mode():
            hidden = case.model(ids, torch.ones_like(ids).bool(), torch.zeros(1, m, dtype=torch.long))
            case.model.project(hidden)
        assert counter.get_total_flops() == total


def test_sizes_are_those_of_what_each_box_hands_on(case: Case) -> None:
    found = architecture(case.recorded)
    for place, box in zip(case.places, found.boxes, strict=True):
        tokens = len(case.recorded.sides[place.stack].ids)
        assert box.sizes.shape == (tokens,) == box.shape[:1]
        if place.kind not in ("projection", "softmax", "embedding"):
            output = case.box(place, 1).output
            assert box.shape[1] == len(output)
            assert box.sizes[1] == pytest.approx(np.sqrt((output**2).mean()), rel=1e-4)


# ------------------------------------------------------------------------------------------ what isn't there


@pytest.fixture(scope="module")
def tracer(tmp_path_factory: pytest.TempPathFactory) -> Tracer:
    return Tracer(Translator.load(make_run(tmp_path_factory.mktemp("runs") / "pre", seed=3, norm="pre")))


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
    tracer: Tracer, name: str, layer: int, position: int, message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        explain_box(tracer, TEXT, TARGET, name, layer, position)
    assert message in str(raised.value)


def test_interventions_act_on_the_boxes(tracer: Tracer) -> None:
    silence = parse_interventions(["silence:encoder.1.1"])
    before, after = (
        explain_box(tracer, TEXT, TARGET, "encoder.self-attention", 0, 1, interventions=changes)
        for changes in ((), silence)
    )
    heads = after.steps[-1].vector("heads")
    assert not heads[:8].any()
    np.testing.assert_array_equal(heads[8:], before.steps[-1].vector("heads")[8:])


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
        explain_box(Tracer(Translator.load(run)), TEXT, TARGET, "encoder.self-attention", 0)
