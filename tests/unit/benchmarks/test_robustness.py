"""The list of words, strings and sentences, and which translations of them are accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import run
from benchmarks.robustness import KINDS, PHRASES, accepted, phrases


def test_the_list_serves_both_directions() -> None:
    there, back = phrases(("en", "de")), phrases(("de", "en"))
    assert len(there) == len(back) == len(PHRASES.read_text(encoding="utf-8").splitlines()) == 200
    for (english, german_answers), (german, english_answers) in zip(there.items(), back.items(), strict=True):
        assert accepted(german, german_answers)
        assert accepted(english, english_answers)
        assert all(answer == answer.strip() != "" for answer in (*german_answers, *english_answers))
    assert phrases(("en", "fr")) == phrases((None, "de")) == {}


@pytest.mark.parametrize(
    ("translation", "right"),
    [
        ("Bahnhof", True),
        ("der Bahnhof.", True),
        ("Die Station!", True),
        ("bahnhof", True),
        ("Bahnhöfe", False),
        ("BAHNHOF", False),
        ("Bahnhof Bahnhof", False),
        ("", False),
        ("Die", False),
    ],
)
def test_an_accepted_translation(translation: str, right: bool) -> None:
    assert accepted(translation, ["Bahnhof", "Station"]) is right


def test_every_kind_of_text_is_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, reference = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("The cat sleeps.\n")
    reference.write_text("Die Katze schläft.\n")
    assert run(["robustness", "demo", "--source", str(source), "--reference", str(reference), "--json"]) == 0
    (scores,) = json.loads(capsys.readouterr().out).values()
    assert list(scores) == [*KINDS, "words and phrases"]
    assert scores["clean"]["BLEU"] == pytest.approx(100)
    assert 0 <= scores["words and phrases"]["accepted"] <= 100
