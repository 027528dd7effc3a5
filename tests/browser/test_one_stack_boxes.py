"""The figure and the numbers inside the boxes of GPT, BERT and ViT runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect
from safetensors.numpy import load_file

from browser.conftest import Served, Visit, number, serving, visiting
from browser.test_model_boxes import CLOSE
from image_run import make_image_run
from language_model_run import make_language_model_run, make_masked_model_run

TEXTS = {"writer": "text=the cat", "masked": "text=the <mask> sat", "digits": "image=3"}
BERT = {"positions": "learned", "scale_embeddings": False, "embedding_norm": True, "segments": 2}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("sklearn", reason="the digits need pip install 'headwise[digits]'")
    folder = tmp_path_factory.mktemp("runs")
    return {
        "writer": make_language_model_run(folder / "writer", decoder_layers=2),
        "masked": make_masked_model_run(folder / "masked", **BERT),
        "digits": make_image_run(folder / "digits", "image_classification", patch=2),
    }


@pytest.fixture(scope="module")
def served(runs: dict[str, Path]) -> Iterator[Served]:
    with serving(*runs.values()) as server:
        yield server


def vectors(visit: Visit, run: str, box: str, step: int, more: str = "&position=2") -> dict[str, np.ndarray]:
    return visit.vectors(f"run={run}&{TEXTS[run]}&box={box}&boxStep={step}{more}")


def test_a_language_models_boxes_recombine(browser: Browser, served: Served, runs: dict[str, Path]) -> None:
    w = load_file(runs["writer"] / "model.safetensors")
    with visiting(browser, served) as visit:
        summed = vectors(visit, "writer", "decoder.positions", 1)
        np.testing.assert_allclose(summed["√d_model e"] + summed["PE"], summed["x"], **CLOSE)
        queries = vectors(visit, "writer", "decoder.self-attention", 0)
        np.testing.assert_allclose(queries["x"], summed["x"], **CLOSE)
        np.testing.assert_allclose(w["layers.0.self_attention.query.weight"] @ queries["x"], queries["q"], **CLOSE)
        joined = vectors(visit, "writer", "decoder.self-attention", 4)
        added = vectors(visit, "writer", "decoder.self-attention.add-norm", 0)
        np.testing.assert_allclose(added["Sublayer(x)"], joined["out"], **CLOSE)
        np.testing.assert_allclose(added["x"] + added["Sublayer(x)"], added["s"], **CLOSE)
        out = vectors(visit, "writer", "decoder.feed-forward.add-norm", 2, "&position=2&boxLayer=1")["out"]
        products = vectors(visit, "writer", "projection", 1)
        np.testing.assert_allclose(products["h"], out, **CLOSE)
        assert products["h_d e_d"].sum() == pytest.approx(products["z"][0], abs=2e-3)
        page = visit.page
        page.locator("[data-key='box-decoder.self-attention-1']").click()
        visit.settled()
        expect(page.locator("#microscope .where")).to_have_text("decoder layer 2, head 1")
        assert page.locator("#architecture .box").count() == 2 + 2 * 4 + 2
        assert visit.axe() == ""


def test_a_masked_models_boxes_recombine(browser: Browser, served: Served, runs: dict[str, Path]) -> None:
    w = load_file(runs["masked"] / "model.safetensors")
    with visiting(browser, served) as visit:
        segment = vectors(visit, "masked", "encoder.positions", 2)
        np.testing.assert_allclose(segment["S_0"], w["encoder.positions.segments.weight"][0], **CLOSE)
        np.testing.assert_allclose(segment["u"] + segment["S_0"], segment["x"], **CLOSE)
        dense = vectors(visit, "masked", "head", 0)
        np.testing.assert_allclose(w["head.dense.weight"] @ dense["x"], dense["z"], **CLOSE)
        relu = vectors(visit, "masked", "head", 1)
        np.testing.assert_allclose(np.maximum(relu["z"], 0), relu["a"], **CLOSE)
        normalized = vectors(visit, "masked", "head", 3)
        products = vectors(visit, "masked", "projection", 1)
        np.testing.assert_allclose(products["h"], normalized["out"], **CLOSE)


def test_an_image_models_boxes_recombine(browser: Browser, served: Served, runs: dict[str, Path]) -> None:
    w = load_file(runs["digits"] / "model.safetensors")
    with visiting(browser, served) as visit:
        patch = vectors(visit, "digits", "encoder.patches", 0)
        expected = w["vision.patch.weight"] @ patch["x"] + w["vision.patch.bias"]
        np.testing.assert_allclose(patch["e"], expected, **CLOSE)
        first = vectors(visit, "digits", "encoder.patches", 0, "&position=0")
        np.testing.assert_allclose(first["e"], w["vision.class_token"], **CLOSE)
        last = vectors(visit, "digits", "encoder.norm", 1, "&position=0")
        pooled = vectors(visit, "digits", "pooling", 0, "&position=16")
        np.testing.assert_allclose(pooled["h"], last["out"], **CLOSE)
        page = visit.page
        expect(page.locator("[data-key=box-token]")).to_have_count(0)
        logits = vectors(visit, "digits", "classifier", 0)
        expected = np.sort(w["output.weight"] @ pooled["h"] + w["output.bias"])[::-1]
        np.testing.assert_allclose(logits["z"], expected, **CLOSE)
        shares = vectors(visit, "digits", "softmax", 2)
        assert shares["P"].sum() == pytest.approx(1, abs=1e-3)
        best = page.locator("#patches .next").first.inner_text().split("\n")
        assert number(best[-1]) / 100 == pytest.approx(visit.facts()["P of the predicted class"], abs=6e-3)
        expect(page.locator("#inside .ranking-of .of").first).to_have_text(best[0].split()[0])
        page.locator("[aria-label='Next image']").click()
        visit.settled()
        expect(page.locator("#architecture .caption").first).to_contain_text("Held-out image 5")
        for width in (1280, 320):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.axe() == ""


def test_a_part_that_is_switched_off_is_named(browser: Browser, served: Served) -> None:
    with visiting(browser, served) as visit:
        box, change = "decoder.self-attention.add-norm", "&changes=no-residual:*.*&changes=no-norm:*.*"
        added = vectors(visit, "writer", box, 0, f"&position=2{change}")
        np.testing.assert_allclose(added["Sublayer(x)"], added["s"], **CLOSE)
        page = visit.page
        expect(page.locator("#inside .sentence")).to_have_text(re.compile("^The residual connection is switched off"))
        handed = vectors(visit, "writer", box, 1, f"&position=2{change}")
        np.testing.assert_allclose(handed["s"], handed["out"], **CLOSE)
        page.locator("[data-key=knob-FFN]").click()
        visit.settled()
        page.locator("[data-key='box-decoder.feed-forward-0']").click()
        visit.settled()
        expect(page.locator("#inside .sentence")).to_have_text("The feed-forward network is switched off.")
        assert visit.complaints == []
