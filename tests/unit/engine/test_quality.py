"""A model's estimate of quality: its calibration, what a run records of it, and what translations say."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.engine.quality import QualityCurve
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError
from translator_run import ENGLISH, make_run

CURVE = QualityCurve((0.25, 0.5, 1.0), (10.0, 30.0, 90.0), 0.3)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), count=st.integers(100, 300), slope=st.floats(-50, 50))
def test_the_curve_is_an_isotonic_regression(seed: int, count: int, slope: float) -> None:
    isotonic = pytest.importorskip("scipy.optimize", reason="needs pip install scipy").isotonic_regression
    rng = np.random.default_rng(seed)
    p = rng.random(count)
    scores = np.clip(50 + slope * (p - 0.5) + rng.normal(0, 10, count), 0, 100)
    curve = QualityCurve.fit(p.tolist(), scores.tolist())
    assert curve is not None
    groups = np.array_split(np.argsort(p), 20)
    expected = isotonic([scores[rows].mean() for rows in groups], weights=[len(rows) for rows in groups]).x
    assert curve.chrf == pytest.approx(expected)
    assert curve.probabilities == pytest.approx([p[rows].mean() for rows in groups])
    assert (p < curve.review).mean() == pytest.approx(0.2, abs=0.01)


def test_few_sentences_give_no_curve() -> None:
    assert QualityCurve.fit([0.5] * 99, [50.0] * 99) is None


def record(run: Path, quality: Any) -> Path:
    measured = {"step": 1, "hardware": {}, "signatures": {}, "quality": quality}
    (run / "measured.json").write_text(json.dumps(measured))
    (run / "metrics.jsonl").write_text(json.dumps({"step": 1, "kind": "averaged"}) + "\n")
    return run


def test_translations_have_the_expected_score(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    plain = Translator.load(run, device="cpu").translate(ENGLISH)
    assert {(each.outputs[0].quality, each.outputs[0].review) for each in plain} == {(None, None)}
    record(run, CURVE.to_json())
    translator = Translator.load(run, device="cpu")
    assert translator.quality == CURVE
    found = translator.translate([*ENGLISH, " ".join(ENGLISH)], n_best=2, split=True)
    for output in (output for each in found for output in each.outputs):
        log_probs = output.token_log_probabilities
        assert output.probability == pytest.approx(math.exp(sum(log_probs) / len(log_probs)))
    for output in (output for each in found[:-1] for output in each.outputs):
        assert output.quality == CURVE.expected(output.probability)
        assert output.review == (output.probability < 0.3)
    parts = translator.translate([" ".join(ENGLISH)], split=True)[0].outputs[0]
    assert 10 <= parts.quality <= 90  # type: ignore[operator]


@pytest.mark.parametrize(
    "quality",
    [
        [],
        {},
        CURVE.to_json() | {"review": "0.3"},
        CURVE.to_json() | {"chrf": [1, 2]},
        CURVE.to_json() | {"chrf": [3, 2, 1]},
        CURVE.to_json() | {"chrf": [1, 2, 1e9]},
        CURVE.to_json() | {"probabilities": []},
        CURVE.to_json() | {"more": 1},
    ],
)
def test_a_damaged_record_is_refused(tmp_path: Path, quality: Any) -> None:
    run = record(make_run(tmp_path / "run"), quality)
    with pytest.raises(CheckpointError, match=r"measured\.json: quality: expected ascending probabilities"):
        Translator.load(run, device="cpu")
