"""Generation word by word: each step is the model's, and equals teacher forcing."""

from __future__ import annotations

import math

import numpy as np
from playwright.sync_api import expect

from browser.conftest import SERVER_ONLY, TEXT, Visit, number
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.text.tokens.subwords import BOS

pytestmark = SERVER_ONLY


def test_each_step_shows_what_a_forward_pass_of_its_prefix_computes(visit: Visit, tracer: TranslationTracer) -> None:
    page = visit.open(f"text={TEXT}&over=all")
    trace = tracer.trace(TEXT)
    assert trace.forced is not None
    ids = trace.forced.target.ids
    for step in (0, 2):
        if step:
            page.locator("[data-key=step-next]").click(click_count=step)
        expect(page.locator("#words output")).to_have_text(f"{step + 1} of {len(ids)}")
        assert page.locator("#words .read").count() == step + 1
        # A hypothesis of the tokens so far: its last distribution is that of the step.
        prefix = tracer.force(TEXT, ids[: step + 1], alternatives=8)
        likely = [f"{100 * math.exp(one.log_probability):.1f}" for one in prefix.alternatives[-1]]
        shown = page.locator("#words .nexts").first.locator(".figures").all_inner_texts()[:8]
        for text, expected in zip(shown, likely, strict=True):
            assert abs(number(text.partition(" %")[0] + " %") - float(expected)) <= 0.51
        shares = [number(one.get_attribute("title") or "") for one in page.locator("#words .share").all()]
        weights = 100 * prefix.attention["cross"].mean((0, 1))[-1]
        assert np.abs(np.array(shares) - weights).max() <= 0.51
    assert prefix.reads.ids == (BOS, *ids[:2])
    expect(page.locator("#words")).to_contain_text("depends on no more than the step did")


def test_steps_are_played_and_moved_through_with_the_keyboard(visit: Visit) -> None:
    page = visit.open()
    page.locator("#words input[type=range]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert visit.state()["step"] == "2"
    page.locator("[data-key=step-back]").focus()
    page.keyboard.press("Enter")
    assert visit.state()["step"] == "1"
    page.locator("[data-key=position-1]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert visit.state()["step"] == "2"
    expect(page.locator("[data-key=position-2]")).to_be_focused()
    page.keyboard.press("0")
    expect(page.locator("#words-title")).to_be_focused()
    page.locator("[data-key=play-steps]").click()
    expect(page.locator("#words output")).to_contain_text("5 of")
    page.locator("[data-key=play-steps]").click()
    expect(page.locator("[data-key=play-steps]")).to_have_text("Play")


def test_the_table_compares_both_ways_and_the_mask_makes_them_equal(visit: Visit, tracer: TranslationTracer) -> None:
    page = visit.open()
    forced = tracer.trace(TEXT).forced
    assert forced is not None
    rows = visit.table("words")[1:]
    assert [number(row[3]) for row in rows] == [round(value, 4) for value in forced.log_probabilities]
    assert all(abs(number(row[2]) - number(row[3])) <= 2e-4 for row in rows)
    page.goto(f"{visit.address}#text={TEXT}&changes=no-mask:decoder.*")
    visit.settled()
    visit.chart("words")
    expect(page.locator("#words")).to_contain_text("a position sees what comes after it")


def test_another_text_begins_anew(visit: Visit) -> None:
    page = visit.open(f"text={TEXT}&step=3")
    expect(page.locator("#words output")).to_contain_text("4 of")
    page.locator("#source").fill("Two dogs are playing.")
    visit.settled()
    expect(page.locator("#words output")).to_contain_text("1 of")
    page.locator("#source").fill("")
    visit.settled()
    expect(page.locator("#words")).to_contain_text("Nothing to write yet")
