"""What a box shows where a part of the model is switched off: the formula of what was computed, with its numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headwise.analysis.boxes.architecture import box_of
from headwise.analysis.boxes.steps import Box, Step
from headwise.analysis.interventions import parse_interventions
from headwise.analysis.interventions.history import History
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.engine.translator import Translator
from headwise.learn.from_scratch import softmax
from translator_run import ENGLISH, make_run

TEXT, TARGET = ENGLISH[0], [17, 40, 9, 23, 40, 3]
CLOSE = {"rtol": 1e-4, "atol": 2e-5}
MODELS = {
    "post": {},
    "pre": {"norm": "pre"},
    "rotary": {"norm": "pre", "positions": "rotary"},
    "unconnected": {"norm": "pre", "residual": False},
}


class Beginning(History):
    """The history of a run without checkpoints, which has its initialization."""

    def steps(self) -> list[int]:
        return [0]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {name: make_run(folder / name, seed=5, **changes) for name, changes in MODELS.items()}


@pytest.fixture(scope="module")
def tracers(runs: dict[str, Path]) -> dict[str, TranslationTracer]:
    return {name: TranslationTracer(Translator.load(run), Beginning(run)) for name, run in runs.items()}


def explained(tracer: TranslationTracer, box: str, *changes: str, layer: int | None = None) -> Box:
    interventions = parse_interventions(changes)
    return box_of(tracer.record(TEXT, TARGET, interventions), box, layer, 2)


def step(box: Box, name: str) -> Step:
    return next(step for step in box.steps if step.name == name)


def test_without_a_residual_connection_the_sub_layer_takes_the_place(
    tracers: dict[str, TranslationTracer],
) -> None:
    for tracer, name, label in (
        (tracers["post"], "encoder.self-attention.add-norm", "Sublayer(x)"),
        (tracers["pre"], "decoder.cross-attention.add", "Sublayer(Norm(x))"),
        (tracers["pre"], "decoder.feed-forward.add", "Sublayer(Norm(x))"),
    ):
        found = step(explained(tracer, name, "no-residual:*.*"), "no +")
        assert found.formula == f"s = {label}"
        assert "residual connection is switched off" in found.sentence
        np.testing.assert_array_equal(found.vector(label), found.vector("s"))
        elsewhere = explained(tracer, name, "no-residual:*.2")
        assert elsewhere.steps[0].formula == f"s = x + {label}"


def test_a_model_trained_without_residual_connections_has_none_in_its_boxes(
    tracers: dict[str, TranslationTracer],
) -> None:
    found = step(explained(tracers["unconnected"], "decoder.feed-forward.add"), "no +")
    np.testing.assert_array_equal(found.vector("Sublayer(Norm(x))"), found.vector("s"))


def test_without_normalization_its_input_is_handed_on(tracers: dict[str, TranslationTracer]) -> None:
    for tracer, name, symbol in (
        (tracers["post"], "decoder.feed-forward.add-norm", "s"),
        (tracers["pre"], "encoder.self-attention.norm", "x"),
        (tracers["pre"], "encoder.norm", "x"),
    ):
        box = explained(tracer, name, "no-norm:*.*")
        last = box.steps[-1]
        assert (last.name, last.formula) == ("no norm", f"out = {symbol}")
        np.testing.assert_array_equal(last.vector(symbol), box.output)
        assert not any("γ" in one.formula for one in box.steps)
    box = explained(tracers["pre"], "encoder.self-attention.add", "no-norm:*.*")
    assert box.steps[0].formula == "s = x + Sublayer(x)"


def test_without_a_feed_forward_network_zero_is_added(tracers: dict[str, TranslationTracer]) -> None:
    for name in ("post", "pre"):
        (found,) = explained(tracers[name], "decoder.feed-forward", "no-ffn:*.*").steps
        assert found.formula == "FFN(x) = 0"
        assert not found.vector("FFN(x)").any()


@pytest.mark.parametrize(
    ("changes", "formula", "divisor"),
    [
        (["no-scaling:*.*.*"], "α = softmax(q k^T)", 1),
        (["temperature:*.*.*@2"], "α = softmax(q k^T / √d_k / T)", 2 * 8**0.5),
        (["no-scaling:encoder.1.*", "temperature:*.*.*@0.5"], "α = softmax(q k^T / T)", 0.5),
        (["no-scaling:decoder.*.*"], "α = softmax(q k^T / √d_k)", 8**0.5),
        (["no-scaling:*.*.*", "no-scaling:encoder.*.*"], "α = softmax(q k^T / √d_k)", 8**0.5),
    ],
)
def test_the_scores_are_divided_as_the_formula_says(
    tracers: dict[str, TranslationTracer], changes: list[str], formula: str, divisor: float
) -> None:
    box = explained(tracers["post"], "encoder.self-attention", *changes)
    found = step(box, "softmax")
    assert found.formula == formula
    q = step(box, "W^Q").vector("q").reshape(-1, 8)
    k = step(box, "W^K, W^V").grid("k").reshape(-1, len(q), 8)
    np.testing.assert_allclose(found.grid("s"), np.einsum("hd,khd->hk", q, k) / divisor, **CLOSE)
    np.testing.assert_allclose(found.grid("α"), softmax(found.grid("s").astype(float)), **CLOSE)


@pytest.mark.parametrize("change", ["silence:encoder.1.2", "uniform:encoder.1.1", "temperature:*.1.2@2"])
def test_weights_that_are_changed_after_the_softmax(tracers: dict[str, TranslationTracer], change: str) -> None:
    box = explained(tracers["post"], "encoder.self-attention", change)
    found, changed = step(box, "softmax"), step(box, "α'")
    np.testing.assert_allclose(found.grid("α"), softmax(found.grid("s").astype(float)), **CLOSE)
    assert change in changed.sentence
    assert not np.allclose(found.grid("α"), changed.grid("α'"))
    v = step(box, "W^K, W^V").grid("v").reshape(-1, 2, 8)
    heads = np.einsum("hk,khd->hd", changed.grid("α'"), v).ravel()
    np.testing.assert_allclose(step(box, "concat").vector("heads"), heads, **CLOSE)


def test_positions_that_are_switched_off_or_shuffled(tracers: dict[str, TranslationTracer]) -> None:
    (found,) = explained(tracers["post"], "encoder.positions", "no-positions:*").steps
    assert "Positions are switched off" in found.sentence
    assert found.formula == "x = √d_{model} e"
    np.testing.assert_allclose(found.vectors[0].values, found.vector("x"), **CLOSE)
    assert len(explained(tracers["post"], "decoder.positions", "no-positions:encoder").steps) == 2
    box = explained(tracers["post"], "encoder.positions", "shuffle-positions:encoder@1")
    before, row, x = (vector.values for vector in box.steps[-1].vectors)
    np.testing.assert_allclose(before + row, x, **CLOSE)
    number = int(step(box, "PE").facts["pos"])
    np.testing.assert_array_equal(step(box, "PE").grid("PE")[number], row)
    assert (number == 2) == ("Positions are shuffled" not in step(box, "PE").sentence)
    rotary = explained(tracers["rotary"], "decoder.self-attention", "no-positions:decoder")
    assert step(rotary, "W^Q").formula == "q = x W^Q"
    assert "rotary positions are switched off" in step(rotary, "W^Q").sentence
    off = explained(tracers["rotary"], "decoder.positions", "no-positions:decoder").steps[0]
    assert "rotary positions are switched off" in off.sentence


def test_without_a_causal_mask_every_key_is_attended_to(tracers: dict[str, TranslationTracer]) -> None:
    found = step(explained(tracers["post"], "decoder.self-attention", "no-mask:decoder.*"), "softmax")
    assert "The causal mask is switched off" in found.sentence
    assert (found.grid("α") > 0).all()
    assert found.facts["masked keys"] == 0


def test_at_another_checkpoint_the_parameters_are_that_checkpoints(
    tracers: dict[str, TranslationTracer],
) -> None:
    products = explained(tracers["post"], "projection", "checkpoint:0").steps[1]
    h, e, terms, z = (vector.values for vector in products.vectors)
    np.testing.assert_allclose(h * e, terms, **CLOSE)
    assert terms.sum() == pytest.approx(z[0], abs=1e-4)
    trained = explained(tracers["post"], "projection").steps[1].vectors
    assert not np.allclose(trained[1].values, e)
