"""Use of the page: by keyboard alone, by a link, on a phone, without a server, with all kinds of text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from browser.conftest import MOSTLY_SERVER, SERVER_ONLY, TEXT, Site, Visit, serving, visiting
from translator_run import ENGLISH, make_run


def shown(page: Page) -> list[str]:
    """All texts of the panels, to compare two pages; one of them shows times, which differ."""
    return [panel.inner_text() for panel in page.locator(".panel:visible:not(#recurrence)").all()]


@MOSTLY_SERVER
def test_a_link_restores_what_its_sender_saw(visit: Visit, browser: Browser, served: Site) -> None:
    page = visit.open()
    page.locator("#tab-decoder").click()
    page.locator("[data-key=head-1-0]").click()
    page.locator("#stage-5").click()
    page.keyboard.press("x")
    page.locator("#beam input[type=range]").fill("1.2")
    visit.settled()
    page.locator(".node[data-column='3'][data-row='1']").click()
    visit.settled()  # the microscope has the new step's cells
    page.locator("#microscope .cells").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("#ribbon .choice label", has_text="Subwords").click()
    page.locator("#ribbon .target .unit").nth(1).click()
    visit.settled()
    state = visit.state()
    assert state["part"] == "decoder"
    assert state["changes"] == "silence:decoder.2.1"
    assert {"node", "query", "key", "stage", "alpha", "word", "words"} <= set(state)
    page.wait_for_timeout(3500)  # the heads are measured
    page.mouse.move(5, 5)
    before, link = shown(page), page.url

    with visiting(browser, served) as other:
        other.page.goto(link)
        other.settled()
        other.page.wait_for_timeout(300)
        after = shown(other.page)
    for now, then in zip(after, before, strict=True):
        assert without_hints(now) == without_hints(then)


@MOSTLY_SERVER
def test_a_followed_link_without_a_text_keeps_the_one_that_is_there(visit: Visit) -> None:
    page = visit.open()
    page.get_by_label("Colors", exact=True).select_option("dark")
    page.evaluate("location.hash = 'part=decoder&layer=1'")
    visit.settled()
    state = visit.state()
    assert (state["text"], state["part"], state["layer"]) == (TEXT, "decoder", "1")
    assert state["theme"] == "dark"
    expect(page.locator("#ribbon .target .unit").first).to_be_visible()


@pytest.mark.slow
@SERVER_ONLY
def test_what_is_typed_stays_where_the_browser_refuses_another_address(visit: Visit) -> None:
    page = visit.open()
    # Safari does so after 100 of them in 30 seconds, which is slow typing.
    page.evaluate("() => { history.replaceState = () => { throw new DOMException('too often', 'SecurityError') } }")
    page.locator("#source").fill(ENGLISH[1])
    page.wait_for_timeout(200)
    page.locator("#source").fill(ENGLISH[2])
    page.wait_for_timeout(200)
    assert page.locator("#source").input_value() == ENGLISH[2]
    page.evaluate("() => { delete history.replaceState }")
    page.wait_for_function("text => new URLSearchParams(location.hash.slice(1)).get('text') === text", arg=ENGLISH[2])


@pytest.mark.slow
@SERVER_ONLY
def test_a_link_to_a_run_that_isnt_served_says_so(visit: Visit, run: Path) -> None:
    page = visit.open(f"text={TEXT}&run=other")
    expect(page.locator("#translate .notice")).to_contain_text(f"expected one of {run.name}, found 'other'")
    page.locator("#run").select_option(run.name)
    visit.settled()
    expect(page.locator("#translate .notice")).to_be_hidden()
    assert (visit.state()["run"], visit.state()["text"]) == (run.name, TEXT)
    expect(page.locator(".hypotheses li").first).to_be_visible()
    visit.refused()


def without_hints(text: str) -> list[str]:
    """Leave out what depends on the keyboard focus."""
    hints = ("looked at", "looks at", "Enter shows", "Point at", "Table")
    return [line for line in text.splitlines() if line.strip() and not any(hint in line for hint in hints)]


def test_the_whole_journey_by_keyboard(visit: Visit) -> None:
    page = visit.open("")
    keys = page.keyboard
    expect(page.locator("#source")).to_have_value("")
    for _ in range(12):  # past the link to the panels and the header
        if page.evaluate("document.activeElement.id") == "source":
            break
        keys.press("Tab")
    expect(page.locator("#source")).to_be_focused()
    keys.type(TEXT)
    visit.settled()
    expect(page.locator(".token").first).to_be_visible()

    def tab_into(selector: str) -> None:
        for _ in range(25):
            keys.press("Tab")
            if page.evaluate(f"document.activeElement.matches({json.dumps(selector)})"):
                return
        raise AssertionError(f"Tab doesn't lead to {selector}")

    tab_into(".token")
    keys.press("ArrowRight")
    expect(page.locator(".answer .detail")).to_contain_text("Token 2")
    tab_into(".unit")
    tab_into(".target .unit")
    keys.press("ArrowRight")
    expect(page.locator("#ribbon .detail")).to_contain_text("looked at")
    keys.press("Enter")
    assert visit.state()["word"] == "t1"
    keys.press("Escape")
    assert "word" not in visit.state()
    tab_into("[role=tab]")
    keys.press("ArrowLeft")
    expect(page.locator("#tab-decoder")).to_be_focused()
    assert visit.state()["part"] == "decoder"
    tab_into(".head")
    keys.press("ArrowDown")
    keys.press("ArrowRight")
    keys.press("Enter")
    visit.settled()
    assert (visit.state().get("layer"), visit.state().get("head")) == ("1", "1")
    keys.press("x")
    visit.settled()
    expect(page.locator("[data-key=head-1-1] .cross")).to_be_visible()
    assert visit.state()["changes"] == "silence:decoder.2.2"
    keys.press("u")
    visit.settled()
    assert "changes" not in visit.state()
    keys.press("[")
    assert "head" not in visit.state()
    keys.press("]")
    assert visit.state()["head"] == "1"
    tab_into(".cells")
    keys.press("ArrowDown")
    keys.press("Enter")
    assert (visit.state()["query"], visit.state()["key"]) == ("1", "0")
    tab_into("#microscope [role=tab]")
    for _ in range(5):
        keys.press("ArrowRight")
    expect(page.locator("#stage .formula")).to_contain_text("exp")
    tab_into(".node")
    keys.press("ArrowDown")
    keys.press("Enter")
    assert "node" in visit.state()
    keys.press("Escape")
    assert "node" not in visit.state()
    keys.press("6")
    expect(page.locator("#interventions-title")).to_be_focused()
    tab_into("#interventions [data-key=apply]")
    keys.press("Enter")
    visit.settled()
    assert visit.state()["changes"] == "silence:decoder.2.2"
    keys.press("?")
    expect(page.locator("dialog")).to_be_visible()
    keys.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()


@SERVER_ONLY
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing(browser: Browser, served: Site, scheme: str) -> None:
    with visiting(browser, served, color_scheme=scheme) as visit:
        page = visit.open(f"text={TEXT}&changes=silence:cross.1.1&query=1&key=1&stage=5&word=t1")
        page.wait_for_timeout(1500)
        charts, *more = page.locator(".panel:visible .tools button", has_text="Table").all()
        charts.click()
        violations = [visit.axe()]
        charts.click()
        for toggle in more:
            toggle.click()
        violations.append(visit.axe("color-contrast"))  # every table has the colors of the first
        page.keyboard.press("?")
        violations.append(visit.axe())
        page.keyboard.press("Escape")
        ids = page.locator("[id]").evaluate_all("elements => elements.map(({ id }) => id)")
    assert violations == [""] * 3
    assert len(ids) == len(set(ids))


STRANGE = {
    "empty": "",
    "blank": "   ",
    "very long": "a man " * 800,
    "right to left": "רجل يركب حصانا بنيا على الشاطئ",
    "unknown script": "ꦲꦏ꧀ꦱꦫꦗꦮ 𐍈 🐴",
    "html": '<img src=x onerror="window.hacked = true"><script>window.hacked = true</script>',
}


@MOSTLY_SERVER
@pytest.mark.parametrize("kind", STRANGE)
def test_any_text_is_taken(visit: Visit, kind: str) -> None:
    page = visit.open("")
    page.locator("#source").fill(STRANGE[kind])
    visit.settled()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script").count() == 0
    expect(page.locator("#source")).to_have_attribute("dir", "auto")
    if STRANGE[kind].strip():
        expect(page.locator(".token").first).to_be_visible()
        assert page.locator(".head canvas").count() == 4
    else:
        expect(page.locator("#output")).to_have_text("The translation appears here.")
    if kind == "very long":
        expect(page.locator("#translate")).to_contain_text("subwords, and the first")
    if kind == "right to left":
        direction = "getComputedStyle(document.querySelector('#source')).direction"
        assert page.evaluate(direction) == "rtl"


def test_too_much_text_is_refused_in_place_and_can_be_mended(visit: Visit) -> None:
    page = visit.open("")
    page.locator("#source").fill("man " * 1500)
    expect(page.locator("#translate .notice")).to_contain_text("at most 5000 characters")
    page.locator("#source").fill(TEXT)
    visit.settled()
    expect(page.locator("#translate .notice")).to_be_empty()
    expect(page.locator(".token").first).to_be_visible()
    visit.refused()


@pytest.mark.slow
@SERVER_ONLY
def test_a_refusal_is_seen_where_a_table_stands_for_the_answer(visit: Visit) -> None:
    page = visit.open()
    visit.table("translate")
    page.locator("#source").fill("a" * 6000)
    expect(page.locator("#translate .notice")).to_be_visible()
    visit.refused()


@pytest.mark.slow
@SERVER_ONLY
def test_an_example_can_be_chosen_again(visit: Visit) -> None:
    page = visit.page

    def with_examples(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), "samples": ENGLISH[:2]})

    page.route("**/api/run?**", with_examples)
    visit.open()
    examples = page.get_by_label("Examples")
    for _ in range(2):
        examples.select_option(ENGLISH[1])
        expect(page.locator("#source")).to_have_value(ENGLISH[1])
        expect(examples).to_have_value(ENGLISH[1])
        page.locator("#source").fill(TEXT)
        expect(examples).to_have_value("")
    visit.settled()


@pytest.mark.slow
@SERVER_ONLY
def test_shortcuts_work_after_a_choice(visit: Visit) -> None:
    page = visit.open()
    page.locator("#ribbon .choice label", has_text="Head").click()
    page.keyboard.press("]")
    assert visit.state()["head"] == "1"
    visit.settled()


@pytest.mark.slow
@SERVER_ONLY
def test_another_text_has_no_hypothesis_of_the_one_before(visit: Visit) -> None:
    page = visit.open()
    page.locator(".node").nth(2).focus()
    expect(page.locator("#beam .tree + .detail")).to_contain_text("score")
    page.locator("#source").fill(ENGLISH[2])
    visit.settled()
    expect(page.locator("#beam .tree + .detail")).to_be_empty()


@pytest.mark.slow
@SERVER_ONLY
def test_a_word_that_was_pointed_at_isnt_marked_in_another_text(visit: Visit) -> None:
    page = visit.open()
    caption = page.locator("#ribbon .body > .detail")
    hint = caption.inner_text()
    page.locator("#ribbon .source .unit").nth(2).hover()
    expect(caption).not_to_have_text(hint)
    page.locator("#source").fill("I I")  # nothing is below the pointer then
    visit.settled()
    expect(page.locator("#ribbon .source .unit")).to_have_count(3)
    expect(caption).to_have_text(hint)


@pytest.mark.slow
@SERVER_ONLY
def test_stale_answers_are_faint_and_thrown_away(visit: Visit) -> None:
    page = visit.open()
    delayed: list[Route] = []

    def hold(route: Route) -> None:
        if "slow" in (route.request.post_data or ""):
            delayed.append(route)
        else:
            route.continue_()

    page.route("**/api/trace", hold)
    answer = page.locator("#translate .answer")
    page.locator("#source").fill("slow horse")
    expect(answer).to_have_css("opacity", "0.55")  # it is that of the text before
    assert len(delayed) == 1
    page.locator("#source").fill(ENGLISH[1])
    expect(page.locator("#ribbon .source .unit").first).to_have_text("Two")
    expect(answer).to_have_css("opacity", "1")
    delayed[0].continue_()
    page.wait_for_timeout(400)
    expect(page.locator("#ribbon .source .unit").first).to_have_text("Two")


def test_the_server_goes_and_comes_back(browser: Browser, run: Path) -> None:
    with serving(run) as server, visiting(browser, server) as visit:
        page = visit.open()
        before = page.locator(".hypotheses").inner_text()
        server.stop()
        page.locator("#source").fill(ENGLISH[2])
        expect(page.locator("#translate .notice")).to_contain_text("can’t be reached")
        expect(page.locator("#translate .notice button")).to_be_visible()
        page.locator("#translate .notice button").click()
        expect(page.locator("#translate .notice")).to_contain_text("can’t be reached")
        server.start()
        expect(page.locator("#translate .notice")).to_be_empty(timeout=10_000)
        visit.settled()
        assert page.locator("#ribbon .source .unit").first.inner_text() == "The"
        page.locator("#source").fill(TEXT)
        visit.settled()
        assert page.locator(".hypotheses").inner_text() == before
        visit.refused()


# The elements that extend beyond the screen and aren't in a scrollable one.
WIDER = """
() => [...document.querySelectorAll("main *")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
  .filter((one) => !one.parentElement.closest(".scroll, .matrix, .ribbon"))
  .map((one) => `${one.tagName}.${one.classList} in ${one.closest(".panel")?.id}`)
"""


@SERVER_ONLY
@pytest.mark.parametrize("width", [320, 390])  # 1280 at 400 %, and a phone
def test_nothing_is_cut_off_when_it_is_narrow(visit: Visit, width: int) -> None:
    visit.page.set_viewport_size({"width": width, "height": 700})
    page = visit.open(f"text={ENGLISH[2]}&changes=silence:cross.1.1")
    assert page.evaluate(WIDER) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.locator(".stage.upright")).to_be_visible()


@SERVER_ONLY
def test_motion_and_colors_follow_the_reader(browser: Browser, served: Site) -> None:
    colors = []
    for scheme in ("light", "dark"):
        with visiting(browser, served, color_scheme=scheme, reduced_motion="reduce") as visit:
            page = visit.open()
            colors.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert page.evaluate("getComputedStyle(document.querySelector('.unit')).transitionDuration") == "0s"
            page.locator("[aria-label=Colors]").select_option("dark")
            colors.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colors[0] != colors[1] == colors[2] == colors[3]


@MOSTLY_SERVER
def test_a_forced_word_is_said_and_a_baseline_compared(visit: Visit) -> None:
    page = visit.open()
    page.locator("#interventions input[aria-label='Begin the output with']").fill("Zwei Hunde")
    page.locator("[data-key=force-prefix]").click()
    visit.settled()
    assert page.locator(".hypothesis > span").first.inner_text().startswith("Zwei Hunde")
    expect(page.locator("#interventions .result")).to_contain_text("The translation changes")
    expect(page.locator("#interventions .result")).not_to_contain_text("No change")
    assert page.locator("#interventions ins").count() >= 2
    page.locator("#translate button", has_text="Pin as baseline").click()
    page.locator("#interventions .tools button", has_text="Reset").click()
    visit.settled()
    expect(page.locator(".difference")).to_contain_text("Against the baseline")
    assert "Zwei" in page.locator(".difference del").all_inner_texts()[0]


@pytest.mark.slow
@SERVER_ONLY
def test_a_word_forced_with_the_keyboard_leaves_the_focus_at_its_token(visit: Visit) -> None:
    page = visit.open()
    page.locator(".token").first.focus()
    page.keyboard.press("Tab")
    word = page.locator(":focus").inner_text().rpartition(" ")[0].split()[0]
    page.keyboard.press("Enter")
    visit.settled()
    assert visit.state()["changes"] == f"word:0:{word}"
    expect(page.locator(":focus")).to_have_attribute("data-key", "token-0")
    expect(page.locator(".answer .detail")).to_contain_text("Token 1")


@MOSTLY_SERVER
def test_no_change_is_a_result(visit: Visit) -> None:
    page = visit.open(f"text={TEXT}&changes=zero:cross.1.1@39")  # there is no position 40
    expect(page.locator("#interventions .result")).to_contain_text("The translation stays the same")
    expect(page.locator("#interventions .result")).to_contain_text("No change")


@MOSTLY_SERVER
def test_evidence_names_its_sample_and_what_attention_does_not_prove(visit: Visit) -> None:
    page = visit.open()
    expect(page.locator("#evidence")).to_contain_text("6 sentences of six sentences", timeout=15_000)
    expect(page.locator("#evidence")).to_contain_text("Attention is where a head looks, not why")
    page.locator("[data-key=head-0-0]").focus()
    expect(page.locator("#heads .detail")).to_contain_text(re.compile(r"\d %.* of \d+ \(chance: "))


@pytest.mark.slow
def test_a_run_in_training_shows_its_curves_live(browser: Browser, run: Path, tmp_path: Path) -> None:
    training = make_run(tmp_path / "young")
    weights = training / "model.safetensors"
    weights.rename(training / "later")
    metrics = training / "metrics.jsonl"
    metrics.write_text(
        "".join(
            json.dumps({"kind": "train", "step": n, "loss": 5 / n, "learning_rate": 0.02}) + "\n" for n in (1, 2, 3)
        )
    )
    with serving(training, run) as server, visiting(browser, server) as visit:
        page = visit.open("")
        expect(page.locator("#training")).to_contain_text("In training: step 3 of")
        rates = page.locator("#training figure", has_text="Learning rate").locator("text[text-anchor=end]")
        assert rates.all_text_contents()[:3] == ["0.0", "0.010", "0.020"]
        assert page.locator(".panel:visible").count() == 1
        loss = page.locator("#training figure", has_text="Loss")
        assert loss.locator(".legend").inner_text() == "training"  # the only line that has points
        with metrics.open("a") as file:
            file.write(json.dumps({"kind": "train", "step": 4, "loss": 1.0, "learning_rate": 0.02}) + "\n")
            file.write(json.dumps({"kind": "dev", "step": 4, "loss": 1.5, "bleu": 9.5}) + "\n")
        expect(page.locator("#training")).to_contain_text("step 4 of", timeout=9_000)
        assert loss.locator(".legend span").all_inner_texts() == ["training", "development"]
        assert page.locator("#training figure", has_text="BLEU").locator("circle").count() == 1
        assert len(visit.table("training")) == 6
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        page.route("**/api/metrics?**", hold)
        page.wait_for_timeout(11_000)  # twice as long as the page waits between two requests
        assert len(held) == 1
        (training / "later").rename(weights)
        held[0].continue_()
        page.unroute("**/api/metrics?**")
        expect(page.locator("#run option:checked")).to_have_text("young", timeout=9_000)
        expect(page.locator("#translate")).to_be_visible()
        page.locator("#run").select_option("small")
        visit.settled()
        expect(page.locator("#translate")).to_be_visible()
