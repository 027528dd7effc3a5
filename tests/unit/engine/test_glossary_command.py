"""`headwise translate --glossary` and the library's argument: terms are placed, or there is a warning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwise.engine.options import SearchOptions
from headwise.engine.terms import TERM_BEAM, sentence_terms
from headwise.engine.translator import Translator
from headwise.text.reading.glossary import Entry, Glossary, Match
from headwise.text.tokens.subwords import Subwords
from program import call
from translator_run import ENGLISH, make_run

ENTRIES = {"horse": ("Katze", "Katzen"), "snow": ("Wasser",), "dogs": ("roten Ball",), "cat": ("馬",)}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "de")


@pytest.fixture
def glossary() -> Glossary:
    return Glossary(Entry(source, targets) for source, targets in ENTRIES.items())


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    terms, text = tmp_path / "terms.tsv", tmp_path / "text.en"
    terms.write_text("".join("\t".join((s, *t)) + "\n" for s, t in ENTRIES.items()), encoding="utf-8")
    text.write_text("".join(f"{line}\n" for line in ENGLISH), encoding="utf-8")
    return terms, text


@pytest.mark.parametrize("engine", ["auto", "pytorch"])
@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"no_repeat_ngram": 3}, {"split": True}])
def test_terms_are_words_of_the_translation(
    run: Path, glossary: Glossary, engine: str, options: dict[str, Any]
) -> None:
    translator = Translator.load(run, device="cpu", engine=engine)
    texts = [*ENGLISH, "", "A horse and a horse."]
    plain = translator.translate(texts, **options)
    found = translator.translate(texts, glossary=glossary, **options)
    for translation in found:
        for match in glossary.find(translation.source):
            assert bool(match.missing(translation.text)) == (match.entry.source == "cat")
    changed = [number for number, text in enumerate(texts) if glossary.find(text)]
    assert changed == [0, 1, 2, 7]
    for number in {*range(len(texts))} - {*changed}:
        assert found[number].text == plain[number].text
        assert found[number].warnings == ()
    assert found[2].warnings == (
        "glossary: expected 馬 for cat, found it missing: the model's vocabulary can't write 馬",
    )


def test_a_long_text_has_its_terms_in_the_parts_where_they_belong(run: Path, glossary: Glossary) -> None:
    translator = Translator.load(run, device="cpu")
    text = " ".join(ENGLISH)
    assert len(translator.encode([text], translator.options, split=True).searched) > 2
    (found,) = translator.translate([text], glossary=glossary, split=True)
    assert found.warnings == ("glossary: expected 馬 for cat, found it missing: the model's vocabulary can't write 馬",)


def test_only_sentences_with_terms_have_a_wider_beam(run: Path, glossary: Glossary) -> None:
    translator = Translator.load(run, device="cpu")
    encoded = translator.encode(ENGLISH, SearchOptions(beam=3), glossary=glossary)
    assert [sentence.options.beam for sentence in encoded.searched[:4]] == [TERM_BEAM, TERM_BEAM, 3, 3]


def test_terms_beyond_the_room_are_left_out(run: Path) -> None:
    subwords = Subwords.load(run)
    matches = [Match(Entry("a", ("Katze",)), 1), Match(Entry("b", ("Wasser eines Brunnens",)), 1)]
    whole = sentence_terms(matches, subwords, 100)
    assert whole is not None
    first = sentence_terms(matches, subwords, whole.length - 1)
    assert first is not None
    assert first.terms == whole.terms[:1]
    assert sentence_terms(matches, subwords, 0) is None
    assert sentence_terms([Match(Entry("a", ("Katze",)), 65)], subwords, 1000) is None


def test_the_command(run: Path, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    terms, text = files
    done = call(capsys, "translate", run, text, "--glossary", terms, "--jsonl", "--device", "cpu")
    assert done.code == 0, done.err
    records = [json.loads(line) for line in done.out.splitlines()]
    assert "Katze" in records[0]["text"] or "Katzen" in records[0]["text"]
    assert records[0]["warnings"] == []
    sentence = "glossary: expected 馬 for cat, found it missing: the model's vocabulary can't write 馬"
    assert records[2]["warnings"] == [sentence]
    assert f"headwise: warning: line 3: {sentence}" in done.err.splitlines()
