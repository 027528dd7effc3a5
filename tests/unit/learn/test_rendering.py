"""The chapters as pages: valid HTML that loads nothing from elsewhere, and whose links lead somewhere."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

import html5lib
import pytest

pytest.importorskip("markdown_it", reason="the pages need markdown-it-py: pip install 'headwise[serve]'")
from headwise.learn.chapters import PAGES, chapters
from headwise.learn.rendering import PICTURES, names, page

_SPACE = "{http://www.w3.org/1999/xhtml}"


def parsed(name: str) -> Element:
    return html5lib.HTMLParser(strict=True).parse(page(name))


def elements(name: str, tag: str) -> Iterator[Element]:
    return parsed(name).iter(f"{_SPACE}{tag}")


def text(element: Element) -> str:
    return "".join(element.itertext())


def test_every_chapter_is_a_page() -> None:
    assert {file.stem for file in chapters(PAGES)} | {"", "mistakes", "from_scratch"} == set(names())


@pytest.mark.parametrize("name", names())
def test_a_page_is_valid_and_complete(name: str) -> None:
    (heading,) = elements(name, "h1")
    (title,) = elements(name, "title")
    assert text(title) == f"{text(heading)} – Headwise"
    known = {"./", "../", *(f"./{other}" for other in names()), *(file.stem for file in chapters(PAGES))}
    for link in elements(name, "a"):
        target = link.attrib["href"].partition("#")[0] or "#"
        assert target in known | {"#"}, link.attrib
        assert link.attrib["href"].startswith("../") == (link.attrib.get("target") == "headwise")
    for image in elements(name, "img"):
        assert (PICTURES.parent / image.attrib["src"]).parent == PICTURES
        assert (PICTURES.parent / image.attrib["src"]).is_file()
        assert image.attrib["alt"]
    for sheet in elements(name, "link"):
        assert sheet.attrib["href"].startswith("../")
    assert not [*elements(name, "script")]


def test_code_and_outputs_keep_every_character() -> None:
    markdown = (PAGES / "05-heads.md").read_text("utf-8")
    blocks = [block.partition("\n")[2] for block in markdown.split("```")[1::2]]
    shown = [text(element) for element in elements("05-heads", "pre")]
    assert [block.strip("\n") for block in blocks] == [block.strip("\n") for block in shown]


def test_links_to_the_live_model_keep_its_state() -> None:
    markdown = (PAGES / "05-heads.md").read_text("utf-8")
    states = [part.partition(")")[0] for part in markdown.split("](live:")[1:]]
    links = [link.attrib["href"] for link in elements("05-heads", "a") if "#text" in link.attrib["href"]]
    assert len(states) > 2
    assert links == [f"../#{state}" for state in states if state.startswith("text")]


def test_formulas_have_raised_and_lowered_parts() -> None:
    body = page("05-heads")
    assert "W<sub>i</sub><sup>Q</sup>" in body
    assert "d<sub>model</sub> / h" in body
    assert "<code>headwise.learn.from_scratch" not in body
    assert "from_scratch.py</a>" in page("03-queries-keys-values")  # a name isn't a formula
    assert "step<sup>-0.5</sup>" in page("12-training")


@pytest.mark.parametrize("name", [file.stem for file in chapters(PAGES)])
def test_no_formula_is_left_as_it_is_typed(name: str) -> None:
    body = parsed(name)
    for parent in list(body.iter()):
        for child in [*parent]:
            if child.tag in (f"{_SPACE}code", f"{_SPACE}pre"):
                parent.remove(child)
    assert "^" not in text(body)
