from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from headwise.config import Config, SubwordConfig
from headwise.config.data import SPECIAL_PIECES
from headwise.errors import CheckpointError, ConfigError
from headwise.text.tokens.pair_vocabulary import PairVocabulary
from headwise.text.tokens.subwords import UNK, Subwords, train_model
from headwise.text.tokens.unknown import UnknownWordFinder
from translator_run import ENGLISH, GERMAN


def numbered(pieces: list[str] | None = None, *, codes: bool = False) -> Subwords:
    """Return subwords whose pieces are numbered backwards, or the given ones."""
    models = [train_model(iter(texts), SubwordConfig(size=80)) for texts in (ENGLISH, GERMAN)]
    if pieces is None:
        plain = [Subwords(model) for model in models]
        own = {piece for each in plain for piece in each.source_pieces(range(4, each.source_size))}
        pieces = sorted(own, reverse=True)
    return Subwords(models[0], models[1], PairVocabulary((*SPECIAL_PIECES, *pieces), codes=codes))


def test_pieces_are_those_of_the_models_and_ids_those_of_the_list() -> None:
    subwords = numbered()
    assert subwords.joint
    assert subwords.source_size == subwords.target_size
    theirs = sentencepiece.SentencePieceProcessor(model_proto=subwords.models[0])
    for text in ENGLISH:
        ids = subwords.encode_source(text)
        assert subwords.decode_source(ids) == text
        assert subwords.source_pieces(ids) == theirs.encode(text, out_type=str)
    for text in GERMAN:
        assert subwords.decode_target(subwords.encode_target(text)) == text
    encoded = subwords.source_processor.encode(ENGLISH)
    assert encoded == [subwords.encode_source(text) for text in ENGLISH]
    assert subwords.source_processor.encode([]) == []


def test_what_the_list_lacks_is_unknown() -> None:
    subwords = numbered(["▁", "▁A", "m", "a", "n", "rides", ">>deu<<"], codes=True)
    assert subwords.source_pieces(subwords.encode_source(">>deu<<A"))[0] == ">>deu<<"
    assert subwords.encode_source(">>fra<<")[0] == UNK
    assert UNK in subwords.encode_source("A dog")
    assert subwords.encode_source("</s>").count(3) == 0
    assert UnknownWordFinder(subwords, "source").of("A dog") == ("dog",)


def test_a_directory_keeps_it(tmp_path: Path) -> None:
    subwords = numbered(codes=True)
    subwords.save(tmp_path)
    config = SubwordConfig(kind="imported", size=subwords.source_size)
    for loaded in (Subwords.load(tmp_path), Subwords.load(tmp_path, config, subwords.digest())):
        assert loaded.digest() == subwords.digest()
        assert loaded.encode_source(ENGLISH[0]) == subwords.encode_source(ENGLISH[0])
    with pytest.raises(CheckpointError, match=r"expected two lists of pieces as configured .* found one"):
        Subwords.load(tmp_path, SubwordConfig(kind="imported", joint=False))
    with pytest.raises(ConfigError, match="dropout needs the merges of an own BPE vocabulary"):
        Config.from_tree({"subwords": {"kind": "imported", "dropout": 0.1}})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"source": ["a"]}, "expected 5 to 4194304 different pieces, found 1"),
        ({"source": [*SPECIAL_PIECES, "a", "a"]}, "found 6, 5 of them different"),
        ({"source": ["a", *SPECIAL_PIECES]}, "expected the first pieces to be <pad>, <unk>, <s>, </s>"),
        ({"source": [*SPECIAL_PIECES, 4]}, "expected a list of pieces"),
        ({"source": None}, "expected a list of pieces"),
        ({"target": "abcde"}, "target: expected a list of pieces"),
        ({"codes": 1}, "expected source, target, split, symbols, language, tagged, codes, lowercase, limited"),
        ({"split": "spaces"}, "split: expected one of sentencepiece, subword-nmt, words, characters, found 'spaces'"),
        ({"limited": True}, "limited: expected split subword-nmt with it, found sentencepiece"),
        ({"more": 1}, "expected source, target, split, symbols, language, tagged, codes, lowercase, limited"),
        ({"symbols": ["b"]}, "symbols: expected a list of pieces"),
        ({"symbols": ["</s>"]}, "symbols: expected a list of pieces"),
        (
            {"source": [*SPECIAL_PIECES, "a" * 65], "symbols": ["a" * 65]},
            "symbols: expected at most 10000 of at most 64 characters",
        ),
        ({"symbols": "a"}, "symbols: expected a list of pieces"),
    ],
)  # fmt: skip
def test_a_damaged_list_gets_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    whole = {"codes": False, "source": [*SPECIAL_PIECES, "a"]}
    assert PairVocabulary.parse(json.dumps(whole).encode(), "f").source[-1] == "a"
    with pytest.raises(CheckpointError) as error:
        PairVocabulary.parse(json.dumps(whole | changes).encode(), "f")
    assert sentence in str(error.value)


def test_a_part_of_a_word_is_no_language() -> None:
    pieces = (*SPECIAL_PIECES, "▁de", "de", "deu", "__en__", ">>deu<<", ">>fra<<")
    vocabulary = PairVocabulary(pieces, codes=True)
    for name in ("deu", ">>deu<<"):
        assert vocabulary.find_language(name) == ">>deu<<"
    assert vocabulary.find_language("__en__") == "__en__"
    for word in ("de", "▁de"):
        with pytest.raises(ConfigError, match=r"of this vocabulary \(>>deu<<, >>fra<<\), found '▁?de'"):
            vocabulary.find_language(word)
    named_by_words = PairVocabulary(pieces, language="▁de", tagged="target")
    assert named_by_words.find_language("de") == "de"
