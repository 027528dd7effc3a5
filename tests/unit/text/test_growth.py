"""Growth of a BPE vocabulary: SentencePiece itself uses the new subwords, and the old ones as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from headwise.config import SubwordConfig
from headwise.text.tokens.bpe_dropout import DropoutSegmenter
from headwise.text.tokens.growth import grow, grown_model, old_pieces
from headwise.text.tokens.subwords import UNK, Subwords, train_model
from translator_run import ENGLISH, GERMAN

NEW = [
    "Die Buchung im Konto wird gelöscht!",
    "Das Konto der Buchung: 25 €",
    "Buchungen löschen? Kontonummer «25»",
    "Konten und Buchungskonten",
]


@pytest.fixture(scope="module")
def old() -> bytes:
    return train_model([*ENGLISH, *GERMAN], SubwordConfig(size=120))


def processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def test_new_text_takes_fewer_subwords_and_has_none_unknown(old: bytes) -> None:
    before, after = processor(old), processor(grown_model(old, NEW, 40))
    assert after.vocab_size() > before.vocab_size() + 10
    assert UNK in [i for line in NEW for i in before.encode(line)]
    assert UNK not in [i for line in NEW for i in after.encode(line)]
    lengths = [sum(len(ids) for ids in p.encode(NEW)) for p in (before, after)]
    assert lengths[1] < 0.7 * lengths[0]
    assert after.decode(after.encode(NEW)) == NEW
    used = {i for line in NEW for i in after.encode(line)}
    added = set(range(before.vocab_size(), after.vocab_size()))
    assert len(used & added) > 0.5 * len(added)


def test_old_ids_and_words_stay_the_same(old: bytes) -> None:
    before, after = processor(old), processor(grown_model(old, NEW, 40))
    size = before.vocab_size()
    for index in range(size):
        assert after.id_to_piece(index) == before.id_to_piece(index)
        assert after.get_score(index) == before.get_score(index)
    for line in [*ENGLISH, *GERMAN]:
        for word in line.split():
            ids = after.encode(word)
            assert ids == before.encode(word) or max(ids) >= size


def test_no_more_are_added_than_asked_for_or_than_recur(old: bytes) -> None:
    size = processor(old).vocab_size()
    for most in (1, 5, 12):
        assert processor(grown_model(old, NEW, most)).vocab_size() == size + most
    few, all_of_them = grown_model(old, NEW, 12), grown_model(old, NEW, 10_000)
    assert processor(all_of_them).vocab_size() < size + 200
    assert all_of_them[: len(old)] == old
    pieces = [processor(model).id_to_piece(list(range(size, size + 12))) for model in (few, all_of_them)]
    assert pieces[0] == pieces[1]


def test_new_subwords_are_words_and_characters(old: bytes) -> None:
    grown = processor(grown_model(old, NEW * 3, 200))
    pieces = [grown.id_to_piece(i) for i in range(processor(old).vocab_size(), grown.vocab_size())]
    assert {"€", "«", "»", "▁Konto"} <= set(pieces)
    assert all(len(piece) == 1 or piece.lstrip("▁").isalpha() for piece in pieces)
    assert len(set(pieces)) == len(pieces)


def test_the_old_pieces_of_a_new_one_spell_it(old: bytes) -> None:
    before, after = processor(old), processor(grown_model(old, NEW, 40))
    parts = old_pieces(before, after)
    assert len(parts) == after.vocab_size() - before.vocab_size()
    for index, ids in enumerate(parts, start=before.vocab_size()):
        piece = after.id_to_piece(index)
        assert ids == [UNK] or "".join(before.id_to_piece(ids)) == piece
        if piece.startswith("▁") and UNK not in ids:
            assert ids == before.encode(piece[1:])  # as SentencePiece segments the word


def test_rare_characters_stay_bytes_where_the_model_has_them() -> None:
    old = train_model([*ENGLISH, *GERMAN], SubwordConfig(size=360), byte_fallback=True)
    before, after = processor(old), processor(grown_model(old, ["€ € €", "Konto Konto"], 20))
    pieces = [after.id_to_piece(i) for i in range(before.vocab_size(), after.vocab_size())]
    assert "€" not in pieces
    assert after.encode("€") == before.encode("€")
    assert UNK not in after.encode("€")


@given(
    st.lists(st.text(alphabet="abcd é", min_size=1, max_size=20), min_size=1, max_size=8), st.integers(1, 30)
)
def test_sentencepiece_segments_as_the_merges_do(lines: list[str], most: int) -> None:
    """`DropoutSegmenter` applies the merges one by one; SentencePiece has to agree for every text."""
    old = train_model(["ab abc ad", "cab bad d"], SubwordConfig(size=14))
    grown = processor(grown_model(old, lines, most))
    segmenter = DropoutSegmenter(grown, 0.0)
    assert segmenter.encode_batch(lines, np.random.default_rng(0)) == grown.encode(lines)


@pytest.mark.parametrize("joint", [True, False])
def test_two_models_grow_by_their_own_side(joint: bool, tmp_path: Path) -> None:
    old = Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=80, joint=joint), tmp_path)
    grown = grow(old, ["zebra zebra quiz quiz"], NEW, 15)
    assert grown.joint == joint
    source = {grown.source_processor.id_to_piece(i) for i in range(old.source_size, grown.source_size)}
    target = {grown.target_processor.id_to_piece(i) for i in range(old.target_size, grown.target_size)}
    assert (source == target) == joint
    assert joint or ("€" in target and "€" not in source)
    grown.save(tmp_path)
    assert Subwords.load(tmp_path).digest() == grown.digest() != old.digest()
