"""Unknown words are marked visually, for the keyboard and for screen readers."""

from __future__ import annotations

from playwright.sync_api import expect

from browser.conftest import MOSTLY_SERVER, Visit


@MOSTLY_SERVER
def test_words_without_subwords_are_marked_and_can_be_reached(visit: Visit) -> None:
    page = visit.open("text=A màn rides 漢a horse 🦄.")
    listed = page.get_by_role("list", name="Words of the text without subwords").locator("mark")
    expect(listed).to_have_text(["漢a", "🦄."])
    described = "(the model spells this word by single letters, or not at all)"
    expect(listed.first).to_have_accessible_description(described)
    expect(page.get_by_role("textbox", name="Text to translate")).to_have_accessible_description(
        "Note: read as: A man rides 漢a horse 🦄. Note: the model spells by single letters, or not at all: 漢a, 🦄."
    )
    listed.first.focus()
    page.keyboard.press("ArrowRight")
    expect(listed.nth(1)).to_be_focused()
    units = page.locator("#ribbon .source .unit.unknown")
    expect(units).to_have_text(["漢a", "🦄."])
    units.first.focus()
    expect(units.first).to_have_accessible_description(described)
    expect(page.locator("#ribbon .detail")).to_contain_text(described.strip("()"))
    assert visit.axe() == ""
    visit.open("text=A man rides a brown horse.")
    expect(page.locator("#unknown")).to_be_hidden()
    expect(page.locator(".unknown")).to_have_count(0)
