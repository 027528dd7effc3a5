"""The panel about recurrence: its numbers are the library's, and it is computed when it is seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from browser.conftest import SERVER_ONLY, TEXT, Served, Visit, number, serving, visiting
from headwise.analysis.recurrence.comparing import compare
from headwise.analysis.translation_tracer import TranslationTracer
from translator_run import make_run

SEEN = f"text={TEXT}&panel=recurrence"


def opened(visit: Visit, fragment: str = SEEN) -> None:
    visit.open(fragment)
    visit.page.locator("#recurrence svg").nth(2).wait_for()  # of the times, which are asked for last
    visit.settled()


@SERVER_ONLY
def test_the_numbers_are_the_librarys(visit: Visit, tracer: TranslationTracer) -> None:
    opened(visit)
    expected = compare(tracer, TEXT)
    head, *rows = visit.table("recurrence")
    titles = [network.title for network in expected.networks]
    assert head[1:-3] == titles
    by_name = {row[0]: row[1:] for row in rows}
    for column, network in enumerate(expected.networks):
        for k in (0, 1, len(network.gradient) - 1):
            shown = number(by_name[f"distance {k}"][column].replace("e−", "e-"))
            assert shown == pytest.approx(network.gradient[k], rel=6e-3, abs=6e-4)
        last = number(rows[64 + len(expected.pieces) - 1][1 + column].replace("e−", "e-"))
        assert last == pytest.approx(network.kept[-1], rel=6e-3, abs=6e-4)
    assert [row[0] for row in rows[-7:]] == [f"{n} tokens" for n in (8, 16, 32, 64, 128, 256, 512)]
    assert all(number(cell) > 0 for row in rows[-7:] for cell in row[-3:])


@SERVER_ONLY
def test_a_radius_and_a_network_are_chosen_with_the_keyboard(visit: Visit, tracer: TranslationTracer) -> None:
    opened(visit)
    page = visit.page
    slider = page.locator("[data-key=radius]")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#recurrence .finding")).to_contain_text("spectral radius of 2.1")
    expect(slider).to_be_focused()
    page.locator("[data-key=network]").select_option("lstm")
    expect(page.locator("#recurrence .cells")).to_have_attribute(
        "aria-label",
        f"States of LSTM: {len(tracer.read(TEXT)[0].ids)} tokens by 16 features. Arrow keys move.",
    )
    assert {visit.state()[key] for key in ("radius", "network")} == {"2.1", "lstm"}
    cells = page.locator("#recurrence .cells")
    cells.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    state = compare(tracer, TEXT, 2.1).networks[4].states[-2, 1]
    expect(page.locator("#recurrence .look .detail")).to_contain_text(f"feature 2: {state:.3f}".replace("-", "−"))
    page.locator("#source").fill("")
    expect(page.locator("#recurrence")).to_contain_text("Nothing to compare yet")


@SERVER_ONLY
def test_nothing_is_computed_before_it_is_seen_and_then_after_the_translation(visit: Visit) -> None:
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url.rsplit("/", 1)[1]))
    visit.open()
    assert "trace" in asked
    assert not {"recurrence", "times"} & set(asked)
    visit.page.locator("#recurrence").scroll_into_view_if_needed()
    visit.page.locator("#recurrence svg").nth(2).wait_for()
    assert {"recurrence", "times"} <= set(asked)
    asked.clear()
    visit.page.locator("#source").fill("Two dogs.")
    visit.settled()
    assert asked.index("trace") < asked.index("recurrence")


@pytest.mark.parametrize("served", ["static"], indirect=True)
def test_the_page_without_a_server_has_no_such_panel(visit: Visit) -> None:
    visit.open()
    expect(visit.page.locator("#recurrence")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_recurrent_run_shows_its_own_states_on_a_phone(browser: Browser, recurrent: Served, scheme: str) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    with visiting(browser, recurrent, **phone) as visit:
        opened(visit)
        page = visit.page
        expect(page.locator("[data-key=network]")).to_have_value("own")
        expect(page.locator("#recurrence")).to_contain_text("Each state is computed from the one before")
        assert visit.axe() == ""
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("runs") / "recurrent"
    with serving(make_run(folder, seed=3, architecture="recurrent")) as served:
        yield served
