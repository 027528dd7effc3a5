"""The guard places what a dictionary has for words that the model hardly knows, where an output lacks it."""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.engine.guards.words import DictionaryWords
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.terms import Terms
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError
from headwise.text.reading.dictionary import FILE, Dictionary
from headwise.text.reading.glossary import Entry, Glossary, Match
from headwise.text.tokens.subwords import Subwords
from native_engines import compiled
from translator_run import GERMAN, make_run, write_dictionary

LINES = ("dogs\tHunde\tHunden", "snow\tSchnee\tSchnees", "red\trot\trote\troten")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_run(tmp_path_factory.mktemp("runs") / "de")
    write_dictionary(folder, *LINES)
    return folder


@pytest.fixture(scope="module")
def subwords(run: Path) -> Subwords:
    return Subwords.load(run)


def test_the_words_of_a_text_that_are_in_a_dictionary(tmp_path: Path) -> None:
    dictionary = write_dictionary(tmp_path, *LINES)
    assert dictionary.find("Two dogs, and dogs in snow-white coats.") == [Match(Entry("dogs", ("Hunde", "Hunden")), 2)]
    (match,) = dictionary.find("Red is a color.")  # a capital for the beginning
    assert match.entry.targets == ("rot", "rote", "roten", "Rot", "Rote", "Roten")
    assert dictionary.find("It is Red.") == []
    assert Dictionary.of_run(tmp_path / "other") is None


@pytest.mark.parametrize(
    "text", ["to dogs@snow.org", "see www.dogs.com/snow", "see dogs.de", "the file red_dogs.red.pdf", "ok"]
)
def test_a_word_in_an_address_is_none_of_the_sentence(text: str, tmp_path: Path, subwords: Subwords) -> None:
    dictionary = write_dictionary(tmp_path, *LINES)
    assert DictionaryWords.of(text, dictionary, subwords, 9) is None
    found = DictionaryWords.of(f"{text} with snow", dictionary, subwords, 9)
    assert found is not None
    assert [match.entry.source for match in found.matches] == ["snow"]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"dogs\tHunde\n", "expected lines in UTF-8, packed by xz, found "),
        (lzma.compress(b"dogs\t\xff\n"), "expected lines in UTF-8, packed by xz, found "),
        (lzma.compress(b"dogs\tHunde\n")[:-20], "found a larger file or a part of one"),
        (
            lzma.compress(b"dogs\tHunde\n" * 3_000_000),
            "expected at most 16,777,216 bytes, found a larger file",
        ),
        (lzma.compress(b"a\tb\ndogs\n"), "line 2: expected a word, a tab and its translations, found 'dogs'"),
        (lzma.compress(b"inc.\t= \n"), "line 1: expected a word, a tab and its translations, found 'inc.\\t= '"),
        (lzma.compress(b"inc.\t= including\twith\n"), "line 1: expected a word, a tab and its translations"),
        (lzma.compress(b"dogs\t\n"), "line 1: expected a word, a tab and its translations"),
    ],
)
def test_a_damaged_file(tmp_path: Path, content: bytes, found: str) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(CheckpointError) as error:
        Dictionary(tmp_path / FILE).find("dogs")
    assert str(error.value).startswith(f"{tmp_path / FILE}")
    assert found in str(error.value)


def test_which_words_an_output_lacks(run: Path, subwords: Subwords) -> None:
    words = DictionaryWords.of("Two dogs are in the snow with dogs.", Dictionary.of_run(run), subwords, 30)
    assert words is not None

    def lacking(output: str) -> dict[str, int]:
        return {match.entry.source: match.count for match in words.lacking(subwords.encode_target(output))}

    assert lacking("Zwei Hunde spielen im Schnee mit Hunden.") == {}
    assert lacking("Zwei Hunde spielen.") == {"dogs": 1, "snow": 1}
    assert lacking("Zwei Schneehunde spielen.") == {}  # a compound has both
    assert lacking("Zwei Hundes spielen im Schneed") == {"dogs": 2, "snow": 1}
    assert DictionaryWords.of("Two cats.", Dictionary.of_run(run), subwords, 30) is None
    red = DictionaryWords.of("A red dog", Dictionary.of_run(run), subwords, 30)
    assert red is not None
    assert red.lacking(subwords.encode_target("Ein Brotkorb")) == red.lacking([])  # too short to tell


@pytest.mark.parametrize("engine", ["pytorch", pytest.param("native", marks=compiled)])
def test_a_word_that_is_alone_is_looked_up(run: Path, engine: str) -> None:
    translator = Translator.load(run, engine=engine, device="cpu")
    for source, target in (("dogs", "Hunde"), ("Red", "rot"), (" snow ", "Schnee")):
        (found,) = translator.translate([source], guard=True, n_best=2, min_length=1)
        assert (found.text, found.warnings, len(found.outputs)) == (target, (), 2)
        (scored,) = translator.score([source], [target])
        assert found.outputs[0].log_probability == pytest.approx(scored.log_probability, abs=1e-3)
    (plain,) = translator.translate(["dogs"])
    assert plain.text != "Hunde"


@pytest.mark.parametrize("engine", ["pytorch", pytest.param("native", marks=compiled)])
def test_an_output_has_the_words_or_is_the_first_one(run: Path, engine: str) -> None:
    translator = Translator.load(run, engine=engine, device="cpu")
    lines = ["Two dogs are playing.", "A red ball in the snow.", "The old woman reads.", "dogs and dogs"]
    plain, guarded = (translator.translate(lines, guard=guard) for guard in (False, True))
    dictionary = Dictionary.of_run(run)
    assert dictionary is not None
    for line, first, found in zip(lines, plain, guarded, strict=True):
        has_all = not any(match.missing(found.text) for match in dictionary.find(line))
        assert has_all or found.text == first.text
    (given,) = translator.translate(["dogs"], guard=True, glossary=Glossary([Entry("dogs", ("Schnee",))]))
    assert "Schnee" in given.text


def fitting(
    subwords: Subwords, first: Sequence[float], second: dict[str, list[float]], text: str = "Zwei Katzen"
) -> str | None:
    """Return the second output in which Hunde fits best; each has the log-probabilities of its tokens and end."""
    match = Match(Entry("dogs", ("Hunde", "Hunden")), 1)
    words = DictionaryWords((match,), subwords, 30, alone=False)
    placed = words.terms([match])
    assert isinstance(placed, Terms)
    one = Hypothesis.scored(subwords.encode_target(text)[: len(first) - 1], first, 1.0)
    hypotheses = {text: Hypothesis.scored(subwords.encode_target(text), each, 1.0) for text, each in second.items()}
    assert all(len(each.tokens) + 1 == len(second[text]) for text, each in hypotheses.items())
    best = words.best(one, list(hypotheses.values()), placed)
    return next((text for text, each in hypotheses.items() if each is best), None)


@given(cost=st.floats(0.5, 20))
def test_what_a_word_costs_does_not_count_but_what_is_besides(subwords: Subwords, cost: float) -> None:
    word = [-cost] * len(subwords.encode_target("Hunde"))
    zwei = [-0.1] * len(subwords.encode_target("Zwei"))
    first = [-0.1] * 3
    assert fitting(subwords, first, {"Zwei Hunde": [*zwei, *word, -0.1]}) == "Zwei Hunde"
    unlikely = [-5.0] * len(zwei)
    assert fitting(subwords, first, {"Zwei Hunde": [*unlikely, *word, -0.1]}) is None
    beside = {"Zwei Zwei Hunde": [*zwei, *zwei, *word, -0.1], "Zwei Hunde": [*zwei, *word, -0.1]}
    assert fitting(subwords, first, beside) == "Zwei Hunde"
    lacking = [-0.1] * (len(subwords.encode_target(GERMAN[0])) + 1)
    assert fitting(subwords, first, {GERMAN[0]: lacking}) is None


def test_digits_of_the_first_output_are_kept(tmp_path: Path) -> None:
    subwords = Subwords.load(make_run(tmp_path / "de", text=["1 2 3"]))

    def best(*texts: str) -> str | None:
        second = {text: [-0.1] * (len(subwords.encode_target(text)) + 1) for text in texts}
        first = [-0.1] * (len(subwords.encode_target("Zwei 2")) + 1)
        return fitting(subwords, first, second, "Zwei 2")

    assert best("Hunde", "Hunde 1") is None
    for kept in ("2 Hunde", "Hunde 32", "Hunde 1 2"):
        assert best("Hunde", "Hunde 1", kept) == kept
