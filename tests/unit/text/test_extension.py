"""Growth of a BPE vocabulary: SentencePiece itself uses the new subwords, and the old ones as before."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from headwise.config import SubwordConfig
from headwise.config.data import SPECIAL_PIECES
from headwise.errors import ConfigError
from headwise.text.tokens.bpe_dropout import DropoutSegmenter
from headwise.text.tokens.extension import check_extensible, extend, extended_model, old_pieces
from headwise.text.tokens.pair_vocabulary import PairVocabulary
from headwise.text.tokens.splitting import Split
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
    before, after = processor(old), processor(extended_model(old, NEW, 40))
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
    before, after = processor(old), processor(extended_model(old, NEW, 40))
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
        assert processor(extended_model(old, NEW, most)).vocab_size() == size + most
    few, all_of_them = extended_model(old, NEW, 12), extended_model(old, NEW, 10_000)
    assert processor(all_of_them).vocab_size() < size + 200
    assert all_of_them[: len(old)] == old
    pieces = [processor(model).id_to_piece(list(range(size, size + 12))) for model in (few, all_of_them)]
    assert pieces[0] == pieces[1]


def test_new_subwords_are_words_and_characters(old: bytes) -> None:
    grown = processor(extended_model(old, NEW * 3, 200))
    pieces = [grown.id_to_piece(i) for i in range(processor(old).vocab_size(), grown.vocab_size())]
    assert {"€", "«", "»", "▁Konto"} <= set(pieces)
    assert all(len(piece) == 1 or piece.lstrip("▁").isalpha() for piece in pieces)
    assert len(set(pieces)) == len(pieces)


def test_the_old_pieces_of_a_new_one_spell_it(old: bytes) -> None:
    before, after = processor(old), processor(extended_model(old, NEW, 40))
    parts = old_pieces(Subwords(old), Subwords(extended_model(old, NEW, 40)), "source")
    assert len(parts) == after.vocab_size() - before.vocab_size()
    for index, ids in enumerate(parts, start=before.vocab_size()):
        piece = after.id_to_piece(index)
        assert ids == [UNK] or "".join(before.id_to_piece(ids)) == piece
        if piece.startswith("▁") and UNK not in ids:
            assert ids == before.encode(piece[1:])  # as SentencePiece segments the word


def test_rare_characters_stay_bytes_where_the_model_has_them() -> None:
    old = train_model([*ENGLISH, *GERMAN], SubwordConfig(size=360), byte_fallback=True)
    before, after = processor(old), processor(extended_model(old, ["€ € €", "Konto Konto"], 20))
    pieces = [after.id_to_piece(i) for i in range(before.vocab_size(), after.vocab_size())]
    assert "€" not in pieces
    assert after.encode("€") == before.encode("€")
    assert UNK not in after.encode("€")


@given(st.lists(st.text(alphabet="abcd é", min_size=1, max_size=20), min_size=1, max_size=8), st.integers(1, 30))
def test_sentencepiece_segments_as_the_merges_do(lines: list[str], most: int) -> None:
    """`DropoutSegmenter` applies the merges one by one; SentencePiece has to agree for every text."""
    old = train_model(["ab abc ad", "cab bad d"], SubwordConfig(size=14))
    grown = processor(extended_model(old, lines, most))
    segmenter = DropoutSegmenter(grown, 0.0)
    assert segmenter.encode_batch(lines, np.random.default_rng(0)) == grown.encode(lines)


@pytest.mark.parametrize("joint", [True, False])
def test_two_models_grow_by_their_own_side(joint: bool, tmp_path: Path) -> None:
    old = Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=80, joint=joint), tmp_path)
    grown = extend(old, ["zebra zebra quiz quiz"], NEW, 15)
    assert grown.joint == joint
    source = {grown.source_processor.id_to_piece(i) for i in range(old.source_size, grown.source_size)}
    target = {grown.target_processor.id_to_piece(i) for i in range(old.target_size, grown.target_size)}
    assert (source == target) == joint
    assert joint or ("€" in target and "€" not in source)
    grown.save(tmp_path)
    assert Subwords.load(tmp_path).digest() == grown.digest() != old.digest()


def unigram(texts: list[str], size: int) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 5),
        model_writer=model,
        model_type="unigram",
        vocab_size=size,
        hard_vocab_limit=False,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        minloglevel=2,
    )
    return model.getvalue()


def spelled(model: bytes) -> list[str]:
    """Return the pieces of a model besides its special ones."""
    loaded = processor(model)
    return [loaded.id_to_piece(i) for i in range(2, loaded.vocab_size())]


def test_a_unigram_model_keeps_its_pieces_and_joins_them() -> None:
    old = unigram([*ENGLISH, *GERMAN], 110)
    grown = extended_model(old, NEW * 3, 30)
    before, after = processor(old), processor(grown)
    assert after.vocab_size() == before.vocab_size() + 30
    for line in [*ENGLISH, *GERMAN]:
        for word in line.split():
            ids = after.encode(word)
            assert ids == before.encode(word) or max(ids) >= before.vocab_size()
    unknown = before.unk_id()
    assert unknown in [i for line in NEW for i in before.encode(line)]
    assert unknown not in [i for line in NEW for i in after.encode(line)]
    lengths = [sum(map(len, p.encode(NEW))) for p in (before, after)]
    assert lengths[1] < 0.8 * lengths[0]
    used = {i for line in NEW for i in after.encode(line)}
    assert len(used & set(range(before.vocab_size(), after.vocab_size()))) > 10
    assert after.decode(after.encode(NEW)) == NEW


@pytest.mark.parametrize("kind", ["one model", "one list", "two lists"])
@pytest.mark.parametrize("make", [unigram, lambda texts, size: train_model(texts, SubwordConfig(size=size))])
def test_a_numbered_vocabulary_grows_with_its_models(
    kind: str, make: Callable[[list[str], int], bytes], tmp_path: Path
) -> None:
    models = make(ENGLISH, 100), make(GERMAN, 100)
    models = (models[0], models[0]) if kind == "one model" else models
    missing = "▁dogs" if "▁dogs" in spelled(models[0]) else spelled(models[0])[-1]
    sides = [[p for p in spelled(model) if p not in ("<s>", "</s>", missing)] for model in models]
    lists = [(*SPECIAL_PIECES, *sorted(side)) for side in sides]
    joint = (*SPECIAL_PIECES, ">>deu<<", *sorted({*sides[0], *sides[1]}))
    vocabulary = PairVocabulary(lists[0], lists[1]) if kind == "two lists" else PairVocabulary(joint, codes=True)
    old = Subwords(*models, vocabulary)
    sources = [">>deu<< zebra zebra quiz quiz dogs", *ENGLISH]
    grown = extend(old, sources, NEW * 2, 24)
    assert (grown.joint, grown.models[0] == grown.models[1]) == (old.joint, kind == "one model")
    for side in ("source", "target"):
        before, after = (getattr(each, f"{side}_processor") for each in (old, grown))
        size = before.vocab_size()
        assert size + 5 < after.vocab_size() <= size + 24
        assert after.id_to_piece(list(range(size))) == before.id_to_piece(list(range(size)))
        new = after.id_to_piece(list(range(size, after.vocab_size())))
        assert not [piece for piece in new if "deu" in piece]
        parts = old_pieces(old, grown, side)
        assert len(parts) == len(new)
        for piece, ids in zip(new, parts, strict=True):
            assert UNK in ids or "".join(before.id_to_piece(ids)) == piece
        assert len([ids for ids in parts if UNK not in ids]) > 1
    assert UNK in old.encode_target(" ".join(NEW))
    assert UNK not in grown.encode_target(" ".join(NEW))
    assert missing in grown.source_pieces(range(old.source_size, grown.source_size))
    for text, model in zip((sources[1], NEW[0]), grown.models, strict=True):
        encode = grown.encode_source if text == sources[1] else grown.encode_target
        pieces = grown.source_pieces if text == sources[1] else grown.target_pieces
        assert pieces(encode(text)) == processor(model).encode(text, out_type=str)
    grown.save(tmp_path)
    assert Subwords.load(tmp_path).digest() == grown.digest() != old.digest()


@pytest.mark.parametrize(
    ("split", "symbols", "found"),
    [
        ("words", (), "words"),
        ("subword-nmt", (), "subword-nmt"),
        ("sentencepiece", ("▁A",), "symbols such as ▁A"),
    ],
)
def test_other_vocabularies_cannot_grow(split: Split, symbols: tuple[str, ...], found: str, old: bytes) -> None:
    model = old if split == "sentencepiece" else b"#version: 0.2\na b\n"
    vocabulary = PairVocabulary((*SPECIAL_PIECES, "▁A"), split=split, symbols=symbols)
    with pytest.raises(ConfigError, match=f"expected a vocabulary of SentencePiece alone, found {found}"):
        check_extensible(Subwords(model, model, vocabulary))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"model_type": "char"}, "type 4"),
        ({"treat_whitespace_as_suffix": True}, "spaces at the ends of words"),
    ],
)
def test_other_models_cannot_grow(options: dict[str, Any], found: str) -> None:
    model = train_model(ENGLISH, SubwordConfig(size=60), **options)
    with pytest.raises(ConfigError, match=f"expected a BPE or Unigram model .*, found {found}"):
        check_extensible(Subwords(model))
