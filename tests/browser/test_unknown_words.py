"""Unknown words are marked visually, for the keyboard and for screen readers."""

from __future__ import annotations

from playwright.sync_api import expect

from browser.conftest import Visit
from browser.test_journeys import axe


def test_words_that_the_model_never_saw_are_marked_and_can_be_reached(visit: Visit) -> None:
    page = visit.open("text=A man rides 漢字 horse 🦄.")
    listed = page.get_by_role("list", name="Words of the text that the model never saw").locator("mark")
    expect(listed).to_have_text(["漢字", "🦄."])
    described = "(the model never saw this word, or a part of it)"
    expect(listed.first).to_have_accessible_description(described)
    expect(page.get_by_role("textbox", name="Text to translate")).to_have_accessible_description(
        "Note: the model has no subwords for, in whole or in part: 漢字, 🦄.."
    )
    listed.first.focus()
    page.keyboard.press("ArrowRight")
    expect(listed.nth(1)).to_be_focused()
    units = page.locator("#ribbon .source .unit.unknown")
    expect(units).to_have_text(["漢字", "🦄."])
    units.first.focus()
    expect(units.first).to_have_accessible_description(described)
    expect(page.locator("#ribbon .detail")).to_contain_text("the model never saw this word, or a part of it")
    assert axe(page) == ""
    visit.open("text=A man rides a brown horse.")
    expect(page.locator("#unknown")).to_be_hidden()
    expect(page.locator(".unknown")).to_have_count(0)
