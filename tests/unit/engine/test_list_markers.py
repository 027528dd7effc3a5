"""The marker of a list's item isn't read, and stands before the translation as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.engine.readings.list_markers import without_markers
from headwise.engine.translator import Translator
from native_engines import compiled
from translator_run import ENGLISH, make_run

NUMBERED = ("2) ", "(2) ", "(a) ", "iv) ")
MARKERS = ("- ", "• ", "* ", "– ", "[x] ", "[ ] ", "- [ ] ", "> > ", "✓ ", "☑️ ", "→  ", "😊 ", *NUMBERED)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "de", text=["- - -"])


def read(text: str, language: str | None = None) -> str:
    found = without_markers(text, language)
    return text if found is None else found.text


@pytest.mark.parametrize("marker", MARKERS)
@given(text=st.from_regex(r"[A-Za-zäß][a-z .,!]{0,20}", fullmatch=True))
def test_a_marker_is_left_out_and_put_back(marker: str, text: str) -> None:
    found = without_markers(marker + text, None)
    assert found is not None
    assert found.text == text
    assert found.restore("Ein Hund.") == f"{marker}Ein Hund."


@pytest.mark.parametrize(
    "text",
    [
        "A dog.",
        "-5 degrees",
        "5 dogs",
        "3.1 Dogs",
        "A. Lincoln",
        "e. g. a dog",
        "(maybe) a dog",
        "(1998) a dog",
        "$ 5 for a dog",
        "… and a dog",
        "? a dog",
        "© 2024 Jane",
        "° C",
        "- ",
        "- - !",
        "-",
        "",
    ],
)
def test_what_is_no_marker_of_an_item_is_read(text: str) -> None:
    assert read(text, "en") == text


def test_a_full_stop_is_that_of_an_ordinal_or_an_abbreviation_in_some_languages() -> None:
    for marker in ("3.", "12.", "a.", "i.", "iv.", "I.", "XII."):
        assert read(f"{marker} Dogs", "en") == read(f"{marker} Dogs", "eng_Latn") == "Dogs"
        assert read(f"{marker} Hunde", "de") == f"{marker} Hunde"
    for line in ("c. 1900", "e. g. Dogs", "p. a Dog", "A. Lincoln", "i. M. Dog", "1980. Dogs"):
        assert read(line, "en") == line
    for language in ("de", None):
        assert read("3. Oktober", language) == "3. Oktober"
        assert read("- 3. Oktober", language) == "3. Oktober"


@pytest.mark.parametrize("engine", ["pytorch", pytest.param("native", marks=compiled)])
def test_an_item_is_translated_as_the_line_without_its_marker(run: Path, engine: str) -> None:
    translator = Translator.load(run, engine=engine, device="cpu")
    items, lines = (
        translator.translate([begin + line for line in ENGLISH], alignments=True, n_best=2) for begin in ("- ", "")
    )
    for item, line in zip(items, lines, strict=True):
        assert [each.text for each in item.outputs] == [f"- {each.text}" for each in line.outputs]
        for with_marker, without in zip(item.outputs, line.outputs, strict=True):
            assert with_marker.alignment == tuple((one + 1, other + 1) for one, other in without.alignment or ())


def test_a_translation_that_begins_as_is_asked_has_the_marker_from_there(run: Path) -> None:
    translator = Translator.load(run, device="cpu")
    (found,) = translator.translate(["- Two dogs."], prefixes=["- Zwei"])
    assert found.text.startswith("- Zwei")
    assert not found.text.startswith("- - ")
