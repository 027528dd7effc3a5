"""The words of a training text: found in its ids, kept as hashes, and looked up in new text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from headwise.config import SubwordConfig
from headwise.data.ragged import Ragged, RaggedWriter
from headwise.errors import CheckpointError
from headwise.text.tokens import seen_words
from headwise.text.tokens.seen import Novelty, Seen
from headwise.text.tokens.seen_words import Spelling, word_hash, words_of
from headwise.text.tokens.subwords import Subwords, train_model
from translator_run import ENGLISH, GERMAN

LETTERS = re.compile(r"[^\W\d_]+")


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Subwords(train_model(iter([*ENGLISH, *GERMAN] * 4), SubwordConfig(size=170)))


def table(path: Path, lines: list[str], subwords: Subwords) -> Ragged:
    with RaggedWriter(path, np.uint16) as writer:
        for row in subwords.encode_source_batch(lines):
            writer.append(np.array(row, dtype=np.int64), np.array([len(row)]))
    return Ragged(path, np.uint16)


lines = st.lists(
    st.lists(st.sampled_from([*" ".join(ENGLISH + GERMAN).split(), "maneS.", "e-e", "12"]), max_size=6).map(
        " ".join
    ),
    min_size=1,
    max_size=8,
)


@given(text=lines, block=st.sampled_from([12, 1000]))
@settings(deadline=None, max_examples=60)
def test_the_words_are_those_that_a_regular_expression_finds(
    subwords: Subwords, tmp_path_factory: pytest.TempPathFactory, text: list[str], block: int
) -> None:
    found = LETTERS.findall(" ".join(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen_words, "_BLOCK", block)
        path = tmp_path_factory.mktemp("table") / "t"
        hashes = words_of(table(path, text, subwords), Spelling(subwords.source_processor))
    assert hashes is not None
    assert hashes.tolist() == sorted({word_hash(word) for word in found})
    ids = subwords.encode_source(" ".join(text))
    assert [word for _, _, word in Spelling(subwords.source_processor).words(ids)] == found


def test_a_word_of_known_subwords_is_new_and_case_is_not(subwords: Subwords, tmp_path: Path) -> None:
    seen = Seen.of(
        table(tmp_path / "a", ENGLISH, subwords), table(tmp_path / "b", GERMAN, subwords), subwords
    )
    seen.save(tmp_path / "seen", subwords.digest())
    kept = Seen.find(tmp_path / "seen", subwords)
    assert kept is not None
    novelty = Novelty(subwords, kept)
    assert novelty.words("two the, a manes' snow.", "source") == ("manes'",)
    assert novelty.words("The", "target") == ("The",)  # in the other side's text alone
    joined = kept.joined(Seen(kept.pieces, kept.spelled))
    assert (
        Novelty(subwords, joined).words("manes", "source") == ()
    )  # an ensemble with a run that has no record


def test_a_text_of_too_many_words_has_no_record(
    subwords: Subwords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_words, "MOST_WORDS", 5)
    assert words_of(table(tmp_path / "t", ENGLISH, subwords), Spelling(subwords.source_processor)) is None


@pytest.mark.parametrize(
    "words",
    [
        np.zeros(3, np.uint64),
        np.arange(3, dtype=np.int64),
        np.zeros((1, 1), np.uint64),
        np.arange(500_001, dtype=np.uint64),
    ],
    ids=["unsorted", "type", "matrix", "long"],
)
def test_a_damaged_record_of_words_is_refused(subwords: Subwords, tmp_path: Path, words: np.ndarray) -> None:
    seen = Seen.of(
        table(tmp_path / "a", ENGLISH, subwords), table(tmp_path / "b", GERMAN, subwords), subwords
    )
    seen.save(tmp_path / "seen", subwords.digest())
    with safe_open(tmp_path / "seen", "np") as file:
        metadata = file.metadata()
    save_file(load_file(tmp_path / "seen") | {"source_words": words}, tmp_path / "seen", metadata)
    with pytest.raises(CheckpointError, match=r"seen in training, found a damaged file .*source_words"):
        Seen.find(tmp_path / "seen", subwords)
