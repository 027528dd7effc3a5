"""Ways to split a text into pieces, against subword-nmt where it is installed."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from headwise.config import SubwordConfig
from headwise.config.data import SPECIAL_PIECES
from headwise.errors import CheckpointError
from headwise.text.tokens.pair_vocabulary import PairVocabulary
from headwise.text.tokens.splitting import Split, make_splitter
from headwise.text.tokens.subwords import Subwords
from translator_run import ENGLISH, GERMAN

# Sennrich et al. 2016, figure 1: the merges learned from low, lowest, newer and wider.
MERGES = "#version: 0.2\nr </w>\nl o\nlo w\ne r</w>\n"


def test_words_and_characters() -> None:
    for split, text, pieces in (
        ("words", "Two  dogs .", ["Two", "dogs", "."]),
        ("characters", "a b", ["a", "▁", "b"]),
    ):
        splitter = make_splitter(split, b"", "f", lowercase=False, known=None)
        assert splitter.split([text], 1) == [pieces]
        assert splitter.join(pieces) == " ".join(text.split())
        assert not splitter.is_byte("<0x0A>")
    lowered = make_splitter("words", b"", "f", lowercase=True, known=None)
    assert lowered.split(["Two ÄPFEL"], 1) == [["two", "äpfel"]]


def test_the_papers_example_of_byte_pairs() -> None:
    splitter = make_splitter("subword-nmt", MERGES.encode(), "f", lowercase=False, known=None)
    assert splitter.split(["lower low x"], 1) == [["low@@", "er", "lo@@", "w", "x"]]
    assert splitter.join(["low@@", "er", "lo@@", "w"]) == "lower low"
    known = {"l@@", "o@@", "er", "w", "w@@"}
    limited = make_splitter("subword-nmt", MERGES.encode(), "f", lowercase=False, known=known)
    assert limited.split(["lower"], 1) == [["l@@", "o@@", "w@@", "er"]]


def test_byte_pairs_are_subword_nmts() -> None:
    learn_bpe = pytest.importorskip("subword_nmt.learn_bpe", reason="needs subword-nmt")
    from subword_nmt.apply_bpe import BPE

    codes = io.StringIO()
    learn_bpe.learn_bpe(io.StringIO("\n".join(ENGLISH + GERMAN)), codes, 120)
    generator = random.Random(0)
    letters = sorted({*"".join(ENGLISH + GERMAN), "☃"})
    lines = [*ENGLISH, *GERMAN, *("".join(generator.choices(letters, k=60)) for _ in range(200))]
    vocabulary = {piece for line in ENGLISH for piece in BPE(io.StringIO(codes.getvalue())).segment(line).split()}
    for known in (None, vocabulary):
        theirs = BPE(io.StringIO(codes.getvalue()), vocab=known)
        ours = make_splitter("subword-nmt", codes.getvalue().encode(), "f", lowercase=False, known=known)
        for line, pieces in zip(lines, ours.split(lines, 1), strict=True):
            assert pieces == theirs.segment(" ".join(line.split())).split()


@pytest.mark.parametrize("split", ["words", "characters", "subword-nmt"])
def test_a_directory_keeps_a_vocabulary_without_sentencepiece(split: Split, tmp_path: Path) -> None:
    pieces = (*SPECIAL_PIECES, "low@@", "er", "l", "o", "▁", "lower")
    vocabulary = PairVocabulary(pieces, split=split, lowercase=True, limited=split == "subword-nmt")
    model = MERGES.encode() if split == "subword-nmt" else b""
    subwords = Subwords(model, model, vocabulary)
    subwords.save(tmp_path)
    config = SubwordConfig(kind="imported", size=len(pieces), lowercase=True)
    loaded = Subwords.load(tmp_path, config, subwords.digest())
    assert loaded.vocabulary == vocabulary
    ids = loaded.encode_source("Lower lo")
    assert ids == subwords.encode_source("Lower lo")
    known = {"words": ["lower"], "characters": ["l", "o", "er"], "subword-nmt": ["low@@", "er"]}[split]
    assert loaded.source_pieces(ids)[0] == known[0]


@pytest.mark.parametrize(
    ("codes", "sentence"),
    [
        (b"\xff", "expected byte pairs in UTF-8"),
        (b"#version: 0.1\na b\n", "expected #version: 0.2, found '#version: 0.1'"),
        (b"#version: 0.2\na b\nc\n", "line 3: expected two pieces, found 'c'"),
        (b"#version: 0.2\na b 3\n", "line 2: expected two pieces, found 'a b 3'"),
        (b"a b 3\na b\n", "line 2: expected two pieces and a frequency, or #version: 0.2 in the first line"),
        (b"", "line 1: expected two pieces and a frequency"),
    ],
)
def test_damaged_byte_pairs_get_a_sentence(codes: bytes, sentence: str) -> None:
    with pytest.raises(CheckpointError) as error:
        make_splitter("subword-nmt", codes, "f", lowercase=False, known=None)
    assert sentence in str(error.value)
