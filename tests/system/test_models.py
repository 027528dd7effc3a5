"""The models that come with Headwise have the scores of their cards, by the commands of the cards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwise.engine.translator import Translator
from headwise.shipped.runs import DEMO, FOLDER, GENERAL, MODELS
from paths import ROOT, SHARED
from program import Call, Outcome


def check(card: str, test: str, outcome: Outcome) -> None:
    """Compare the scores that `headwise evaluate` has printed with those of a test set in a card."""
    assert outcome.code == 0, outcome.err
    rows = re.findall(r"^\| ([\w-]+) \| [\d,]+ \| ([A-Za-z0-9 ]+) \| ([0-9.]+) \|", card, re.MULTILINE)
    stated = {metric: value for name, metric, value in rows if name == test}
    found = dict(re.findall(r"^([A-Za-z0-9 ]+?) +([0-9.]+)  nrefs", outcome.out, re.MULTILINE))
    assert stated.keys() == found.keys() == {"BLEU", "chrF2", "tokenized BLEU"}
    for name, value in stated.items():
        # int8 products round differently with other processors' instructions
        assert float(found[name]) == pytest.approx(float(value), abs=0.5), name


def commands(card: str) -> list[str]:
    """Return the commands of a card."""
    return card.partition("```sh\n")[2].partition("\n```")[0].splitlines()


def test_the_shipped_model_has_the_scores_of_its_card(here: Path, program: Call) -> None:
    card = (FOLDER / DEMO / "README.md").read_text("utf-8")
    get, evaluate = commands(card)
    program(*get.removeprefix("headwise ").split()).ok()
    check(card, "test", program(*evaluate.removeprefix("headwise ").split()))


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERAL)
def test_a_general_model_has_the_scores_of_its_card(name: str, here: Path, program: Call) -> None:
    if not (SHARED / "open-en-de").is_dir():
        pytest.skip(f"needs the real data in {SHARED / 'open-en-de'}")
    Path(MODELS).symlink_to(ROOT / MODELS)
    card = (MODELS / name / "README.md").read_text("utf-8")
    get, _, evaluate, *_ = commands(card)
    copied = ("--from", str(SHARED / "open-en-de"), "--only", "test/*")
    program(*get.removeprefix("headwise ").split(), *copied).ok()
    check(card, "tatoeba-test", program(*evaluate.removeprefix("headwise ").split()))


@pytest.mark.parametrize(
    ("name", "line"),
    [("open-en-de", "It was {0} in the morning and {1} at night."), ("open-de-en", "Morgens war es {0}, nachts {1}.")],
)
def test_a_general_model_repeats_what_its_text_hardly_has(name: str, line: str) -> None:
    assert name in GENERAL
    translator = Translator.load(ROOT / MODELS / name)
    signs = [("−5 °C", "−12 °C"), ("5‰", "7‰"), ("3·10⁻⁶", "10⁻⁶"), ("52°31′12″", "5′"), ("₹500", "☎ 3")]
    for each, found in zip(signs, translator.translate([line.format(*each) for each in signs]), strict=True):
        assert all(sign in found.text for sign in each), found.text


def test_quotation_marks_that_a_general_model_hardly_knows_become_others() -> None:
    translator = Translator.load(ROOT / MODELS / "open-de-en")
    (found,) = translator.translate(["Er sagte: «Ich bin hier» und ging."])
    assert "linux" not in found.text
    assert found.text.count('"') == 2
