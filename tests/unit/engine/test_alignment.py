"""An alignment of what a model read and gave is carried over to what was written, and to the restored translation."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headwise.engine.alignment import carried_over
from headwise.engine.translator import Translator
from translator_run import ENGLISH, make_run, write_dictionary

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=6).map(" ".join)


@given(texts=st.tuples(TEXTS, TEXTS, TEXTS, TEXTS), data=st.data())
def test_links_stay_between_words_that_are_there(texts: tuple[str, str, str, str], data: st.DataObject) -> None:
    read, written, given_text, restored = texts
    link = st.tuples(st.integers(0, len(read.split()) - 1), st.integers(0, len(given_text.split()) - 1))
    links = data.draw(st.lists(link, unique=True))
    carried = carried_over(links, (read, written), (given_text, restored))
    assert all(one < len(written.split()) and other < len(restored.split()) for one, other in carried)
    assert bool(carried) == bool(links)
    assert list(carried_over(links, (read, read), (given_text, given_text))) == links


def test_words_that_differ_take_the_places_between_equal_ones() -> None:
    read, given_text = "reply as soon as possible to Anna", "antworte so schnell wie möglich Anna"
    links = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (6, 5)]
    same = (given_text, given_text)
    assert carried_over(links, (read, "reply ASAP to Anna"), same) == ((0, 0), (1, 1), (1, 2), (1, 3), (1, 4), (3, 5))
    assert carried_over([(0, 0), (1, 1)], ("HELLO you", "hello YOU"), ("HALLO du", "hallo DU")) == ((0, 0), (1, 1))
    assert carried_over([(0, 0), (1, 1)], ("a b", "a"), ("c d", "c")) == ((0, 0),)
    assert carried_over([(0, 0)], ("a", ""), ("b", "c")) == ()


def test_an_abbreviation_is_one_word_of_the_source(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    write_dictionary(run, "asap\t= as soon as possible")
    line = f"{ENGLISH[0].removesuffix('.')} asap"
    (found,) = Translator.load(run, device="cpu").translate([line], alignments=True)
    assert found.source == line
    assert max(source for source, _ in found.outputs[0].alignment or ()) < len(line.split())
    assert {target for _, target in found.outputs[0].alignment or ()} == set(range(len(found.text.split())))
