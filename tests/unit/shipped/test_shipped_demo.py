"""The model in the package translates as its card says, and `headwise demo` trains one that is as good."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import headwise
from headwise.analysis.translation_tracer import TranslationTracer
from headwise.corpora.built_in import read_built_in, write_built_in
from headwise.engine.translator import Translator
from headwise.shipped.runs import FOLDER
from program import call

DEMO = FOLDER / "demo"
_SEEDS = 3.0  # in BLEU, between trainings on different machines

WALK_THROUGHS = {
    "The cat sat on the mat because it was tired.": "Die Katze saß auf dem Teppich, weil sie müde war.",
    "The cat sat on the mat because it was soft.": "Die Katze saß auf dem Teppich, weil er weich war.",
    "The dog chased the ball because it was red.": "Der Hund jagte den Ball, weil er rot war.",
    "Dog bites man.": "Hund beißt Mann.",
    "Man bites dog.": "Mann beißt Hund.",
    "Alice helped Bob because he was sick.": "Alice half Bob, weil er krank war.",
    "Alice helped Bob because she was friendly.": "Alice half Bob, weil sie freundlich war.",
    "The old cat sleeps because it is tired.": "Die alte Katze schläft, weil sie müde ist.",
}


@pytest.fixture(scope="module")
def translator() -> Translator:
    return headwise.load("demo", device="cpu")


def card_bleu() -> float:
    """The BLEU of the test set that the card states."""
    match = re.search(r"^\| BLEU \| ([0-9.]+) \|", (DEMO / "README.md").read_text("utf-8"), re.MULTILINE)
    assert match is not None
    return float(match[1])


def test_the_sentences_of_the_walk_throughs(translator: Translator) -> None:
    translations = translator.translate([*WALK_THROUGHS])
    assert [translation.text for translation in translations] == [*WALK_THROUGHS.values()]
    assert not any(translation.unknown for translation in translations)


def test_its_development_text_begins_that_of_the_built_in_world(tmp_path: Path) -> None:
    write_built_in("miniature", tmp_path)
    for file in sorted((DEMO / "corpus").iterdir()):
        assert (tmp_path / file.name).read_bytes().startswith(file.read_bytes()), file.name
    assert len((DEMO / "corpus" / "dev.en").read_text("utf-8").splitlines()) == 200


def test_the_package_stays_small() -> None:
    """Its 1.3 million parameters are a byte each; the rest is subwords and annotated sentences."""
    assert sum(file.stat().st_size for file in DEMO.rglob("*") if file.is_file()) < 1.7e6


@pytest.mark.slow
def test_the_demo_trains_a_model_of_this_quality(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = call(capsys, "demo", "--out", tmp_path / "run", "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["bleu"] == pytest.approx(card_bleu(), abs=_SEEDS)


def test_words_that_the_training_text_lacks_are_named() -> None:
    translator = Translator.load(DEMO, device="cpu")
    source = read_built_in("miniature", "test.en")[0]
    lines = [source, source.upper(), "A zyzzyva and a xenolith, xenolith!"]
    found = [each.warnings for each in translator.translate(lines)]
    sentence = "words that the model has never read: zyzzyva, xenolith"
    assert [sentence in warnings for warnings in found] == [False, False, True]
    assert not any("never read" in each for each in found[0] + found[1])
    assert sentence in TranslationTracer(translator).trace(lines[2]).notes
