"""A recorded forward pass beside an independent one in NumPy, and checks that the steps of each box recombine."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from headwise.analysis.boxes.architecture import box_of
from headwise.analysis.boxes.steps import Box, Step
from headwise.analysis.boxes.structure import BoxPlace, places
from headwise.analysis.boxes.tensors import BoxTensors
from headwise.config import ModelConfig
from headwise.learn.from_scratch import linear, softmax
from oracle import ACTIVATIONS, Oracle, rotate

CLOSE = {"rtol": 1e-4, "atol": 2e-5}
POOLED = ("pooling", "projection", "softmax")


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
    """One recorded text or image, and the independent model after the same.

    `outputs` are those of `oracle` by the dotted names that the model's modules have; `embedded` are the inputs of the
    first layers.
    """

    recorded: BoxTensors
    oracle: Watched
    outputs: dict[str, np.ndarray]
    embedded: dict[str, np.ndarray] = field(default_factory=dict)

    def box(self, place: BoxPlace, position: int, **options: Any) -> Box:
        return box_of(self.recorded.forward, place.name, place.layer, position, **options)

    @property
    def places(self) -> list[BoxPlace]:
        return places(self.recorded.structure)

    @property
    def config(self) -> ModelConfig:
        return self.recorded.structure.config


def vary_vectors(model: nn.Module) -> None:
    """Give norms and biases other values than their initial ones and zeros."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)


def expected_output(case: Case, place: BoxPlace) -> np.ndarray | None:
    """What the independent model has at the end of a box, (time, features)."""
    if place.kind == "positions":
        return case.embedded[place.stack]
    if place.kind in ("norm", "add-norm"):
        return case.outputs[place.norm]
    if place.kind in ("attention", "feed-forward"):
        return case.outputs[place.module]
    return None


def embedding(case: Case, place: BoxPlace, steps: dict[str, Step], position: int) -> None:
    token = case.recorded.forward.sides[place.stack].ids[position]
    e = steps["token"].vector("e")
    np.testing.assert_allclose(e, case.oracle.weights[f"{place.modules.embedding}.weight"][token], **CLOSE)
    scaled(case, steps, e)


def patches(case: Case, place: BoxPlace, steps: dict[str, Step], position: int) -> None:
    if "class token" in steps:
        e = steps["class token"].vector("e")
        np.testing.assert_allclose(e, case.oracle.weights["vision.class_token"], **CLOSE)
    else:
        x, e = steps["patch"].vector("x"), steps["patch"].vector("e")
        np.testing.assert_allclose(e, linear(x, case.oracle.part("vision"), "patch"), **CLOSE)
    scaled(case, steps, e)


def scaled(case: Case, steps: dict[str, Step], e: np.ndarray) -> None:
    assert ("× √d_{model}" in steps) == case.config.scale_embeddings
    if case.config.scale_embeddings:
        times = steps["× √d_{model}"].vector("√d_{model} e")
        np.testing.assert_allclose(times, e * math.sqrt(case.config.d_model), **CLOSE)


def position(case: Case, place: BoxPlace, steps: dict[str, Step], position: int) -> None:
    if case.recorded.structure.input_embedding(place.modules).table is None:
        step = steps["nothing added"]
        assert "adds no positional encoding" in step.sentence
        np.testing.assert_array_equal(step.vectors[0].values, step.vectors[1].values)
    else:
        table = steps["PE"].grid("PE")
        np.testing.assert_array_equal(table[position], steps["PE"].vector("PE"))
        before, encoding, x = (vector.values for vector in steps["+ PE"].vectors)
        np.testing.assert_array_equal(encoding, table[position])
        np.testing.assert_allclose(before + encoding, x, **CLOSE)
    if "+ segment" in steps:
        u, segment, x = (vector.values for vector in steps["+ segment"].vectors)
        weights = case.oracle.weights[f"{place.modules.positions}.segments.weight"]
        np.testing.assert_allclose(segment, weights[0], **CLOSE)
        np.testing.assert_allclose(u + segment, x, **CLOSE)
    if case.config.embedding_norm:
        normalized(case, steps)


def normalization(case: Case, place: BoxPlace, steps: dict[str, Step], position: int) -> None:
    if "+" in steps:
        x, y, s = (vector.values for vector in steps["+"].vectors)
        np.testing.assert_allclose(x + y, s, **CLOSE)
    if place.kind != "add":
        normalized(case, steps)


def normalized(case: Case, steps: dict[str, Step]) -> None:
    """The last two steps."""
    first, last = list(steps.values())[-2:]
    before, facts = first.vectors[0].values.astype(float), first.facts
    if case.config.normalization == "rms":
        assert facts["mean square"] == pytest.approx((before**2).mean(), rel=1e-5)
        n = before / math.sqrt(facts["mean square"] + facts["ε"])
    else:
        assert facts["mean"] == pytest.approx(before.mean(), abs=1e-6)
        assert facts["variance"] == pytest.approx(before.var(), rel=1e-5)
        n = (before - facts["mean"]) / math.sqrt(facts["variance"] + facts["ε"])
    np.testing.assert_allclose(first.vector("n"), n, **CLOSE)
    bias = last.vector("β") if case.config.normalization == "layer" else 0.0
    np.testing.assert_allclose(last.vector("n") * last.vector("γ") + bias, last.vector("out"), **CLOSE)


def feed_forward(case: Case, place: BoxPlace, steps: dict[str, Step], position: int) -> None:
    w, config = case.oracle.part(place.module), case.config
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


def attention(case: Case, place: BoxPlace, steps: dict[str, Step], position: int) -> None:
    w, config = case.oracle.part(place.module), case.config
    cross = place.module.endswith("cross_attention")
    rotary = config.positions == "rotary" and not cross
    for name in ("W^Q", "W^K, W^V", "W^O"):
        assert (" + b" in steps[name].formula) == config.attention_bias
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
                for one_q, one_k in zip(np.split(q, config.heads), np.split(k, config.heads, axis=1), strict=True)
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


def pooling(case: Case, place: BoxPlace, steps: dict[str, Step], position: int) -> None:
    (step,) = steps.values()
    first = step.grids[0].values.mean(0) if step.grids else step.vectors[0].values
    np.testing.assert_allclose(first, step.vector("h"), **CLOSE)
    np.testing.assert_allclose(first, case.outputs["pooled"][0], **CLOSE)


def head(case: Case, place: BoxPlace, steps: dict[str, Step], position: int) -> None:
    dense, activation, *_ = steps.values()
    w = case.oracle.part("head")
    np.testing.assert_allclose(dense.vector("z"), linear(dense.vector("x"), w, "dense"), **CLOSE)
    expected = ACTIVATIONS[case.config.activation](activation.vector("z").astype(float))
    np.testing.assert_allclose(activation.vector("a"), expected, **CLOSE)
    normalized(case, steps)


def projection(case: Case, place: BoxPlace, steps: dict[str, Step], position: int) -> None:
    logits, products = steps.values()
    expected = np.sort(case.outputs["logits"][position])[::-1][:10]
    np.testing.assert_allclose(logits.vector("z"), expected, **CLOSE)
    h, e, terms, z = (vector.values for vector in products.vectors)
    np.testing.assert_allclose(h * e, terms, **CLOSE)
    bias = products.facts.get("bias", 0.0)
    assert ("bias" in products.facts) == (case.recorded.structure.output_bias is not None)
    assert terms.sum() + bias == pytest.approx(z[0], abs=1e-4)


def softmax_box(case: Case, place: BoxPlace, steps: dict[str, Step], position: int) -> None:
    outcome = case.recorded.forward
    for temperature in (1.0, 0.5, 3.0):
        box = case.box(place, position, temperature=temperature)
        z, divided = (vector.values for vector in box.steps[0].vectors)
        np.testing.assert_allclose(z / temperature, divided, **CLOSE)
        exponentials, p = box.steps[2].vectors[0].values, box.steps[2].vector("P")
        np.testing.assert_allclose(np.exp(divided - box.steps[1].facts["max"]), exponentials, **CLOSE)
        np.testing.assert_allclose(exponentials / box.steps[1].facts["Σ"], p, **CLOSE)
        expected = softmax(case.outputs["logits"][position] / temperature)
        np.testing.assert_allclose(p, np.sort(expected)[::-1][:10], **CLOSE)
        facts = box.steps[2].facts
        chosen = expected[outcome.chosen.ids[position]]
        assert facts[f"P of {outcome.what}"] == pytest.approx(chosen, rel=1e-3)
        assert facts["entropy in nats"] == pytest.approx(-(expected * np.log(expected)).sum(), rel=1e-3)


RECOMBINE: dict[str, Callable[[Case, BoxPlace, dict[str, Step], int], None]] = {
    "embedding": embedding,
    "patches": patches,
    "positions": position,
    "attention": attention,
    "feed-forward": feed_forward,
    "add-norm": normalization,
    "norm": normalization,
    "add": normalization,
    "pooling": pooling,
    "head": head,
    "projection": projection,
    "softmax": softmax_box,
}


def outputs_are_those_of(case: Case) -> int:
    """Compare what boxes hand on with the independent forward pass; return the number of boxes."""
    compared = 0
    for place in case.places:
        expected = expected_output(case, place)
        if expected is None:
            continue
        for number in (0, 2, len(expected) - 1):
            np.testing.assert_allclose(case.box(place, number).output, expected[number], **CLOSE)
        compared += 1
    return compared


def each_begins_with_the_last(case: Case, stack: str) -> None:
    """Compare the first vector of each box of a stack with the last one of the box before it."""
    x: np.ndarray | None = None
    for place in case.places:
        if place.stack != stack or place.kind in POOLED:
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
    for place in case.places:
        if place.stack == stack and place.kind == "projection" and not place.pooled:
            np.testing.assert_allclose(case.box(place, 2).steps[0].vector("h"), x, **CLOSE)


def steps_recombine(case: Case) -> None:
    """Check the steps of every box with NumPy."""
    for place in case.places:
        for number in (0,) if place.pooled else (0, 3):
            box = case.box(place, number)
            RECOMBINE[place.kind](case, place, {step.name: step for step in box.steps}, number)
