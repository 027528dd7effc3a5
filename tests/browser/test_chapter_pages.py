"""The chapters in a browser: their links open the page's panels, on any screen and for everybody."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from browser.conftest import SERVER_ONLY, Served, Visit, visiting

pytestmark = SERVER_ONLY


def test_a_chapter_leads_to_a_panel_and_the_page_to_the_chapters(visit: Visit) -> None:
    page = visit.page
    page.goto(f"{visit.address}learn/05-heads")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="panel Evidence").click()
    live = opened.value
    expect(live.locator("#evidence-title")).to_be_focused()
    page.get_by_role("link", name="Panel Heads", exact=True).click()
    expect(live.locator("#heads-title")).to_be_focused()  # the same tab
    expect(live.locator("#source")).to_have_value("The cat sat on the mat because it was tired.")
    expect(live.locator("#heads-title")).to_be_in_viewport()
    assert len(page.context.pages) == 2
    live.get_by_role("link", name="Chapters", exact=True).click()
    expect(live.get_by_role("heading", level=1)).to_contain_text("from the idea to a running model")


def test_the_panel_of_a_link_stays_in_view_until_the_user_moves(visit: Visit) -> None:
    page = visit.open("text=A+man+sleeps.&panel=beam")
    expect(page.locator("#beam-title")).to_be_in_viewport()
    assert visit.state()["panel"] == "beam"
    page.keyboard.press("3")
    expect(page.locator("#heads-title")).to_be_focused()
    visit.settled()
    assert visit.state()["panel"] == "heads"


@pytest.mark.parametrize("name", ["", "05-heads", pytest.param("mistakes", marks=pytest.mark.slow)])
def test_axe_finds_nothing_and_a_phone_needs_no_scrolling_sideways(name: str, browser: Browser, served: Served) -> None:
    options = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
    with visiting(browser, served, **options) as visit:
        visit.page.goto(f"{visit.address}learn/{name}")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert visit.axe() == ""
        visit.page.emulate_media(color_scheme="light")
        assert visit.axe() == ""


def test_a_chapter_is_read_by_keyboard(visit: Visit) -> None:
    page = visit.page
    page.goto(f"{visit.address}learn/05-heads")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the chapter")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("group", name="Code").first).to_be_focused()  # wide code scrolls with arrow keys
    page.get_by_role("link", name="Next: 6 Positions").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("6 Positions")
