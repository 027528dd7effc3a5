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
from headwise.text.tokens.source_words import FILE, usual_words
from program import call

DEMO = FOLDER / "demo"
_SEEDS = 3.0  # in BLEU, between trainings on different machines

# Each sentence of the walk-throughs, and its translation below it
WALK_THROUGHS = """
The cat sat on the mat because it was tired.
    Die Katze saß auf dem Teppich, weil sie müde war.
The cat sat on the mat because it was soft.
    Die Katze saß auf dem Teppich, weil er weich war.
The dog chased the ball because it was red.
    Der Hund jagte den Ball, weil er rot war.
Dog bites man.
    Hund beißt Mann.
Man bites dog.
    Mann beißt Hund.
Alice helped Bob because he was sick.
    Alice half Bob, weil er krank war.
Alice helped Bob because she was friendly.
    Alice half Bob, weil sie freundlich war.
Alice helped Bob because she cared.
    Alice half Bob, weil sie sich sorgte.
The old cat sleeps because it is tired.
    Die alte Katze schläft, weil sie müde ist.
The animal didn't cross the street because it was too tired.
    Das Tier überquerte die Straße nicht, weil es zu müde war.
The animal didn't cross the street because it was too wide.
    Das Tier überquerte die Straße nicht, weil sie zu breit war.
The dog didn't cross the river because it was too wide.
    Der Hund überquerte den Fluss nicht, weil er zu breit war.
The cat didn't cross the river because it was too tired.
    Die Katze überquerte den Fluss nicht, weil sie zu müde war.
The cat that was sleeping peacefully in the warm afternoon sun suddenly woke up.
    Die Katze, die friedlich in der warmen Nachmittagssonne schlief, wachte plötzlich auf.
The key to understanding attention is attention itself.
    Der Schlüssel zum Verständnis der Aufmerksamkeit ist die Aufmerksamkeit selbst.
Attention is all you need.
    Aufmerksamkeit ist alles, was du brauchst.
The quick brown fox jumps over the lazy dog.
    Der schnelle braune Fuchs springt über den faulen Hund.
The cat sat on the mat.
    Die Katze saß auf dem Teppich.
The cat sat.
    Die Katze saß.
The dog chased the ball.
    Der Hund jagte den Ball.
It was red.
    Es war rot.
I am a student.
    Ich bin Student.
The bank of the river.
    Das Ufer des Flusses.
The bank raised its rates.
    Die Bank erhöhte ihre Zinsen.
Thinking machines.
    Denkende Maschinen.
A woman with a large purse is walking by a gate.
    Eine Frau mit einer großen Geldbörse geht an einem Tor vorbei.
""".strip().splitlines()
AS_PEOPLE_TYPE = {
    "Hello!": "Hallo!",
    "Good morning": "Guten Morgen",
    "Thank you.": "Danke.",
    "How are you?": "Wie geht es dir?",
    "Where is the station?": "Wo ist der Bahnhof?",
    "Is she a doctor?": "Ist sie Ärztin?",
    "I have two dogs.": "Ich habe zwei Hunde.",
    "5 dogs": "5 Hunde",
    "Cat": "Katze",
    "the dog": "Der Hund",
    "I'm a student": "Ich bin Student",
    "the old cat sleeps because it is tired": "Die alte Katze schläft, weil sie müde ist",
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
    translations = translator.translate(WALK_THROUGHS[::2])
    assert [translation.text for translation in translations] == [line.strip() for line in WALK_THROUGHS[1::2]]
    assert not any(translation.unknown for translation in translations)


def test_what_people_type(translator: Translator) -> None:
    translations = translator.translate([*AS_PEOPLE_TYPE])
    assert [translation.text for translation in translations] == [*AS_PEOPLE_TYPE.values()]


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


def test_its_list_of_words_is_that_of_its_training_text() -> None:
    listed = (DEMO / FILE).read_text("utf-8").splitlines()
    assert sorted(listed) == sorted(usual_words(read_built_in("miniature", "train.en")))


def test_words_that_the_training_text_lacks_are_named() -> None:
    translator = Translator.load(DEMO, device="cpu")
    source = read_built_in("miniature", "test.en")[0]
    lines = [source, source.upper(), "A zyzzyva and a xenolith, xenolith!"]
    found = [each.warnings for each in translator.translate(lines)]
    sentence = "words that the model has never read: zyzzyva, xenolith"
    assert [sentence in warnings for warnings in found] == [False, False, True]
    assert not any("never read" in each for each in found[0] + found[1])
    assert sentence in TranslationTracer(translator).trace(lines[2]).notes
