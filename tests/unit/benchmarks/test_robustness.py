"""The lists of words, strings and sentences, and which translations of them are accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import run
from benchmarks.robustness import KINDS, LISTS, accepted, phrases


@pytest.mark.parametrize(("file", "size"), [*zip(LISTS.values(), (200, 40, 40, 92), strict=True)])
def test_a_list_serves_both_directions(file: Path, size: int) -> None:
    there, back = phrases(file, ("en", "de")), phrases(file, ("de", "en"))
    assert len(there) == len(back) == len(file.read_text(encoding="utf-8").splitlines()) == size
    for (english, german_answers), (german, english_answers) in zip(there.items(), back.items(), strict=True):
        assert accepted(german, german_answers)
        assert accepted(english, english_answers)
        assert all(answer == answer.strip() != "" for answer in (*german_answers, *english_answers))
    assert phrases(file, ("en", "fr")) == phrases(file, (None, "de")) == {}


@pytest.mark.parametrize("kind", ["words and phrases", "amounts", "addresses and files"])
def test_the_general_models_did_not_learn_a_list(kind: str) -> None:
    learned = Path("examples/phrases.tsv").read_text(encoding="utf-8").splitlines()
    there, back = phrases(LISTS[kind], ("en", "de")), phrases(LISTS[kind], ("de", "en"))
    pairs = [line.split("\t") for line in learned if not line.startswith("#")]
    assert not there.keys() & {english for english, _ in pairs}
    assert not {(german, english) for english, german in pairs if english in back.get(german, ())}


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
    assert list(scores) == [*KINDS, *LISTS]
    assert scores["clean"]["BLEU"] == pytest.approx(100)
    assert all(0 <= scores[kind]["accepted"] <= 100 for kind in LISTS)
