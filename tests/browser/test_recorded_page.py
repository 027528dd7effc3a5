"""`headwise explain -o X.html`: one file, opened without a server or a network, shows the recording of a text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from browser.conftest import TEXT, Visit, number
from browser.test_one_text import TEXTS
from headwise.analysis.interventions import parse_interventions
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.cli.main import run as command_line

SHOWN = 6e-5  # four decimals
PANELS = ["translate", "ribbon", "heads", "microscope", "beam", "words"]


@pytest.fixture
def offline(browser: Browser) -> Iterator[Visit]:
    """A page without a network, which fails the test if the file asks for another or complains."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    visit = Visit(page, "")
    page.on("console", lambda message: visit.complaints.append(message.text))
    page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    page.on("request", lambda request: visit.complaints.append(request.url))
    yield visit
    context.close()
    # A file asks for itself alone; its modules stand in it.
    others = [line for line in visit.complaints if not line.startswith(("data:", visit.address))]
    assert others == []


def explained(visit: Visit, run: Path, out: Path, text: str, *more: str) -> Page:
    assert command_line(["explain", str(run), "--text", text, "-o", str(out), "--device", "cpu", *more]) == 0
    visit.address = out.as_uri()
    visit.page.goto(visit.address)
    visit.settled()
    return visit.page


def test_a_translation_is_shown_in_one_file(
    offline: Visit, run: Path, tracer: TranslationTracer, tmp_path: Path
) -> None:
    page = explained(offline, run, tmp_path / "a.html", TEXT)
    trace = tracer.trace(TEXT)
    assert offline.panels() == PANELS
    expect(page.get_by_role("textbox", name="Text to translate")).to_have_value(TEXT)
    texts = page.locator(".hypothesis > span:first-child").all_inner_texts()
    assert texts == [hypothesis.text for hypothesis in trace.hypotheses]
    assert trace.forced is not None
    page.locator("[data-key=head-1-1]").click()
    weights = offline.matrix("microscope")
    assert np.abs(weights - trace.forced.attention["cross"][1, 1]).max() < SHOWN
    page.locator("[data-key=hypothesis-1]").click()
    offline.settled()
    other = tracer.force(TEXT, trace.path(trace.hypotheses[1].node))
    probabilities = [number(row[2]) for row in offline.table("translate")[1:]]
    assert np.abs(np.array(probabilities) - other.log_probabilities).max() < SHOWN
    assert offline.axe() == ""


def test_what_isnt_recorded_is_refused_in_a_sentence(offline: Visit, run: Path, tmp_path: Path) -> None:
    page = explained(offline, run, tmp_path / "a.html", TEXT)
    page.locator("[data-key=head-1-1]").focus()
    page.keyboard.press("x")
    expect(page.locator("#translate .notice")).to_contain_text("This file holds the recording of one text")
    page.keyboard.press("u")
    expect(page.locator("#translate .notice")).to_be_empty()


def test_interventions_and_their_effect_are_recorded(
    offline: Visit, run: Path, tracer: TranslationTracer, tmp_path: Path
) -> None:
    change = "silence:cross.1.*"
    page = explained(offline, run, tmp_path / "a.html", TEXT, "--do", change, "--beam", "3", "--alpha", "0.9")
    assert offline.panels() == [*PANELS, "interventions"]
    before = tracer.trace(TEXT, beam=3, alpha=0.9)
    under = tracer.force(TEXT, before.path(before.hypotheses[0].node), parse_interventions([change]))
    _, old, new, *_ = offline.effect()
    assert number(old) == pytest.approx(before.hypotheses[0].log_probability, abs=SHOWN)
    assert number(new) == pytest.approx(under.log_probability, abs=SHOWN)
    assert page.locator("#interventions select:visible").count() == 0


@pytest.mark.parametrize("kind", TEXTS)
def test_models_of_one_text_are_recorded(offline: Visit, runs: dict[str, Path], kind: str, tmp_path: Path) -> None:
    page = explained(offline, runs[kind], tmp_path / "a.html", TEXTS[kind])
    first = {"writer": "language", "masked": "masked"}[kind]
    assert offline.panels() == [first, "heads", "microscope"]
    expect(page.locator(f"#{first} textarea")).to_have_value(TEXTS[kind])
    assert page.locator("#heads .head").count() > 0


def test_an_empty_text_is_shown(offline: Visit, run: Path, tmp_path: Path) -> None:
    page = explained(offline, run, tmp_path / "a.html", "")
    expect(page.locator("#output")).to_contain_text("The translation appears here")
