"""The chapters: their code runs, what they show is what it prints, and they have all their parts."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest

import headwise
from headwise.corpora.built_in import read_built_in
from headwise.errors import DataError
from headwise.learn.chapters import PAGES, chapters, update, with_outputs
from headwise.learn.pictures import heat, lines

FOLDER = PAGES
CHAPTERS = chapters(FOLDER)
EXAMPLES = read_built_in("miniature", "examples.en")
PARTS = [
    "**Question.**",
    "**Idea.**",
    "## Numbers",
    "## The live model",
    "## What walk-throughs get wrong here",
    "## Questions",
    "## What came after",
]


def test_what_the_chapters_show_is_what_their_code_prints_and_draws(tmp_path: Path) -> None:
    copy = tmp_path / "learn"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("*.svg"))
    assert [file.name for file in update(copy)] == [], "run `make learn`"
    drawn, kept = (
        {file.name: file.read_text() for file in (folder / "pictures").iterdir()} for folder in (copy, FOLDER)
    )
    assert drawn == kept, "run `make learn`"


@pytest.mark.parametrize("file", CHAPTERS, ids=lambda file: file.stem)
def test_a_chapter_has_its_parts_in_order(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    places = [text.find(part) for part in PARTS]
    assert -1 not in places
    assert places == sorted(places)
    questions = text.partition("## Questions")[2].partition("## What came after")[0]
    assert re.findall(r"^(\d)\. .*\?$", questions, re.MULTILINE) == ["1", "2", "3"]
    assert len(re.findall(r"^   \*.+", questions, re.MULTILINE)) == 3  # an answer each
    assert "```python" in text
    assert f"({file.name})" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_every_recorded_block_has_its_output() -> None:
    recorded = [
        block
        for file in CHAPTERS
        for block in re.findall(r"```sh recorded\n.*?^```\n\n(.{9})", file.read_text(), re.DOTALL | re.MULTILINE)
    ]
    assert len(recorded) > 5
    assert set(recorded) == {"```output"}


def test_a_recorded_block_is_run_on_request_only(tmp_path: Path) -> None:
    text = "```sh recorded\necho a | tr a b\n```\n\n```output\nold\n```\n"
    assert with_outputs(text, "c.md", tmp_path) == text
    assert with_outputs(text, "c.md", tmp_path, record=True) == text.replace("old", "b")


@pytest.mark.slow
def test_the_model_in_the_package_still_says_what_was_recorded(tmp_path: Path) -> None:
    copy = tmp_path / "pages"
    shutil.copytree(FOLDER, copy)
    assert [file.name for file in update(copy, record=True)] == [], "run `make learn RECORD=1`"


@pytest.mark.parametrize("file", CHAPTERS, ids=lambda file: file.stem)
def test_a_chapter_leads_to_the_live_model(file: Path) -> None:
    text = file.read_text(encoding="utf-8").partition("## The live model")[2].partition("\n## ")[0]
    links = re.findall(r"\]\(live:([^)]+)\)", text)
    assert links
    panels = set(re.findall(r'^  const section = panel\(\s*"(\w+)"', _javascript(), re.MULTILINE))
    known = set(re.findall(r"^  (\w+): ", _javascript().partition("START = {")[2].partition("}")[0], re.MULTILINE))
    for link in links:
        state = dict(parse_qsl(link, strict_parsing=True))
        assert state["panel"] in panels
        assert state.keys() <= known
        assert state.get("text", EXAMPLES[0]) in EXAMPLES


def _javascript() -> str:
    page = Path(headwise.__file__).parent / "page" / "static" / "js"
    return "\n".join(file.read_text("utf-8") for file in sorted(page.rglob("*.js")))


def test_links_between_files_lead_to_files() -> None:
    for file in sorted(FOLDER.glob("*.md")):
        for link in re.findall(r"\]\(([^)\s]+)\)", file.read_text(encoding="utf-8")):
            if not link.startswith(("live:", "http")):
                assert (FOLDER / link.partition("#")[0]).exists(), (file.name, link)


def test_every_picture_is_shown_with_its_description() -> None:
    shown = {
        name: alt
        for file in CHAPTERS
        for alt, name in re.findall(r"!\[(.+)\]\(pictures/(.+)\)", file.read_text(encoding="utf-8"))
    }
    assert set(shown) == {file.name for file in (FOLDER / "pictures").iterdir()}
    assert all(len(alt) > 30 for alt in shown.values())


def test_outputs_are_inserted_and_replaced(tmp_path: Path) -> None:
    text = "a\n\n```python\nx = 2\nprint(x + 1)\n```\n\nb\n\n```python\nx\n```\n\n```sh\nheadwise demo\n```\n"
    shown = with_outputs(text, "c.md", tmp_path)
    assert shown == text.replace("x + 1)\n```\n", "x + 1)\n```\n\n```output\n3\n```\n")
    assert with_outputs(shown.replace("\n3\n", "\n7\n"), "c.md", tmp_path) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n```python\n1 / 0\n```\n", "c.md line 2: the code fails: ZeroDivisionError"),
        ("```sh run\nls\n```\n", "c.md line 1: expected a command of headwise, found 'ls'"),
        (
            "```sh run\nheadwise reproduce table9\n```\n",
            "c.md line 1: headwise reproduce table9 fails: .*expected the name of an experiment",
        ),
    ],
)
def test_a_failing_block_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        with_outputs(text, "c.md", tmp_path)


def test_pictures_are_xml_with_a_title_and_their_numbers() -> None:
    svg = heat(np.array([[0.25, -0.75]]), ["a<b"], ["c", "d"], "One & two")
    root = ElementTree.fromstring(svg)
    texts = ["".join(element.itertext()) for element in root.iter()]
    assert {"0.25", "-0.75", "a<b", "c", "d", "One & two"} <= set(texts)
    curve = ElementTree.fromstring(lines({"up": ([0, 1, 2], [1, 10, 100])}, "Log", "x", "y", log=True))
    (points,) = (e.attrib["points"] for e in curve.iter() if e.tag.endswith("polyline"))
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.2)  # equal steps of a factor 10
