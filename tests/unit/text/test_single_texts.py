"""Lossless vocabularies, prepared monolingual text, and windows that cover a text once."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.config import DataConfig, SubwordConfig
from headwise.data.stream import PlannedStream
from headwise.errors import CheckpointError, ConfigError, DataError
from headwise.tasks.batches.windows import (
    WindowBatch,
    make_windows,
    plan_windows,
    scoring_windows,
    window_stream,
)
from headwise.text.preparation.monolingual import PreparedText, prepare_text
from headwise.text.tokens.loading import learn_vocabulary, load_vocabulary
from headwise.text.tokens.subwords import EOS, UNK
from headwise.text.tokens.vocabulary import TextDecoder, Vocabulary

LINES = ["Grüße,  Welt!\n", "\n", "  zwei Zeilen: 日本 und 🙂\n", "zwei  Welten und eine Zeile\n"] * 5
KINDS = {"characters": SubwordConfig(kind="characters"), "bpe": SubwordConfig(size=70)}
kinds = pytest.mark.parametrize("kind", KINDS)


def vocabulary(kind: str, symbols: tuple[str, ...] = ("<mask>",)) -> Vocabulary:
    return learn_vocabulary(LINES, KINDS[kind], symbols)


@kinds
def test_text_comes_back_as_it_was(kind: str, tmp_path: Path) -> None:
    units = vocabulary(kind)
    for line in LINES:
        assert units.decode(units.encode(line)) == line
        assert UNK not in units.encode(line)
    assert units.symbol("<mask>") == 4
    assert (units.line_end, units.encode("\n"), units.piece(4)) == (5, [5], "<mask>")
    assert units.decode([0, 2, 4, 3]) == ""
    assert units.decode([UNK]) == "\ufffd"
    units.save(tmp_path)
    again = load_vocabulary(tmp_path)
    assert (again.size, again.symbols, again.digest()) == (units.size, units.symbols, units.digest())
    assert again.encode_batch(LINES) == units.encode_batch(LINES)


def test_rare_characters_may_be_left_out() -> None:
    text = ["a" * 90 + "b" * 9 + "c\n"]
    units = learn_vocabulary(text, SubwordConfig(kind="characters", character_coverage=0.95))
    assert units.encode("abc") == [5, 6, UNK]
    lowered = learn_vocabulary(["Ab\n"], SubwordConfig(kind="characters", lowercase=True))
    assert lowered.encode("aAB") == [5, 5, 6]


class Bytes(Vocabulary):
    """Byte vocabulary, which splits characters into several ids."""

    size, symbols = 260, ()

    def spelled(self, number: int) -> bytes:
        return bytes([number - 4])


@given(st.text(max_size=30))
def test_a_decoder_gives_out_whole_characters_as_soon_as_they_are_there(text: str) -> None:
    Bytes.__abstractmethods__ = frozenset()
    decoder = TextDecoder(Bytes())
    for character in text:
        *first, last = [decoder.feed(byte + 4) for byte in character.encode()]
        assert first == [""] * len(first)
        assert last == character
    assert decoder.end() == ""
    assert decoder.feed(0xE2 + 4) + decoder.end() == "\ufffd"


@pytest.mark.parametrize("content", ["{}", "[]", '{"characters": "a", "symbols": [], "lowercase": false}'])
def test_a_damaged_vocabulary(content: str, tmp_path: Path) -> None:
    (tmp_path / "characters.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"characters\.json: expected a vocabulary of characters"):
        load_vocabulary(tmp_path)


# The store


def write(folder: Path, lines: list[str], name: str = "text.txt") -> DataConfig:
    (folder / name).write_text("".join(lines))
    return DataConfig(text=[str(folder / name)], dev_share=0.25)


def test_a_duplicate_of_another_file_is_one(tmp_path: Path) -> None:
    first, second, third = (["one\n", "two\n", "one\n"], ["two\n", "three\n"], ["three\n", "one\n"])
    paths = [write(tmp_path, lines, str(n)).text[0] for n, lines in enumerate((first, second, third))]
    config = DataConfig.model_validate({"text": paths, "dev_share": 0, "cleaning": {"drop_duplicates": True}})
    prepared = prepare(tmp_path, config, documents=True)
    ids = [prepared.train[row].tolist() for row in range(len(prepared.train))]
    assert [prepared.vocabulary.decode(row) for row in ids] == ["one", "two", "three"]
    assert (prepared.train.files.tolist(), prepared.train.lines.tolist()) == ([0, 0, 1], [1, 2, 2])
    assert "7 lines read, 3 kept" in prepared.report[0]
    assert "4 duplicates" in prepared.report[0]


def prepare(folder: Path, config: DataConfig, **options: Any) -> PreparedText:
    options = {"documents": False, **options}
    return prepare_text(config, KINDS["characters"], folder / "prepared", **options)


def test_a_running_text_is_one_row_of_ids_whose_end_is_for_development(tmp_path: Path) -> None:
    prepared = prepare(tmp_path, write(tmp_path, LINES))
    text = "".join(LINES)
    assert prepared.vocabulary.decode([*prepared.train.ids, *prepared.dev.ids]) == text
    assert prepared.train.characters + prepared.dev.characters == len(text)
    text_before_last = "".join(LINES[: len(prepared.train) - 1])
    # Development starts at the first line that begins in the last quarter.
    assert len(text_before_last) < 0.75 * len(text) <= prepared.train.characters
    count = len(prepared.train)
    assert prepared.dev.locate([0, 1]) == f"{tmp_path}/text.txt lines {count + 1} and {count + 2}"
    assert prepared.report[0] == f"20 lines read, 20 kept ({len(text)} characters); removed: 0 not UTF-8"
    assert prepare(tmp_path, write(tmp_path, LINES)).reused
    assert not prepare(tmp_path, write(tmp_path, LINES), documents=True).reused


def test_where_lines_are_documents_each_ends(tmp_path: Path) -> None:
    config = write(tmp_path, ["b a\n", "\n", " a c \n", "b a\n", "c\n"])
    config.dev_share, config.cleaning.drop_duplicates = 0.0, True
    prepared = prepare(tmp_path, config, documents=True)
    texts = [prepared.vocabulary.decode(prepared.train[row]) for row in range(len(prepared.train))]
    assert texts == ["b a", "a c", "c"]
    assert [prepared.train[row][-1] for row in range(3)] == [EOS] * 3
    assert (len(prepared.dev), prepared.train.lines.tolist()) == (0, [1, 3, 5])
    assert prepared.report[0].endswith("removed: 1 empty, 0 not UTF-8, 1 duplicates")


def test_a_development_file_and_what_is_unknown_in_it(tmp_path: Path) -> None:
    config = write(tmp_path, ["aab\n"])
    with gzip.open(tmp_path / "dev.gz", "wb") as file:
        file.write(b"\xef\xbb\xbfbxa\r\nb\n\xff\xff\nb")
    config.dev_text = str(tmp_path / "dev.gz")
    prepared = prepare(tmp_path, config)
    assert prepared.dev.ids.tolist() == [6, UNK, 5, 4, 6, 4, 6, 4]
    assert prepared.dev.lines.tolist() == [1, 2, 4]
    assert "development: 8 tokens of 8 characters, 1 of them unknown" in prepared.report


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "expected lines of text, found an empty file"),
        (b"a\0b", "expected UTF-8 text, found a binary file"),
        (b"\xff\n\xfe\na\n", "expected UTF-8 text, found 2 of 3 lines that aren't"),
        (b"one line only", "data.dev_share: expected a share of the text that leaves whole lines on both sides"),
    ],
)  # fmt: skip
def test_text_that_can_not_be_learned(content: bytes, sentence: str, tmp_path: Path) -> None:
    config = write(tmp_path, [])
    Path(config.text[0]).write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        prepare(tmp_path, config)
    assert not (tmp_path / "prepared").exists()


def test_no_text_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.text: expected at least one file"):
        prepare(tmp_path, DataConfig())


# Windows


@settings(max_examples=60)
@given(
    tokens=st.integers(1, 300), length=st.integers(1, 50), rows=st.integers(1, 9), seed=st.integers(0, 50),
)  # fmt: skip
def test_the_windows_of_an_epoch_cover_the_text(tokens: int, length: int, rows: int, seed: int) -> None:
    length = min(length, tokens)
    plan = plan_windows(tokens, length, rows, seed=seed, epoch=0)
    assert all(1 <= len(batch) <= rows for batch in plan)
    starts = np.sort(np.concatenate(plan))
    assert (starts[0], starts[-1]) == (0, tokens - length)
    assert (np.diff(starts) <= length).all()
    assert (np.diff(starts)[1:-1] == length).all()  # only the first and the last overlap with their neighbors


@given(tokens=st.integers(1, 300), length=st.integers(1, 50), data=st.data())
def test_scoring_counts_every_token_once(tokens: int, length: int, data: st.DataObject) -> None:
    length = min(length, tokens)
    stride = data.draw(st.integers(1, length))
    counted: list[int] = []
    for start, first in scoring_windows(tokens, length, stride):
        assert 0 <= start <= first < start + length <= tokens
        assert not start or first - start >= length - stride  # tokens before the first that counts
        counted += range(first, start + length)
    assert counted == list(range(tokens))


def test_inputs_are_one_token_behind() -> None:
    ids = np.arange(10, 20, dtype=np.uint16)
    batch = make_windows(ids, np.array([0, 6]), 4, first=3)
    assert batch.inputs.tolist() == [[3, 10, 11, 12], [15, 16, 17, 18]]
    assert batch.outputs.tolist() == [[10, 11, 12, 13], [16, 17, 18, 19]]
    assert batch.target_tokens == 8


@pytest.mark.parametrize("prefix", [False, True])
def test_a_stream_goes_on_where_it_was_left(tmp_path: Path, prefix: bool) -> None:
    prepared = prepare(tmp_path, write(tmp_path, LINES))

    def stream(**changes: Any) -> PlannedStream[WindowBatch]:
        options = {"first": 5, "seed": 1, "prefix": prefix, **changes}
        return window_stream(prepared, 8, 32, **options)

    one, other = stream(), stream()
    for _ in range(40):  # several epochs
        other = stream()
        other.load_state(one.state())
        mine, theirs = next(one), next(other)
        assert mine.inputs.equal(theirs.inputs)
        assert mine.outputs.equal(theirs.outputs)
        if mine.prefix is not None:
            assert theirs.prefix is not None
            assert mine.prefix.equal(theirs.prefix)
            # Tokens of the prefix are not predicted.
            seen = [min(max(int(p) - 1, 0), 8) for p in mine.prefix]
            assert mine.target_tokens == sum(8 - s for s in seen)
    assert one.epoch > 2
    with pytest.raises(CheckpointError, match="were planned with seed=1, found seed=2"):
        stream(seed=2).load_state(one.state())
