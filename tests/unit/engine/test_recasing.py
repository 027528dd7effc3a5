"""Lines in capitals, in title case and in lower case: how they are read, and the case of their translations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.analysis.translation_tracer import TranslationTracer
from headwise.characters import WORD
from headwise.config import SubwordConfig
from headwise.engine.outputs import Output, Translation
from headwise.engine.readings.recasing import recased
from headwise.engine.translator import Translator
from headwise.errors import CheckpointError
from headwise.text.reading.glossary import Entry, Glossary
from headwise.text.tokens.source_words import FILE, SourceWords, usual_words
from headwise.text.tokens.subwords import Subwords
from translator_run import ENGLISH, make_run

TEXT = ["I see the old house in Paris .", "She does not like the man , but he does .", "Paris is old ."] * 9


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Subwords.train(TEXT, TEXT, SubwordConfig(size=90))


@pytest.mark.parametrize(
    ("line", "read", "restored"),
    [
        ("I SEE PARIS. THE MAN DOES NOT!", "I see Paris. The man does not!", "STRASSE {x}, %s!"),
        ("SEE {name} AT https://a.example/B", "See {name} at https://a.example/B", "STRASSE {x}, %s!"),
        ("Old House In Paris", "Old house in Paris", "Straße {x}, %s!"),
        ("i see old paris.", "I see old Paris.", "Straße {x}, %s!"),
        ("old paris {name}", "old Paris {name}", "Straße {x}, %s!"),
        ("the old man", None, None),  # as the vocabulary would write it
        ("OLD 24", None, None),  # an abbreviation
        ("OLD PARIS! #man %s AT&T", "Old Paris! #man %s AT&T", "STRASSE {x}, %s!"),
        ("%s: OLD PARIS", "%s: old Paris", "STRASSE {x}, %s!"),
        ("USA", None, None),
        ("Paris: AB12-98XK774", None, None),  # codes are no words
        ("OLD PARIS 1Z99AA784", "Old Paris 1Z99AA784", "STRASSE {x}, %s!"),
        ("I see the old house in PARIS", None, None),
        ("Paris Old", None, None),  # two words are a name
        ("{NAME} %S 24", None, None),
        ("", None, None),
    ],
)
def test_what_is_in_capitals(subwords: Subwords, line: str, read: str | None, restored: str | None) -> None:
    found = recased(line, subwords)
    assert (None if found is None else found.text) == read
    if found is not None:
        translation = found.restored(Translation("", (), (Output("Straße {x}, %s!"),)))
        assert translation.text == restored


def test_a_word_in_capitals_may_have_had_an_eszett() -> None:
    text = ["Ist die Straße nass ?", "Er weiß , dass es die Straße ist ."] * 9
    found = recased("ER WEISS, DASS DIE STRASSE NASS IST.", Subwords.train(text, text, SubwordConfig(size=70)))
    assert found is not None
    assert found.text == "Er weiß, dass die Straße nass ist."


def test_words_of_the_training_text_have_the_case_that_they_have_there(subwords: Subwords, tmp_path: Path) -> None:
    text = [
        "Das ist die Straße, und er weiß es.", "Wer heisst so? Er heißt so, und er heißt gut.", "Der Hund sieht Tom.",
        "Ein HUND, ein Hund und ein Hund.", "Gut! Hunde sehen gut.",
    ]  # fmt: skip
    (tmp_path / FILE).write_text("".join(f"{word}\n" for word in usual_words(text)), "utf-8")
    words = SourceWords.of_run(tmp_path)
    assert words is not None
    read = {
        "ER WEISS, WIE TOM UND DER HUND HEISST.": "Er weiß, wie Tom und der Hund heißt.",
        "tom sieht hunde": "Tom sieht hunde",  # the sentences there say nothing on the case of `Hunde`
        "DIE PARISER STRASSE": "Die Paris",
    }
    for line, expected in read.items():
        found = recased(line, subwords, words)
        assert found is not None
        assert found.text.startswith(expected)
    assert recased("er weiß es", subwords, words) is None
    assert words.lacks("Zebra") == ()  # it isn't known to be complete


def test_a_list_of_words_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    assert SourceWords.of_run(tmp_path) is None
    (tmp_path / FILE).write_text("der\ndie das\n", "utf-8")
    words = SourceWords.of_run(tmp_path)
    assert words is not None
    with pytest.raises(CheckpointError, match=r"words.txt line 2: expected a word, found 'die das'"):
        words.usual("der")


@given(st.lists(st.text(st.sampled_from("abAß .!İ'猫1"), max_size=12), max_size=6))
def test_listed_words_are_words_each_once(lines: list[str]) -> None:
    listed = usual_words(lines)
    assert all(WORD.fullmatch(word) for word in listed)
    assert len({word.lower() for word in listed}) == len(listed)
    assert usual_words([*lines, "Aß" * 21]) == listed  # no word is that long
    text = " ".join(lines)
    assert all(re.search(re.escape(word), text, re.IGNORECASE) for word in listed)


def test_a_translator_reads_capitals_as_ordinary_text(tmp_path: Path) -> None:
    translator = Translator.load(make_run(tmp_path / "run"))
    ordinary, glossary = ENGLISH[0], Glossary([Entry("horse", ("Katze",))])
    for terms in (None, glossary):
        (expected,) = translator.translate([ordinary], glossary=terms)
        (found,) = translator.translate([ordinary.upper()], recase=True, glossary=terms)
        assert found.source == ordinary.upper()
        assert found.source_pieces == expected.source_pieces
        assert found.text == expected.text.upper()
        assert found.warnings == expected.warnings
    unread = translator.translate([ordinary.upper(), "USA"])
    assert [bool(each.warnings) for each in unread] == [True, False]
    assert unread[0].warnings[0].startswith("it is in capitals, which the model wasn't trained with")
    lines = [ordinary, "☃"]
    assert translator.translate(lines, recase=True) == translator.translate(lines)


def test_what_is_looked_into_is_what_is_translated(tmp_path: Path) -> None:
    tracer = TranslationTracer(Translator.load(make_run(tmp_path / "run"), engine="pytorch", device="cpu"))
    ordinary = recased("A MAN SLEEPS.", tracer.translator.subwords)
    assert ordinary is not None
    read = tracer.trace("A MAN SLEEPS.", recase=True)
    assert read.source == tracer.trace(ordinary.text, recase=False).source
    assert read.source != tracer.trace("A MAN SLEEPS.", recase=False).source
    assert f"read as: {ordinary.text}" in read.notes
