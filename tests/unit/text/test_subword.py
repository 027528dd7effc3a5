from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from headwise.config import SubwordConfig
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.text.tokens.bpe_dropout import DropoutSegmenter
from headwise.text.tokens.subwords import BOS, EOS, PAD, UNK, Subwords

ENGLISH = [
    "A man rides a horse on the beach.",
    "Two dogs are playing in the deep snow.",
    "The man's horse plays with 12 dogs!",
    "She is riding her bicycle along the beach, and he is riding his.",
] * 3
GERMAN = [
    "Ein Mann reitet auf einem Pferd am Strand.",
    "Zwei Hunde spielen im tiefen Schnee.",
    "Das Pferd des Mannes spielt mit 12 Hunden!",
    "Sie fährt mit ihrem Fahrrad am Strand entlang, und er mit seinem: ÄÖÜ äöü ß.",
] * 3
SYMBOLS = ["<br>", "<b", "horse", "br"]
CHARACTERS = sorted(set("".join(ENGLISH + GERMAN)) - {" "})

words = st.text(st.sampled_from(CHARACTERS), min_size=1, max_size=8)
sentences = st.lists(words, max_size=6).map(" ".join)


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> Subwords:
    return Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=150), tmp_path_factory.mktemp("joint"))


@pytest.fixture(scope="module")
def marked() -> Subwords:
    """Subwords with words that are a subword each, one of which begins another, and one is a word of the text."""
    return Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=150, symbols=SYMBOLS))


@given(sentences)
def test_what_is_decoded_is_what_was_encoded(joint: Subwords, text: str) -> None:
    assert joint.decode_source(joint.encode_source(text)) == text
    assert joint.decode_target([BOS, *joint.encode_target(text), EOS, PAD, PAD]) == text


@given(st.lists(words, min_size=1, max_size=4), st.integers(1, 3))
def test_runs_of_spaces_become_one(joint: Subwords, parts: list[str], spaces: int) -> None:
    text = " " + (" " * spaces).join(parts) + "  "
    assert joint.encode_source(text) == joint.encode_source(" ".join(parts))


@pytest.mark.parametrize("text", ["ﬁﬀ ² ½ … Å", "a\u0308 ä", "tab\tand\u00a0hard\u2028line", "“quotes” « »"])
def test_characters_are_not_normalized(tmp_path: Path, text: str) -> None:
    # SentencePiece's usual rules (nmt_nfkc) change each of these texts.
    size = len(set(text + "\u2581x")) + 4
    subwords = Subwords.train([text.replace(" ", "")], ["x"], SubwordConfig(size=size), tmp_path)
    assert subwords.decode_target(subwords.encode_target(text)) == text


def test_ids_and_pieces(joint: Subwords) -> None:
    assert joint.source_pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]
    ids = joint.encode_source("A man☃")
    assert ids[-1] == UNK
    assert "".join(joint.source_pieces(ids)) == "▁A▁man<unk>"
    assert joint.target_pieces(ids) == joint.source_pieces(ids)
    assert "⁇" in joint.decode_target(ids)
    assert joint.joint
    assert joint.source_size == joint.target_size == 150
    assert joint.decode_target([]) == ""
    assert joint.encode_source("") == []


def test_text_that_looks_special_stays_text(tmp_path: Path) -> None:
    subwords = Subwords.train(["s < > / pad unk"] * 9, ["x"], SubwordConfig(size=18), tmp_path)
    text = "<s> </s> <pad> <unk>"
    ids = subwords.encode_source(text)
    assert not {PAD, UNK, BOS, EOS} & set(ids)
    assert subwords.decode_source(ids) == text


def test_training_is_deterministic_across_processes(tmp_path: Path, joint: Subwords) -> None:
    code = (
        "import sys; from pathlib import Path; from headwise.config import SubwordConfig\n"
        "from headwise.text.tokens.subwords import Subwords; import test_subword as t\n"
        "print(Subwords.train(t.ENGLISH, t.GERMAN, SubwordConfig(size=150), Path(sys.argv[1])).digest())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parent)},
    )
    assert run.stdout.strip() == joint.digest()
    assert run.stderr == ""  # the trainer is quiet
    assert Subwords.load(tmp_path).digest() == joint.digest()


@given(avoided=st.sets(st.integers(4, 149)), text=st.sampled_from(ENGLISH))
def test_avoided_tokens_are_spelled_by_others(joint: Subwords, avoided: set[int], text: str) -> None:
    other = joint.avoiding(avoided)
    ids = other.encode_source(text)
    assert joint.decode_source(ids) == joint.decode_source(joint.encode_source(text))
    pieces = joint.lists()[0]
    known = {piece for number, piece in enumerate(pieces) if number not in avoided}
    for number in avoided & set(ids):  # nothing else spells it
        assert not all(character in known for character in pieces[number])
    assert other.encode_target(text) == joint.encode_target(text)
    assert other.digest() == joint.digest()


def test_two_vocabularies(tmp_path: Path) -> None:
    config = SubwordConfig(size=90, joint=False)
    subwords = Subwords.train(ENGLISH, GERMAN, config, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"spm.source.model", "spm.target.model"}
    loaded = Subwords.load(tmp_path, config)
    assert not loaded.joint
    assert loaded.digest() == subwords.digest()
    assert UNK in loaded.encode_source("ß")
    assert UNK not in loaded.encode_target("ß")
    for text in (ENGLISH[0], ENGLISH[3]):
        assert loaded.decode_source(loaded.encode_source(text)) == text


def test_lower_casing_is_inside_the_model(tmp_path: Path) -> None:
    config = SubwordConfig(size=120, lowercase=True)
    Subwords.train(ENGLISH, GERMAN, config, tmp_path)
    subwords = Subwords.load(tmp_path)
    assert subwords.lowercases
    for text in GERMAN:
        assert subwords.decode_target(subwords.encode_target(text)) == text.lower()
    foreign = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    assert foreign.decode(foreign.encode("ÄÖÜ MANN")) == "äöü mann"
    with pytest.raises(CheckpointError, match="lowercase=False as configured, found one with lowercase=True"):
        Subwords.load(tmp_path, SubwordConfig(size=120))


MARKED = [
    'The horse (which plays) is a "dog", well-known on the beach.',
    "„Ein Hund“ spielt – wie ein Pferd – am Sand-Strand: 'Zwei Hunde!' [so] …und don't.",
] * 6
MARKS = [*CHARACTERS, *" ()[]\"'„“–-…% "]


@pytest.fixture(scope="module", params=[False, True], ids=["", "lowercase"])
def joining(request: pytest.FixtureRequest) -> Subwords:
    config = SubwordConfig(size=180, joiners=True, lowercase=request.param)
    return Subwords.train(ENGLISH + MARKED, GERMAN, config)


@given(st.text(st.sampled_from(MARKS), max_size=40))
def test_joiners_are_left_out_by_decoding(joining: Subwords, text: str) -> None:
    ids, expected = joining.encode_target(text), " ".join(filter(None, text.split(" ")))
    if UNK not in ids:
        assert joining.decode_target(ids) == (expected.lower() if joining.lowercases else expected)
        written = "".join(joining.target_pieces(ids)).replace("▁", " ").strip()
        assert written == joining.decode_target(ids)


def test_a_word_behind_a_mark_has_the_subwords_that_it_has_behind_a_space(joining: Subwords) -> None:
    alone = {word: joining.encode_source(word) for word in ("horse", "dog", "well", "known", "hund")}
    for text, word in (("(horse)", "horse"), ('"dog"', "dog"), ("a 'dog'", "dog"), ("well-known", "known")):
        ids = joining.encode_source(text)
        assert any(ids[at : at + len(alone[word])] == alone[word] for at in range(1, len(ids)))
    for text in ("don't", "--horse", "%(horse)s", "a](horse)"):  # no word of a sentence
        assert not any(piece.startswith("▁h") for piece in joining.source_processor.encode(text, out_type=str)[1:])
    assert joining.target_pieces(joining.encode_target("(horse"))[0] == "▁("
    assert joining.decode_source(joining.encode_source("(\uffedhorse \uffed")) == "(horse"


def test_joiners_are_inside_the_model(tmp_path: Path, joint: Subwords) -> None:
    config = SubwordConfig(size=180, joiners=True)
    Subwords.train(ENGLISH + MARKED, GERMAN, config, tmp_path)
    assert Subwords.load(tmp_path, config).joiners
    assert not joint.joiners
    foreign = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    for text in MARKED[:2]:
        assert foreign.decode(foreign.encode(text)) == text
        assert "\uffed" in "".join(foreign.encode(text, out_type=str))
    with pytest.raises(CheckpointError, match="joiners=False as configured, found one with joiners=True"):
        Subwords.load(tmp_path, SubwordConfig(size=180))


def test_a_vocabulary_larger_than_the_text_allows(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"at most ([0-9]+), .*, found 5000") as caught:
        Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=5000), tmp_path)
    largest = int(str(caught.value).split("at most ")[1].split(",")[0])
    Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=largest), tmp_path)
    with pytest.raises(ConfigError):
        Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=largest + 1), tmp_path)


def test_a_vocabulary_smaller_than_the_alphabet(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"at least ([0-9]+), one for each character") as caught:
        Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=20), tmp_path)
    smallest = int(str(caught.value).split("at least ")[1].split(",")[0])
    assert smallest >= len(CHARACTERS)
    Subwords.train(ENGLISH, GERMAN, SubwordConfig(size=smallest), tmp_path)


def test_no_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no text"):
        Subwords.train([], [], SubwordConfig(size=100), tmp_path)


def test_rare_characters_are_spelled_in_bytes_where_the_vocabulary_has_room(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    text = [" ".join("".join(random.choice(list("abcdefgh"), 6)) for _ in range(9)) for _ in range(600)]
    config = SubwordConfig(size=4000, character_coverage=0.999)
    subwords = Subwords.train([*text, "q☃"], text, config, tmp_path)
    assert UNK not in subwords.encode_source("☃ ☂")
    assert subwords.decode_source(subwords.encode_source("☃ ☂")) == "☃ ☂"


def damaged(content: bytes) -> list[bytes]:
    return [b"", content[: len(content) // 2], b"not a model", content[:-1]]


def test_damaged_missing_and_foreign_models(tmp_path: Path, joint: Subwords) -> None:
    with pytest.raises(CheckpointError, match=r"spm\.\w+\.model: there is no such subword model"):
        Subwords.load(tmp_path)
    joint.save(tmp_path)
    file = tmp_path / "spm.model"
    with pytest.raises(CheckpointError, match=r"spm\.source\.model: there is no such subword model"):
        Subwords.load(tmp_path, SubwordConfig(joint=False))
    for content in damaged(file.read_bytes()):
        file.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"spm\.model: expected a SentencePiece model"):
            Subwords.load(tmp_path)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH), model_prefix=str(tmp_path / "spm"), vocab_size=48, minloglevel=2
    )
    with pytest.raises(CheckpointError, match=r"found \(-1, 0, 1, 2\); this .* wasn't made by Headwise"):
        Subwords.load(tmp_path)


def test_subwords_that_are_not_utf_8_are_named(tmp_path: Path) -> None:
    Subwords.train(["käse und brot"] * 3, ["brot"], SubwordConfig(size=16), tmp_path)
    file = tmp_path / "spm.model"
    model = file.read_bytes()
    assert "ä".encode() in model
    file.write_bytes(model.replace("ä".encode(), b"\xc3\xc3"))
    with pytest.raises(CheckpointError, match=r"spm\.model: expected subwords in UTF-8, found a damaged file"):
        Subwords.load(tmp_path)


def test_text_is_not_imported_with_torch() -> None:
    modules = "headwise.text.preparation.resegmented, headwise.text.preparation.parallel"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestDropout:
    @given(st.lists(st.one_of(sentences, st.text(max_size=12)), max_size=4))
    def test_without_dropout_it_is_sentencepiece(self, joint: Subwords, texts: list[str]) -> None:
        segmenter = DropoutSegmenter(joint.source_processor, 0.0)
        assert segmenter.encode_batch(texts, np.random.default_rng(0)) == joint.source_processor.encode(texts)

    @given(st.lists(sentences, max_size=4), st.floats(0.01, 0.99), st.integers(0, 99))
    def test_the_text_stays_the_same(self, joint: Subwords, texts: list[str], dropout: float, seed: int) -> None:
        segmenter = DropoutSegmenter(joint.source_processor, dropout)
        first = segmenter.encode_batch(texts, np.random.default_rng(seed))
        assert [joint.decode_source(ids) for ids in first] == texts
        assert segmenter.encode_batch(texts, np.random.default_rng(seed)) == first

    @given(st.lists(st.sampled_from([*SYMBOLS, "b", "r>", "<", "\u2581", " ", "man", "12"]), max_size=9).map("".join))
    def test_symbols_are_no_part_of_merges(self, marked: Subwords, text: str) -> None:
        segmenters = [DropoutSegmenter(marked.source_processor, dropout) for dropout in (0.0, 0.9)]
        whole, dropped = (each.encode_batch([text], np.random.default_rng(1))[0] for each in segmenters)
        ids = marked.encode_source(text)
        assert whole == ids
        found, expected = (
            [piece for piece in marked.source_pieces(each) if piece in SYMBOLS] for each in (dropped, ids)
        )
        assert found == expected

    def test_rates_of_the_definition(self, tmp_path: Path) -> None:
        # Vocabulary: the characters and the pieces ab, abc, bc (in this order of merging); so "abc" gives, with
        # p the chance to drop a merge and both "ab" and "bc" possible at first:
        # a b c: both dropped, p²; ab c: ab done, abc dropped, (1 - p) p; a bc: ab dropped, bc done, then "abc"
        # dropped, p (1 - p) p; otherwise abc.
        subwords = fixed_model(tmp_path, ["\u2581", "a", "b", "c", "ab", "abc", "bc"])
        p, draws = 0.3, 20_000
        segmenter = DropoutSegmenter(subwords.source_processor, p)
        rows = segmenter.encode_batch(["abc"] * draws, np.random.default_rng(1))
        counts: dict[str, int] = {}
        for ids in rows:
            name = " ".join(subwords.source_pieces(ids)[1:])
            counts[name] = counts.get(name, 0) + 1
        expected = {"a b c": p * p, "ab c": (1 - p) * p, "a bc": p * (1 - p) * p}
        expected["abc"] = 1 - sum(expected.values())
        assert counts.keys() == expected.keys()
        for name, share in expected.items():
            deviation = (share * (1 - share) / draws) ** 0.5
            assert abs(counts[name] / draws - share) < 4.5 * deviation, name


def fixed_model(folder: Path, pieces: list[str]) -> Subwords:
    """A SentencePiece model with exactly these pieces, merged in this order."""
    from sentencepiece import sentencepiece_model_pb2 as protobuf

    Subwords.train(["abc"] * 3, ["abc"], SubwordConfig(size=9), folder)
    model = protobuf.ModelProto.FromString((folder / "spm.model").read_bytes())
    special = list(model.pieces)[:4]
    del model.pieces[:]
    model.pieces.extend(special)
    for rank, piece in enumerate(pieces):
        model.pieces.add(piece=piece, score=-float(rank))
    return Subwords(model.SerializeToString())
