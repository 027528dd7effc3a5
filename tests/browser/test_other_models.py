"""Recurrent and convolutional translators on the page: it shows only the panels that these models support."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, expect

from browser.conftest import TEXT, Served, Visit, number, serving, six_sentences, visiting
from headwise.analysis.interventions import parse_interventions
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.translator import Translator
from headwise.nn.recording import recording
from headwise.text.tokens.subwords import BOS, EOS
from translator_run import ENGLISH, make_run

MODELS = {
    "recurrent": {"architecture": "recurrent"},
    "convolutional": {"architecture": "convolutional"},
    "forgetful": {
        "architecture": "recurrent",
        "recurrent": {"attention": "none", "reading": "backward", "readout": "state"},
    },
    "near": {
        **{"attention": "window", "attention_options": {"window": {"size": 2}}},
        **{"cross_attention": "linear", "heads": 8},
    },
}
ATTENDING = ("recurrent", "convolutional")
SHOWN = 6e-4  # three decimals


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {name: make_run(folder / name, seed=3, **changes) for name, changes in MODELS.items()}


@pytest.fixture(scope="module")
def served(runs: dict[str, Path]) -> Iterator[Served]:
    with serving(*runs.values()) as server:
        yield server


@torch.inference_mode()
def cross(translator: Translator, target: list[int]) -> np.ndarray:
    """Cross-attention (layers, target, source) of one forward pass with teacher forcing."""
    model = pytorch_model(translator)
    ids = torch.tensor([[*translator.subwords.encode_source(TEXT), EOS]])
    with recording(model) as records:
        model(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([[BOS, *target[:-1]]]))  # pyright: ignore[reportCallIssue]
    layers = [
        torch.cat(entries, dim=2)[0, 0] for name, entries in records.weights.items() if name.endswith("cross_attention")
    ]
    return torch.stack(layers).numpy()


def ribbon(visit: Visit) -> np.ndarray:
    return visit.matrix("ribbon")


@pytest.mark.parametrize("name", ATTENDING)
def test_translation_alignment_and_beam_are_the_models(visit: Visit, runs: dict[str, Path], name: str) -> None:
    translator = Translator.load(runs[name], device="cpu")
    outputs = translator.translate([TEXT], n_best=3)[0].outputs
    page = visit.open(f"run={name}&text={TEXT}&over=head&words=false&part=encoder")
    assert page.locator(".hypothesis > span:first-child").all_inner_texts() == [one.text for one in outputs]
    expected = cross(translator, [*outputs[0].tokens, EOS])
    shown = ribbon(visit)
    assert np.abs(shown - expected[0]).max() < SHOWN
    assert np.abs(shown.sum(1) - 1).max() < SHOWN * shown.shape[1]
    visit.chart("ribbon")
    # A hypothesis that isn't the best has its own attention.
    page.locator(".hypothesis").nth(2).click()
    visit.settled()
    assert "node" in visit.state()
    assert np.abs(ribbon(visit) - cross(translator, [*outputs[2].tokens, EOS])[0]).max() < SHOWN


@pytest.mark.parametrize("name", ATTENDING)
def test_what_is_not_there_is_hidden_or_says_so(visit: Visit, runs: dict[str, Path], name: str) -> None:
    page = visit.open(f"run={name}&text={TEXT}&part=decoder")
    panels = "translate ribbon heads microscope beam words interventions evidence recurrence training"
    assert visit.panels() == panels.split()
    assert page.locator("#heads [role=tab]").all_inner_texts() == ["Cross"]
    expect(page.locator("#stage")).to_contain_text("isn’t softmax(QKᵀ/√dₖ)")
    expect(page.locator("#microscope .cells")).to_be_visible()
    layers = len(cross(Translator.load(runs[name], device="cpu"), [BOS, EOS]))
    assert page.locator(".head").count() == layers
    page.keyboard.press("]")
    assert visit.state().get("layer", "0") == str(1 % layers)
    page.keyboard.press("[")
    page.keyboard.press("x")
    visit.settled()
    assert visit.state()["changes"] == "silence:cross.1.1"
    tracer = TranslationTracer(Translator.load(runs[name], device="cpu"))
    best = tracer.trace(TEXT).hypotheses[0]
    under = tracer.force(TEXT, [*best.ids, EOS], parse_interventions(["silence:cross.1.1"]))
    row = visit.effect()
    assert number(row[2]) == pytest.approx(under.log_probability, abs=2e-4)
    page.keyboard.press("u")
    visit.settled()
    assert visit.axe() == ""


def test_the_arithmetic_is_that_of_each_part(visit: Visit) -> None:
    page = visit.open(f"run=near&text={TEXT}")
    expect(page.locator("#stage")).to_contain_text("isn’t softmax(QKᵀ/√dₖ)")  # the cross-attention
    visit.open(f"run=near&text={TEXT}&part=encoder&query=5&key=1&stage=4")
    expect(page.locator("#stage .sentence")).to_contain_text("must not be seen")
    expect(page.locator("#stage .sentence")).not_to_contain_text("comes later")
    visit.open(f"run=near&text={TEXT}&part=encoder&query=5&key=5&stage=2")
    sentence = page.locator("#stage .sentence").inner_text().replace(" ", "")
    first, second, total = map(number, re.findall(r"[+−]?\d+\.\d+", sentence))
    assert total == pytest.approx(first + second, abs=1.1e-3)  # two numbers in each of the eight heads
    visit.open(f"run=near&text={TEXT}&part=decoder&query=1&key=3&stage=4")
    expect(page.locator("#stage .sentence")).to_contain_text("comes later and must not be seen")


def test_a_model_without_attention_still_translates_and_obeys(visit: Visit, runs: dict[str, Path]) -> None:
    page = visit.open(f"run=forgetful&text={TEXT}")
    panels = "translate beam words interventions evidence recurrence training"
    assert visit.panels() == panels.split()
    expect(page.locator("#interventions")).to_contain_text("This model has no attention")
    page.keyboard.press("x")
    assert "changes" not in visit.state()
    page.locator("#interventions input[aria-label='Begin the output with']").fill("Zwei Hunde")
    page.locator("[data-key=force-prefix]").click()
    visit.settled()
    assert page.locator(".hypothesis > span").first.inner_text().startswith("Zwei Hunde")
    page.locator("#run").select_option("convolutional")
    visit.settled()
    expect(page.locator("#ribbon .target .unit").first).to_be_visible()


@pytest.mark.parametrize("name", [*ATTENDING, "forgetful"])
def test_evidence_is_what_there_is(browser: Browser, runs: dict[str, Path], name: str) -> None:
    gold = [frozenset({(0, 0)})] * len(ENGLISH)
    with serving(runs[name], corpus=six_sentences(gold)) as served, visiting(browser, served) as visit:
        evidence = visit.open().locator("#evidence")
        expect(evidence).to_contain_text("6 sentences of six sentences")
        expect(evidence).to_contain_text("Calibration, in its own words")
        expect(evidence).to_contain_text("not measured" if name == "forgetful" else "3 sentences)")
        assert ("Attention and deleting the word" in evidence.inner_text()) == (name != "forgetful")
