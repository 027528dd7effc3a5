"""Both kinds of BLEU on a test set, for each text format of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwise.errors import DataError
from headwise.evaluation.translation import bleu
from headwise.experiments.harness.test_sets import TestSet, bleu_by_length, to_stanford
from headwise.experiments.scales import FRENCH, SCALES

SOURCES = ["The North-South axis isn't here.", 'He says: "Yes, Mr. Smith!"']
GERMAN = ["Die Nord-Süd-Achse ist nicht hier, sondern dort.", 'Er sagt: "Ja, Herr Schmidt, das geht!"']
FRENCH_LINES = ["L'axe nord-sud n'est pas ici.", "Il dit : « Oui, monsieur ! »"]


def write_test_set(folder: Path, target: list[str], **changes: object) -> TestSet:
    for name, lines in (("test.en", SOURCES), ("test.xx", target)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return TestSet(folder / "test.en", folder / "test.xx", **changes)  # type: ignore[arg-type]


def test_stanfords_form_is_for_the_model_and_plain_text_for_sacrebleu(tmp_path: Path) -> None:
    test = write_test_set(tmp_path, GERMAN, form="stanford", compounds=True)
    sources, references = test.pairs()
    assert sources[0] == "The North ##AT##-##AT## South axis isn &apos;t here ."
    assert references == [to_stanford(line, "de") for line in GERMAN]
    right = test.scores(references)
    assert right["bleu"]["score"] == pytest.approx(100)
    assert right["tokenized_bleu"]["score"] == pytest.approx(100)
    wrong = [references[0].replace("Süd", "Ost"), references[1]]
    scored = test.scores(wrong)
    plain = [GERMAN[0].replace("Süd", "Ost"), GERMAN[1]]
    assert scored["bleu"] == bleu(plain, GERMAN).to_json()  # sacreBLEU on detokenized text
    # The paper's BLEU: in Stanford's format both sides are already tokenized and split.
    assert scored["tokenized_bleu"] == bleu(wrong, references, tokenize="none").to_json()
    assert "tok:none" in scored["tokenized_bleu"]["signature"]


def test_plain_text_is_tokenized_for_the_papers_bleu_alone(tmp_path: Path) -> None:
    test = write_test_set(tmp_path, FRENCH_LINES, form="plain", languages=("en", "fr"))
    assert test.pairs() == (SOURCES, FRENCH_LINES)
    hypotheses = [FRENCH_LINES[0].replace("ici", "là"), FRENCH_LINES[1]]
    scored = test.scores(hypotheses)
    assert scored["bleu"] == bleu(hypotheses, FRENCH_LINES).to_json()
    tokens = ["L' axe nord-sud n' est pas ici .", 'Il dit : " Oui , monsieur ! "']
    wrong = [tokens[0].replace("ici", "là"), tokens[1]]
    assert scored["tokenized_bleu"]["score"] == pytest.approx(bleu(wrong, tokens, tokenize="none").score)


def test_given_text_stays_as_it_is(tmp_path: Path) -> None:
    test = write_test_set(tmp_path, GERMAN)
    assert test.pairs() == (SOURCES, GERMAN)
    hypotheses = [GERMAN[0], "etwas ganz anderes, das nicht da steht"]
    expected = bleu(hypotheses, GERMAN, tokenize="none").to_json()
    assert test.scores(hypotheses)["tokenized_bleu"] == expected


def test_every_pair_of_wmt14_is_scored_on_its_own_test_set() -> None:
    scale = SCALES["wmt14"]
    assert scale.test.target.name.endswith(".de")
    assert scale.test_set(FRENCH).target.name.endswith(".fr")
    for name, recipe in scale.more.items():
        assert ("en-fr" in recipe.file) == name.endswith("-fr") == (recipe.test == FRENCH)
    with pytest.raises(DataError, match=r"newstest2014\.full\.en: .*`headwise data get wmt14-en-fr` brings it"):
        scale.test_set(FRENCH).check()


def test_bleu_by_length_is_that_of_the_sentences_of_a_length() -> None:
    sources = ["a " * count for count in (3, 9, 3, 5, 7, 3, 9, 5, 7, 11)]
    references = [f"{number} b c d e f" for number in range(10)]
    hypotheses = [line if index % 3 else "x y" for index, line in enumerate(references)]
    found = bleu_by_length(sources, hypotheses, references)
    assert list(found) == ["3", "5", "7", "9", "11"]  # three sentences of 3 words: as many are in one group
    assert [group["sentences"] for group in found.values()] == [3, 2, 2, 2, 1]
    for words, rows in {"3": (0, 2, 5), "9": (1, 6)}.items():
        sides = ([side[row] for row in rows] for side in (hypotheses, references))
        assert found[words]["bleu"] == bleu(*sides, tokenize="none").score
    assert list(bleu_by_length(["a b", "c"], ["x", "y"], ["x", "y"])) == ["1", "2"]
