"""Heads, microscope and interventions of GPT- and BERT-type models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from browser.conftest import number, serving, visiting
from headwise.analysis.interventions import parse_interventions
from headwise.analysis.language_models import LanguageModelTracer, MaskedModelTracer, TextTracer
from headwise.decoding.generation import Generator

TEXTS = {"writer": "the cat sat", "masked": "the <mask> sat"}


def tracer_of(run: Path) -> TextTracer:
    if run.name == "writer":
        return LanguageModelTracer(Generator.load(run, device="cpu"))
    return MaskedModelTracer.load(run, "cpu")


@pytest.mark.parametrize("kind", ["writer", pytest.param("masked", marks=pytest.mark.slow)])
def test_heads_microscope_and_interventions(browser: Browser, runs: dict[str, Path], kind: str) -> None:
    tracer = tracer_of(runs[kind])
    before = tracer.trace(TEXTS[kind])
    assert before.forced is not None
    weights = before.forced.attention[tracer.part]
    with serving(runs[kind]) as served, visiting(browser, served) as visit:
        page = visit.open(f"text={TEXTS[kind]}")
        assert page.locator(".head canvas").count() == weights.shape[0] * weights.shape[1]
        rows = visit.table("microscope")[1:]
        names = {"writer": ["↵", "t", "h", "e", "␣"], "masked": ["<s>", "t", "h", "e", "␣", "<mask>"]}[kind]
        assert [row[0] for row in rows][: len(names)] == names
        shown = np.array([[number(cell) for cell in row[1:]] for row in rows])
        assert np.abs(shown - weights[0, 0]).max() < 6e-4
        page.locator("[data-key=head-0-1]").click()
        page.keyboard.press("x")
        visit.settled()
        change = f"silence:{tracer.part}.1.2"
        assert visit.state()["changes"] == change
        under = tracer.force(TEXTS[kind], before.forced.target.ids, parse_interventions([change])).log_probability
        assert number(visit.effect()[2]) == pytest.approx(under, abs=2e-4)
        expect(page.locator("#interventions .result")).to_contain_text("The output")
        expect(page.locator("[data-key=force-prefix]")).to_have_count(0)
        mask = page.locator("[data-key='knob-Causal mask']")
        expect(mask).to_be_enabled() if kind == "writer" else expect(mask).to_be_disabled()
        assert visit.axe() == ""


def test_masks_are_filled_as_typed(browser: Browser, runs: dict[str, Path]) -> None:
    tracer = tracer_of(runs["masked"])
    with serving(runs["masked"]) as served, visiting(browser, served) as visit:
        page = visit.open("")
        page.locator("#masked-text").fill("a <mask> on")
        visit.settled()
        forced = tracer.trace("a <mask> on").forced
        assert forced is not None
        expect(page.locator("#masked .changes")).to_have_text(forced.target.text.strip())
        assert page.locator("#masked tbody tr").count() == 1
        page.locator("#masked-text").fill("a on")
        visit.settled()
        assert [row.locator("td").first.inner_text() for row in page.locator("#masked tbody tr").all()] == [*"a␣on"]
