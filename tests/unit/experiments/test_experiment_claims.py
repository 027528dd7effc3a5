"""The measurements behind claims, against exact values."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise.config import ModelConfig
from headwise.evaluation.calibration import calibration
from headwise.evaluation.translation import bleu
from headwise.experiments import attention, extrapolation, figures, recall
from headwise.experiments.gradients import flow
from headwise.experiments.harness.records import mean, read_record
from headwise.experiments.harness.scoring import curve, spent_until
from headwise.experiments.harness.test_sets import rejoin_compounds, split_compounds
from headwise.experiments.tagging import NO_TAG, Tagger, shape
from headwise.models.build import build_model
from paths import ROOT


def test_the_softmaxs_state_is_its_definition() -> None:
    """Uniform over n: entropy log n, Jacobian (I - 1/n) / n with norm √(n - 1) / n; one-hot: gradient 0."""
    state = attention.softmax_state(torch.full((3, 5), 0.2, dtype=torch.float64))
    assert state["largest"] == pytest.approx(0.2)
    assert state["entropy"] == pytest.approx(math.log(5))
    assert state["gradient"] == pytest.approx(math.sqrt(4) / 5)
    spike = attention.softmax_state(torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64))
    assert spike == {"largest": 1.0, "entropy": 0.0, "gradient": 0.0}


def test_the_jacobian_is_autograds() -> None:
    scores = torch.randn(4, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), scores)
    assert isinstance(jacobian, torch.Tensor)
    found = attention.softmax_state(scores.softmax(-1)[None])["gradient"]
    assert found == pytest.approx(jacobian.norm().item())


def test_dividing_keeps_the_gradient_and_not_dividing_loses_it() -> None:
    points = attention.measure_scaling(seed=3, sizes=(4, 1024), draws=400, keys=16)["points"]
    small, large = points
    assert large["variance"] == pytest.approx(1024, rel=0.1)
    assert large["divided"]["gradient"] == pytest.approx(small["divided"]["gradient"], rel=0.1)
    assert large["undivided"]["gradient"] < 0.4 * small["undivided"]["gradient"]


def test_without_positions_attention_is_equivariant_exactly() -> None:
    found = attention.measure_permutation(seed=2, length=8, permutations=3)
    recorded = read_record(ROOT / "results" / "measured" / "permutation.seed1.json")
    assert recorded is not None
    assert found["kinds"].keys() == recorded.result["kinds"].keys()
    assert found["exact"] == 0.0
    assert found["kinds"].pop("none") < 1e-13
    assert min(found["kinds"].values()) > 1e-4


def test_sinusoids_are_shifted_by_a_matrix() -> None:
    errors = figures.measure_shift(seed=1, d_model=32, length=50, offsets=[0, 3])["errors"]
    assert errors["0"] == 0.0
    assert errors["3"] < 1e-6


def test_tags_need_the_token_before() -> None:
    tokens = torch.tensor([[1, 2, 3, 7, 6]])
    assert extrapolation.tags(tokens).tolist() == [[1, 3, 5, 2, 5]]


def test_a_tagger_learns_in_a_few_steps() -> None:
    settings = {"steps": 150, "trained": 24, "tested": (16, 32), "d_model": 16, "layers": 1}
    found = extrapolation.measure(seed=1, positions="none", **settings)["accuracy"]
    assert set(found) == {"16", "32"}
    assert 0 < found["16"] <= 1


@pytest.mark.parametrize("positions", ["none", "rotary", "sinusoidal", "alibi"])
def test_a_tagger_is_causal(positions: str) -> None:
    model = Tagger(shape(16, 2, 16, positions=positions), 8, 8)
    tokens = torch.randint(8, (1, 12, 1))
    changed = tokens.clone()
    changed[0, 7] = (tokens[0, 7] + 1) % 8
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(0, 30))
def test_every_question_asks_for_a_key_that_was_shown_before(seed: int, keys: int, questions: int) -> None:
    """The gold tags are those of a dictionary that is filled while the sequence is read."""
    torch.manual_seed(seed)
    tokens, tags, distance = recall.sequences(3, keys + questions, keys)
    mark = int(tokens[:, :, 1].max()) if questions else None
    for row in range(3):
        shown: dict[int, tuple[int, int]] = {}
        for place, ((key, value), tag) in enumerate(zip(tokens[row].tolist(), tags[row].tolist(), strict=True)):
            if value == mark:
                assert tag == shown[key][1]
                assert distance[row, place] == place - shown[key][0]
            else:
                assert key not in shown
                assert (tag, distance[row, place]) == (NO_TAG, 0)
                shown[key] = (place, value - keys)
        assert len(shown) == keys


@pytest.mark.slow
def test_every_kind_learns_to_recall_what_is_near() -> None:
    settings = {"length": 24, "keys": 3, "nearest": (1, 8), "d_model": 32, "layers": 1}
    found = {
        kind: recall.measure(seed=1, kind=kind, steps=150, **settings) for kind in ("fused", "linear", "recurrent")
    }
    assert all(set(result["accuracy"]) == {"1", "8"} for result in found.values())
    assert found["fused"]["accuracy"]["8"] > 0.9
    assert all(result["accuracy"]["1"] > 0.5 for result in found.values()), found  # guessing has 0.125


@pytest.mark.parametrize("architecture", ["transformer", "recurrent", "convolutional"])
def test_gradient_flow_is_the_norm_of_the_jacobian(architecture: str) -> None:
    """One sentence, against the whole Jacobian of the decoder's last state, computed row by row."""
    torch.manual_seed(0)
    shape = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8, "d_ff": 16, "heads": 2, "dropout": 0.0}
    model = build_model(ModelConfig.model_validate({**shape, "architecture": architecture}), 40, 40).eval()
    source, target = torch.arange(4, 10)[None], torch.arange(10, 16)[None]  # all different words
    mask = torch.ones_like(source, dtype=torch.bool)
    weight = model.get_parameter("source_embedding.weight")
    hidden = model(source, mask, target)[0, -1]
    rows = torch.stack([torch.autograd.grad(value, weight, retain_graph=True)[0] for value in hidden])
    exact = rows[:, target[0]].square().sum((0, 2)).sqrt().flip(0)
    many = torch.stack([torch.tensor(flow(model, source, target)["decoder"])])
    assert many.shape == (1, 6)
    ratio = many[0] / exact.detach().double()
    assert ratio[exact > 1e-6].min() > 0.3  # four random projections estimate the norm roughly
    assert ratio[exact > 1e-6].max() < 3
    assert (many[0][exact < 1e-9] < 1e-9).all()


def test_compounds_are_split_and_rejoined() -> None:
    line = "die Nord-Süd-Achse - ein 3-D-Modell"
    split = split_compounds(line)
    assert split == "die Nord ##AT##-##AT## Süd ##AT##-##AT## Achse - ein 3 ##AT##-##AT## D-Modell"
    assert split_compounds(split) == split
    assert rejoin_compounds(split) == line
    right, half = ["eine Nord-Süd-Achse hier"], ["eine Nord-Ost-Achse hier"]
    counted = [bleu([split_compounds(s) for s in half], [split_compounds(s) for s in right], tokenize="none").score]
    assert counted[0] > bleu(half, right, tokenize="none").score  # half a compound gets credit


def test_calibration_error_is_its_definition() -> None:
    found = calibration([0.25] * 10 + [0.9] * 30, [True, False] * 5 + [True] * 24 + [False] * 6)
    assert found.error == pytest.approx((10 * 0.25 + 30 * 0.1) / 40)


def test_minutes_of_a_run_reach_to_its_last_step(tmp_path: Path) -> None:
    """100 tokens per step at 1,000 and 500 tokens per second: 10 s for 100 steps, then 15 s for 75 steps."""
    metrics = [
        {"kind": "train", "step": 100, "target_tokens_per_second": 1000.0, "seconds": 10.5},
        {"kind": "dev", "step": 100, "loss": 3.0, "bleu": 5.0, "seconds": 10.5},
        {"kind": "train", "step": 150, "target_tokens_per_second": 500.0, "seconds": 23.0},
        {"kind": "dev", "step": 175, "loss": 2.0, "bleu": 7.0, "seconds": 28.0},
        {"kind": "averaged", "step": 175, "loss": 2.1},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    points = curve(tmp_path, target_tokens=17_500)
    assert [(p["step"], p["minutes"] * 60) for p in points] == [(100, 10.0), (175, 25.0)]


def test_a_run_without_a_logged_speed_has_wall_clock_minutes(tmp_path: Path) -> None:
    line = {"kind": "dev", "step": 40, "loss": 3.0, "seconds": 6.0}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    assert curve(tmp_path, target_tokens=4_000) == [{"step": 40, "minutes": 0.1, "loss": 3.0}]


@pytest.mark.parametrize("of", ["minutes", "step"])
def test_what_a_score_took_is_interpolated_between_validations(of: str) -> None:
    points = [{of: 2.0, "bleu": 10.0}, {of: 4.0, "bleu": 20.0}]
    assert spent_until(points, 5.0, of) == 1.0
    assert spent_until(points, 15.0, of) == 3.0
    assert spent_until(points, 20.0, of) == 4.0
    assert spent_until(points, 21.0, of) is None


def test_intervals_are_students() -> None:
    stats = pytest.importorskip("scipy.stats")

    values = [25.1, 25.9, 25.4, 26.2]
    low, high = stats.t.interval(0.95, 3, loc=sum(values) / 4, scale=stats.sem(values))
    found = mean(values)
    assert found.half is not None
    assert (found.value - found.half, found.value + found.half) == pytest.approx((low, high), abs=2e-3)
    for count in range(2, 60):
        half = mean([0.0, 1.0] + [0.5] * (count - 2)).half
        values = [0.0, 1.0] + [0.5] * (count - 2)
        assert half == pytest.approx(stats.t.ppf(0.975, count - 1) * stats.sem(values), rel=2e-3)
    assert mean([3.0]).half is None
    assert mean([3.0]).text(1) == "3.0"
