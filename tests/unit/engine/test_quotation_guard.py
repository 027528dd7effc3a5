"""The guard finds quotations that an output leaves open, and ends them in a second search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.engine.base import SearchSentence
from headwise.engine.guards.quotations import SourceQuotations
from headwise.engine.guards.second_search import SecondSearch
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions
from headwise.text.tokens.subwords import Subwords
from translator_run import make_run

SOURCE = '"Two dogs are playing," said the man.'
OPEN, ENDED = '"Zwei Hunde spielen, sagte der Mann.', '"Zwei Hunde spielen", sagte der Mann.'


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Subwords:
    return Subwords.load(make_run(tmp_path_factory.mktemp("runs") / "de", text=['" , . ? ! “ ” „ » « ( ) a']))


@pytest.fixture(scope="module")
def without_marks(tmp_path_factory: pytest.TempPathFactory) -> Subwords:
    return Subwords.load(make_run(tmp_path_factory.mktemp("runs") / "de"))


def quotations(text: str, subwords: Subwords, room: int = 30) -> SourceQuotations | None:
    return SourceQuotations.of(text, subwords, room)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        (SOURCE, 1),
        ("„Ja“, sagte er. »Nein«, („nie“) sie.", 3),
        ('Er sagte „Ja".', 1),
        ("“A dog,” he said. “A cat.”", 2),
        ("A dog.", None),
        ('"Two dogs are playing.', None),
        ('a 5" ball', None),
        ('two 5" and 6" balls', None),
        ('"', None),
        ("", None),
    ],
)
def test_the_quotations_of_a_source(subwords: Subwords, source: str, count: int | None) -> None:
    found = quotations(source, subwords)
    assert (None if found is None else found.count) == count


@pytest.mark.parametrize(
    ("output", "ends"),
    [
        (ENDED, ""),
        ("„Zwei Hunde spielen“, sagte der Mann.", ""),
        (OPEN, '"'),
        ('"Zwei Hunde" spielen", sagte der Mann.', '"'),
        ("„Zwei Hunde spielen, sagte der Mann.", "“”"),
        ("Zwei Hunde spielen, sagte der Mann.", '"“”«»'),
    ],
)
def test_the_ends_that_an_output_lacks(subwords: Subwords, output: str, ends: str) -> None:
    source = quotations(SOURCE, subwords)
    assert source is not None
    terms = source.lacking_ends(subwords.encode_target(output))
    forms = () if terms is None else terms.terms[0].forms
    texts = {subwords.decode_target([*subwords.encode_target("a"), *form]) for form in forms}
    assert {mark for text in texts for mark in text if mark not in "a,.?!"} == set(ends)
    assert all(text.startswith("a") for text in texts)


@given(names=st.lists(st.sampled_from(["Hunde", "Katze", "Ball"]), min_size=1, max_size=4))
def test_an_output_with_the_source_s_quotations_lacks_none(subwords: Subwords, names: list[str]) -> None:
    text = " ".join(f'"{name}"' for name in names)
    source = quotations(text, subwords)
    assert source is not None
    assert source.count == len(names)
    assert source.lacking_ends(subwords.encode_target(text.replace('"', "„", 1).replace('"', "“", 1))) is None
    terms = source.lacking_ends(subwords.encode_target(text.removesuffix('"')))
    assert terms is not None
    assert terms.terms[0].count == len(names)


def test_ends_that_cant_be_written_or_have_no_room_arent_searched(subwords: Subwords, without_marks: Subwords) -> None:
    for found in (quotations(SOURCE, without_marks), quotations(SOURCE, subwords, room=0)):
        assert found is not None
        assert found.lacking_ends(found.subwords.encode_target("Zwei Hunde spielen.")) is None


def test_a_second_output_with_the_quotations_is_kept(subwords: Subwords) -> None:
    def hypotheses(*texts: str) -> list[Hypothesis]:
        tokens = (tuple(subwords.encode_target(text)) for text in texts)
        return [Hypothesis(ids, -1.0, -1.0, (-0.1,) * len(ids)) for ids in tokens]

    def kept(*second: str) -> list[str]:
        sentence = SearchSentence(
            subwords.encode_source(SOURCE), SearchOptions(guard=True), quotations=quotations(SOURCE, subwords)
        )
        found = [hypotheses(OPEN)]
        again = SecondSearch([sentence], found)
        (searched,) = again.sentences
        assert searched.terms is not None
        assert not searched.options.guard
        again.mend(found, [hypotheses(*second)])
        return [subwords.decode_target(each.tokens) for each in found[0]]

    short, twice = '"Zwei" Hunde.', '"Zwei Hunde spielen,", sagte der Mann.'
    assert kept(short, twice, ENDED) == [ENDED]
    assert kept(short, twice, 'Zwei Hunde spielen," sagte der Mann.') == [OPEN]


def test_an_output_with_as_many_marks_is_searched_once(subwords: Subwords) -> None:
    ids = tuple(subwords.encode_target(ENDED))
    sentence = SearchSentence(
        subwords.encode_source(SOURCE), SearchOptions(guard=True), quotations=quotations(SOURCE, subwords)
    )
    assert SecondSearch([sentence], [[Hypothesis(ids, -1.0, -1.0, (-0.1,) * len(ids))]]).sentences == []
