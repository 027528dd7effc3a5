"""Words that a vocabulary has no subwords for: detection, and warnings of the commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.analysis.translation_tracer import TranslationTracer
from headwise.cli.main import run as command_line
from headwise.config import SubwordConfig
from headwise.engine.translator import Translator
from headwise.text.reading.lines import one_line
from headwise.text.tokens.subwords import Subwords, train_model
from headwise.text.tokens.unknown import UnknownWordFinder
from translator_run import ENGLISH, GERMAN, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "small", max_length=200)


def test_a_word_of_single_letters_or_of_characters_outside_the_vocabulary_is_unknown(run: Path) -> None:
    unknown = UnknownWordFinder(Subwords.load(run), "source")
    assert unknown.of(ENGLISH[0]) == ()
    assert unknown.of("A man 字 rides\tx  the ☃horse.\n🦄 runs") == ("字", "rides\tx", "☃horse.", "🦄")
    spelled = "ecbfc"
    subwords = Subwords.load(run)
    pieces = subwords.source_pieces(subwords.encode_source(spelled))
    assert [piece for piece in pieces if piece != "\u2581"] == [*spelled]
    # Of words of two letters, such as cb here, a model knows many.
    assert unknown.of(f"A {spelled} (Ecbfc!) rides e.c. b cb.") == (spelled, "(Ecbfc!)")
    assert [piece for piece in subwords.source_pieces(subwords.encode_source("cb")) if piece != "\u2581"] == ["c", "b"]


def test_a_word_is_spelled_as_in_its_text_where_no_space_is_put_before_a_text() -> None:
    subwords = Subwords(train_model([*ENGLISH, *GERMAN], SubwordConfig(size=200), add_dummy_prefix=False))
    assert subwords.source_pieces(subwords.encode_source("of")) == ["o", "f"]
    unknown = UnknownWordFinder(subwords, "source")
    assert unknown.of(ENGLISH[3]) == ()  # it has "of"
    assert unknown.of("the water of ecbfc of 漢") == ("ecbfc", "漢")
    assert unknown.of("the\u2581 漢 water") == ("漢",)


def test_letters_without_case_and_vocabularies_of_characters_mark_nothing() -> None:
    text = ["猫 坐 在 垫子", "ab ba abba"] * 40
    pieces = Subwords(train_model(iter(text), SubwordConfig(size=20)))
    assert UnknownWordFinder(pieces, "source").of("坐在猫子 b") == ()
    letters = Subwords(train_model(iter(["a b c d"] * 40), SubwordConfig(size=9)))
    assert all(len(piece) == 1 for piece in letters.source_pieces(range(4, letters.source_size)))
    assert UnknownWordFinder(letters, "source").of("abcd e") == ("e",)


def test_a_word_with_bytes_is_unknown() -> None:
    config = SubwordConfig(size=420, character_coverage=0.9995)
    text = [*ENGLISH * 200, *GERMAN * 200, "漢 a", "字 a"]
    subwords = Subwords(train_model(iter(text), config, byte_fallback=True))
    assert any(piece.startswith("<0x") for piece in subwords.source_pieces(subwords.encode_source("漢字")))
    assert UnknownWordFinder(subwords, "source").of("A man 字漢 rides a漢") == ("字漢", "a漢")


def test_the_record_of_an_old_run_is_ignored(run: Path, tmp_path: Path) -> None:
    old = shutil.copytree(run, tmp_path / "old")
    (old / "seen.safetensors").write_bytes(b"of an older version")
    assert Translator.load(old, device="cpu").translate([ENGLISH[0]])[0].unknown == ()


words = st.lists(
    st.sampled_from([*" ".join(ENGLISH + GERMAN).split(), "漢", "字x", "🦄", "a\tb", "\u00a0"]), max_size=9
)


@settings(deadline=None)
@given(words=words, gap=st.sampled_from([" ", "  ", "\n"]))
def test_the_words_found_are_those_that_the_trace_marks(
    run_tracer: TranslationTracer, words: list[str], gap: str
) -> None:
    text = run_tracer.line(gap.join(words))  # with an ordinary space for a tab, which the subwords spell shorter
    side, notes = run_tracer.read(text)
    unknown_words = run_tracer.translator.unknown["source"].of(text)
    assert tuple(side.words[number] for number in side.unknown) == unknown_words
    assert bool(notes) == bool(unknown_words)
    # The sentence has the subwords that its words have by themselves.
    processor = run_tracer.translator.subwords.source_processor
    alone = [i for word in one_line(text).split(" ") for i in processor.encode(word)]
    assert list(side.ids[:-1]) == alone


@pytest.mark.parametrize("text", ["\u2581Ein 漢a", "a\u2581漢a", "a \u2581 漢a", "\u2581\u2581", "漢a " * 2000])
def test_the_sign_for_a_space_and_long_texts_are_read(run_tracer: TranslationTracer, text: str) -> None:
    side, _ = run_tracer.read(text)
    assert bool(side.unknown) == ("漢" in text)
    assert max(side.unknown, default=0) < len(side.words)


@pytest.fixture(scope="module")
def run_tracer(run: Path) -> TranslationTracer:
    return TranslationTracer(Translator.load(run, device="cpu"), longest=1000)


def test_translate_warns_once_and_tells_each_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.en"
    text.write_text(f"{ENGLISH[1]}\nTwo 漢 dogs\n\n字 ☃ ☃\n", encoding="utf-8")
    assert command_line(["translate", str(run), str(text), "--jsonl", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["unknown"] for line in out.splitlines()] == [[], ["漢"], [], ["字", "☃", "☃"]]
    words = len(ENGLISH[1].split()) + 6
    warned = [line for line in err.splitlines() if "warning" in line]
    assert warned == [
        "headwise: warning: 2 of 4 lines hold words that the model spells by single letters, or not at all "
        f"(4 of {words} words, {4 / words:.1%}): "
        "漢 (line 2), 字 (line 4), ☃ (line 4)"
    ]
    text.write_text("a b c d e f g h i".replace(" ", "漢 ") + "漢 i漢 a漢\n", encoding="utf-8")
    assert command_line(["translate", str(run), str(text), "--device", "cpu"]) == 0
    assert capsys.readouterr().err.endswith("h漢 (line 1) and 2 more\n")  # i漢 twice; a漢 is named
    text.write_text(f"{ENGLISH[1]}\n", encoding="utf-8")
    assert command_line(["translate", str(run), str(text), "--device", "cpu"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_score_tells_of_both_sides(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("Two 漢 dogs\n", encoding="utf-8")
    (tmp_path / "b").write_text("Zwei ☃ Hunde\n", encoding="utf-8")
    files = ["--source", str(tmp_path / "a"), "--reference", str(tmp_path / "b")]
    assert command_line(["evaluate", "--per-line", str(run), *files, "--jsonl", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert (record["unknown"], record["unknown_target"]) == (["漢"], ["☃"])
    assert "1 of 1 source lines hold" in err
    assert "1 of 1 target lines hold" in err


def test_explain_tells(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explain", str(run), "--text", "Two 漢a dogs", "--target", "Zwei ☃", "--device", "cpu"]
    source = "the model spells by single letters, or not at all: 漢a"
    target = "the model spells as target text by single letters, or not at all: ☃"
    assert command_line(command) == 0
    printed = capsys.readouterr().out
    assert f"note: {source}\nnote: {target}\n" in printed
    assert command_line([*command, "-o", str(tmp_path / "a.json")]) == 0
    trace = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert trace["notes"] == [source, target]
    assert [trace["source"]["words"][n] for n in trace["source"]["unknown"]] == ["漢a"]
    assert command_line([*command, "-o", str(tmp_path / "a.html")]) == 0
    assert source in (tmp_path / "a.html").read_text(encoding="utf-8")
