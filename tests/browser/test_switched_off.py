"""Parts of the model switched off, the temperature and the checkpoints, on the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Page, expect

from browser.conftest import SERVER_ONLY, TEXT, Visit, number, serving, visiting
from headwise.analysis.interventions import parse_interventions
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.text.tokens.subwords import EOS
from headwise.training.checkpoint import Checkpoints, checkpointed
from headwise.training.progress import Progress
from translator_run import make_run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints, of other random weights than the model's."""
    run = make_run(tmp_path_factory.mktemp("runs") / "trained", seed=3)
    checkpoints = Checkpoints(run)
    for step, seed in ((100, 5), (200, 6)):
        torch.manual_seed(seed)
        tracer = TranslationTracer.load(make_run(run / "other", seed=seed), "cpu")
        model = tracer.trained
        checkpoints.save(checkpointed(model, {}, [{}]), Progress(step=step), {})
    return run


def deltas(page: Page) -> list[float]:
    """The Δ of the first translation, and of the best one."""
    return [number(row.locator("td").last.inner_text()) for row in page.locator(".result tbody tr").all()]


def expected(tracer: TranslationTracer, *changes: str) -> list[float]:
    parsed = parse_interventions(changes)
    before, after = tracer.trace(TEXT), tracer.trace(TEXT, parsed)
    under = tracer.force(TEXT, (*before.hypotheses[0].ids, EOS), parsed).log_probability
    old = before.hypotheses[0].log_probability
    return [under - old, after.hypotheses[0].log_probability - old]


@SERVER_ONLY
def test_a_part_is_switched_off_and_on_again(visit: Visit, tracer: TranslationTracer) -> None:
    page = visit.open()
    shown = page.locator(".hypotheses").inner_text()
    knob = page.locator("[data-key=knob-FFN]")
    knob.focus()
    page.keyboard.press("Enter")
    visit.settled()
    expect(knob).to_have_attribute("aria-pressed", "true")
    expect(knob).to_be_focused()
    assert visit.state()["changes"] == "no-ffn:*.*"
    expect(page.locator(".chips li")).to_contain_text("no FFN")
    assert deltas(page) == pytest.approx(expected(tracer, "no-ffn:*.*"), abs=2e-4)
    page.keyboard.press("Enter")
    visit.settled()
    assert "changes" not in visit.state()
    assert page.locator(".hypotheses").inner_text() == shown


@SERVER_ONLY
def test_an_intervention_of_a_link_that_is_none_can_be_removed(visit: Visit) -> None:
    page = visit.open(f"text={TEXT}&changes=foo")
    expect(page.locator("#translate").get_by_text("intervention 'foo': expected one of")).to_be_visible()
    page.get_by_role("button", name="Remove").click()
    visit.settled()
    visit.refused()  # also what a panel asked that the button's scrolling brought on the screen
    assert "changes" not in visit.state()


@SERVER_ONLY
def test_the_same_intervention_twice_is_undone_at_once(visit: Visit) -> None:
    page = visit.open()
    knob = page.locator("[data-key='knob-√d_k']")
    knob.click()
    visit.settled()
    page.get_by_role("button", name="Apply").click()
    page.get_by_role("button", name="Apply").click()
    visit.settled()
    page.get_by_role("button", name="Undo").click()
    visit.settled()
    expect(page.locator(".chips li")).to_have_count(1)


@SERVER_ONLY
def test_without_the_causal_mask_a_later_token_is_looked_at(visit: Visit) -> None:
    page = visit.open(f"text={TEXT}&changes=no-mask:decoder.*&part=decoder&query=0&key=2")
    visit.settled()
    expect(page.locator("#weight")).not_to_have_text("masked, exactly 0")


@SERVER_ONLY
def test_the_scope_decides_what_can_be_switched_off(visit: Visit) -> None:
    page = visit.open()
    where = page.locator("[data-key=knobs-where]")
    where.select_option("cross.*")
    for name in ("Residuals", "Positions", "Causal mask", "Order of positions"):
        expect(page.locator(f"[data-key='knob-{name}']")).to_be_disabled()
    page.locator("[data-key='knob-√d_k']").click()
    where.select_option("decoder.2")
    page.locator("[data-key='knob-Causal mask']").click()
    page.locator("[data-key='knob-All heads but one']").click()
    visit.settled()
    changes = page.evaluate("new URLSearchParams(location.hash.slice(1)).getAll('changes')")
    assert changes == ["no-scaling:cross.*.*", "no-mask:decoder.2", "only:decoder.2.1"]
    expect(page.locator("#interventions")).to_contain_text("each position sees the tokens after it")


@SERVER_ONLY
def test_a_link_has_the_scope_and_its_temperature(visit: Visit) -> None:
    page = visit.open()
    where = page.locator("[data-key=knobs-where]")
    where.select_option("encoder.2")
    page.locator("[data-key=knob-FFN]").click()
    visit.settled()
    assert visit.state()["scope"] == "encoder.2"
    visit.open(f"{page.url.partition('#')[2]}&changes=temperature:encoder.2.*@3")
    page.reload()
    visit.settled()
    expect(where).to_have_value("encoder.2")
    expect(page.locator("[data-key=knob-FFN]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("output[for=temperature-slider]")).to_have_text("3.00")
    visit.open(f"text={TEXT}&scope=encoder.9")
    expect(where).to_have_value("*.*")


@SERVER_ONLY
def test_heads_without_weights_are_marked_and_named(visit: Visit) -> None:
    page = visit.open(f"text={TEXT}&part=encoder&changes=silence:*.*.2&changes=uniform:encoder.2.*")
    silent = page.locator("#heads .head", has_text="×").locator(".name")
    expect(silent).to_have_text([re.compile("^1.2")])
    names = ["silence head 2 of all of every part", "make encoder layer 2 uniform"]
    expect(page.locator(".chips li > span:first-child")).to_have_text(names)
    visit.open(f"text={TEXT}&part=encoder&changes=only:encoder.*.1")
    expect(silent).to_have_text([re.compile("^1.2"), re.compile("^2.2")])
    assert {row[1] for row in visit.table("heads")[1:] if row[0].endswith(".2")} == {"0.000"}


@SERVER_ONLY
def test_another_head_is_left_in_place_of_the_one_before(visit: Visit) -> None:
    page = visit.open(f"text={TEXT}&changes=no-ffn:*.*")
    knob = page.get_by_role("button", name="All heads but one")
    knob.click()
    page.keyboard.press("]")
    expect(knob).to_have_attribute("aria-pressed", "false")
    knob.click()
    visit.settled()
    expect(page.locator(".chips li > span:first-child")).to_have_text(["no FFN", "only head 2"])


@SERVER_ONLY
def test_the_temperature_is_set_with_the_keyboard(visit: Visit, tracer: TranslationTracer) -> None:
    page = visit.open()
    slider = page.locator("#temperature-slider")
    slider.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    visit.settled()
    assert visit.state()["changes"] == "temperature:*.*.*@2"
    assert deltas(page) == pytest.approx(expected(tracer, "temperature:*.*.*@2"), abs=2e-4)
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    visit.settled()
    assert "changes" not in visit.state()


def test_checkpoints_are_a_slider_from_random_weights_to_the_trained_model(browser: Browser, trained: Path) -> None:
    tracer = TranslationTracer.load(trained, "cpu")
    with serving(trained) as server, visiting(browser, server) as visit:
        page = visit.open()
        slider = page.locator("#checkpoint-slider")
        expect(slider).to_have_attribute("aria-valuetext", "the trained model")
        slider.focus()
        page.keyboard.press("ArrowLeft")
        visit.settled()
        assert visit.state()["changes"] == "checkpoint:200"
        assert deltas(page) == pytest.approx(expected(tracer, "checkpoint:200"), abs=2e-4)
        page.keyboard.press("Home")
        visit.settled()
        assert visit.state()["changes"] == "checkpoint:0"
        expect(slider).to_have_attribute("aria-valuetext", "0 (random weights)")
        expect(page.locator(".chips li")).to_contain_text("random weights")
        page.locator("[data-key=play-checkpoints]").click()
        expect(slider).to_have_attribute("aria-valuetext", "100")
        expect(slider).to_have_attribute("aria-valuetext", "the trained model")
        expect(page.locator("[data-key=play-checkpoints]")).to_have_text("Play")


def test_a_model_without_these_parts_has_no_switches(browser: Browser, tmp_path: Path) -> None:
    recurrent = make_run(tmp_path / "recurrent", architecture="recurrent")
    with serving(recurrent) as server, visiting(browser, server) as visit:
        page = visit.open()
        expect(page.locator("[data-key=knob-FFN]")).to_be_hidden()
        expect(page.locator("#checkpoint-slider")).to_be_hidden()
