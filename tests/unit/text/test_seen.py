"""Words that a model never saw: detection by the subwords of its training text, and warnings of the commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from headwise.analysis.tracer import Tracer
from headwise.cli.main import run as command_line
from headwise.config import DataConfig, SubwordConfig
from headwise.decoding.translator import Translator
from headwise.errors import CheckpointError
from headwise.text.datasets.parallel import PreparedData
from headwise.text.datasets.parallel_preparation import prepare
from headwise.text.reading.lines import one_line
from headwise.text.tokens.seen import FILE, Novelty, Seen
from headwise.text.tokens.subwords import Subwords, train_model
from translator_run import ENGLISH, GERMAN, make_run

RARE = ["A man sees 漢 here.", "The dog reads ζ now."]


def prepared_text(folder: Path, subwords: Subwords | None = None, **changes: float) -> PreparedData:
    source, target = folder / "train.en", folder / "train.de"
    source.write_text("".join(f"{line}\n" for line in ENGLISH * 8 + RARE), encoding="utf-8")
    target.write_text(
        "".join(f"{line}\n" for line in GERMAN * 8 + ["Ein Mann.", "Ein Hund."]), encoding="utf-8"
    )
    data = DataConfig(source=[str(source)], target=[str(target)], dev_pairs=0, workers=1)
    return prepare(
        data, SubwordConfig.model_validate({"size": 170, **changes}), folder / "prepared", subwords=subwords
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepared_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose training text had no German on its source side, and no horse."""
    folder = make_run(tmp_path_factory.mktemp("runs") / "small", max_length=200)
    subwords = Subwords.load(folder)
    pieces = {
        "source": subwords.encode_source_batch(ENGLISH[1:]),
        "target": subwords.encode_target_batch(GERMAN),
    }
    seen = {side: np.zeros(subwords.source_size, dtype=bool) for side in pieces}
    for side, rows in pieces.items():
        seen[side][[i for row in rows for i in row]] = True
    Seen(seen, {"source": frozenset(), "target": frozenset()}).save(folder / FILE, subwords.digest())  # type: ignore[arg-type]
    return folder


def test_what_is_kept_is_what_the_encoded_text_has(prepared: PreparedData, tmp_path: Path) -> None:
    prepared.save(tmp_path)
    seen = Seen.find(tmp_path / FILE, prepared.subwords)
    assert seen is not None
    for side, table in (("source", prepared.train.source_table), ("target", prepared.train.target_table)):
        assert set(np.flatnonzero(seen.pieces[side])) == set(table.values.tolist())  # type: ignore[index]


def test_every_training_word_is_known_and_others_are_not(prepared: PreparedData, tmp_path: Path) -> None:
    prepared.save(tmp_path)
    novelty = Novelty(prepared.subwords, Seen.find(tmp_path / FILE, prepared.subwords))
    for line in [*ENGLISH, *RARE]:
        assert novelty.words(line, "source") == ()
    assert novelty.words("A man 字 rides\tx  the ☃horse.\n🦄 runs", "source") == (
        "字",
        "rides\tx",
        "☃horse.",
        "🦄",
        "runs",  # of known subwords
    )
    assert novelty.words("Der 漢", "target") == (
        "漢",
    )  # in the vocabulary, and in the other side's text alone
    assert "字" in Novelty(prepared.subwords).words("A 字 ζ man", "source")
    assert "ζ" not in Novelty(prepared.subwords).words("A 字 ζ man", "source")


def test_with_dropped_merges_other_subwords_were_seen(tmp_path: Path) -> None:
    from headwise.text.tokens.bpe_dropout import DropoutSegmenter

    prepared = prepared_text(tmp_path, dropout=0.5)
    prepared.save(tmp_path)
    seen = Seen.find(tmp_path / FILE, prepared.subwords)
    assert seen is not None
    segmenter = DropoutSegmenter(prepared.subwords.source_processor, 0.5)
    plain = set(prepared.train.source_table.values.tolist())
    random = np.random.default_rng(1)
    drawn = {i for _ in range(20) for row in segmenter.encode_batch(ENGLISH, random) for i in row}
    assert drawn - plain
    assert all(seen.pieces["source"][i] for i in drawn)
    assert Novelty(prepared.subwords, seen).words("Der 漢 字 horse", "target") == ("漢", "字", "horse")


@pytest.fixture(scope="module")
def spelling() -> Subwords:
    """Subwords that spell rare characters in bytes."""
    text = [*ENGLISH * 200, *GERMAN * 200, "漢 a", "字 a"]
    config = SubwordConfig(size=420, character_coverage=0.9995)
    return Subwords(train_model(iter(text), config, byte_fallback=True))


def test_a_character_whose_bytes_were_seen_in_others_is_new(spelling: Subwords, tmp_path: Path) -> None:
    from headwise.data.ragged import Ragged, RaggedWriter

    def table(name: str, lines: list[str]) -> Ragged:
        with RaggedWriter(tmp_path / name, np.uint16) as writer:
            for row in spelling.encode_source_batch(lines):
                writer.append(np.array(row), np.array([len(row)]))
        return Ragged(tmp_path / name, np.uint16)

    assert any(piece.startswith("<0x") for piece in spelling.source_pieces(spelling.encode_source("漢字")))
    seen = Seen.of(table("source", [*ENGLISH, "漢字 字", "a漢"]), table("target", GERMAN), spelling)
    assert seen.spelled == {"source": frozenset("漢字"), "target": frozenset()}
    novelty = Novelty(spelling, seen)
    assert novelty.words("A man 字漢 rides 漢", "source") == ()
    # 梢 is E6 A2 A2 and 漢 E6 BC A2: its bytes are not all it takes
    assert novelty.words("A man 梢 rides 漢", "source") == ("梢",)
    assert novelty.words("Ein Mann 漢", "target") == ("漢",)


words = st.lists(
    st.sampled_from([*" ".join(ENGLISH + GERMAN).split(), "漢", "字x", "🦄", "a\tb", "\u00a0"]), max_size=9
)


@settings(deadline=None)
@given(words=words, gap=st.sampled_from([" ", "  ", "\n"]))
def test_the_words_found_are_those_that_the_trace_marks(
    run_tracer: Tracer, words: list[str], gap: str
) -> None:
    text = gap.join(words).strip()
    side, notes = run_tracer.read(text)
    unknown_words = run_tracer.translator.novelty.words(text, "source")
    assert tuple(side.words[number] for number in side.unknown) == unknown_words
    assert bool(notes) == bool(unknown_words)
    # The sentence has the subwords that its words have by themselves.
    processor = run_tracer.translator.subwords.source_processor
    alone = [i for word in one_line(text).split(" ") for i in processor.encode(word)]
    assert list(side.ids[:-1]) == alone


@pytest.mark.parametrize("text", ["\u2581Ein 漢", "a\u2581漢", "a \u2581 漢", "\u2581\u2581", "漢 " * 2000])
def test_the_sign_for_a_space_and_long_texts_are_read(run_tracer: Tracer, text: str) -> None:
    side, _ = run_tracer.read(text)
    assert bool(side.unknown) == ("漢" in text)
    assert max(side.unknown, default=0) < len(side.words)


@pytest.fixture(scope="module")
def run_tracer(run: Path) -> Tracer:
    return Tracer(Translator.load(run, device="cpu"), longest=1000)


def test_translate_warns_once_and_tells_each_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.en"
    text.write_text(f"{ENGLISH[1]}\nTwo 漢 dogs\n\n☃ ☃ 字\n", encoding="utf-8")
    assert command_line(["translate", str(run), str(text), "--jsonl", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["unknown"] for line in out.splitlines()] == [[], ["漢"], [], ["☃", "☃", "字"]]
    words = len(ENGLISH[1].split()) + 6
    warned = [line for line in err.splitlines() if "warning" in line]
    assert warned == [
        "headwise: warning: 2 of 4 lines hold words, or parts of words, that the model never saw in training "
        f"(4 of {words} words, {4 / words:.1%}): "
        "漢 (line 2), ☃ (line 4), 字 (line 4) and 1 more"
    ]
    text.write_text(f"{ENGLISH[1]}\n", encoding="utf-8")
    assert command_line(["translate", str(run), str(text), "--device", "cpu"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_an_older_run_tells_what_it_can_not_spell(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = shutil.copytree(run, tmp_path / "older", ignore=shutil.ignore_patterns(FILE))
    text = tmp_path / "text.en"
    text.write_text(f"{ENGLISH[0]}\nTwo 漢 dogs\n", encoding="utf-8")
    assert command_line(["translate", str(older), str(text), "--device", "cpu"]) == 0
    words = len(ENGLISH[0].split()) + 3
    assert (
        "1 of 2 lines hold words, or parts of words, that the model has no subwords for "
        f"(1 of {words} words, {1 / words:.1%}): 漢 (line 2)"
    ) in capsys.readouterr().err
    # An ensemble knows what was seen where all of its runs do.
    assert Translator.load([run, older], device="cpu").novelty.seen is None
    assert Translator.load([run, run], device="cpu").novelty.words(ENGLISH[0], "source")


def test_score_tells_of_both_sides(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("Two 漢 dogs\n", encoding="utf-8")
    (tmp_path / "b").write_text("Zwei ☃ Hunde\n", encoding="utf-8")
    files = ["--source", str(tmp_path / "a"), "--target", str(tmp_path / "b")]
    assert command_line(["score", str(run), *files, "--jsonl", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert (record["unknown"], record["unknown_target"]) == (["漢"], ["☃"])
    assert "1 of 1 source lines hold" in err
    assert "1 of 1 target lines hold" in err


def test_explain_tells(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explain", str(run), "--text", "Two 漢 dogs", "--target", "Zwei ☃", "--device", "cpu"]
    source = "the model never saw in training, in whole or in part: 漢"
    target = "the model never saw in training as target text, in whole or in part: ☃"
    assert command_line(command) == 0
    printed = capsys.readouterr().out
    assert f"note: {source}\nnote: {target}\n" in printed
    assert command_line([*command, "-o", str(tmp_path / "a.json")]) == 0
    trace = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert trace["notes"] == [source, target]
    assert [trace["source"]["words"][n] for n in trace["source"]["unknown"]] == ["漢"]
    assert command_line([*command, "-o", str(tmp_path / "a.html")]) == 0
    assert source in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_a_quantized_run_keeps_what_was_seen(run: Path, tmp_path: Path) -> None:
    assert command_line(["quantize", str(run), "-o", str(tmp_path / "int8")]) == 0
    assert (tmp_path / "int8" / FILE).read_bytes() == (run / FILE).read_bytes()


def test_with_given_subwords_nothing_is_claimed(prepared: PreparedData, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"of another training")
    prepared_text(tmp_path, prepared.subwords).save(tmp_path)
    assert not (tmp_path / FILE).exists()


def test_a_damaged_file_is_named(run: Path, tmp_path: Path) -> None:
    subwords = Subwords.load(run)
    file = tmp_path / FILE

    def refused(sentence: str) -> None:
        with pytest.raises(CheckpointError, match=sentence) as caught:
            Seen.find(file, subwords)
        assert str(file) in str(caught.value)

    file.write_bytes(b"")
    refused("found a damaged file")
    save_file({"source": np.zeros(3, np.uint8)}, file)
    refused("found a damaged file")
    bits = load_file(run / FILE)
    for record in (
        '{"subwords": 1}',
        "[" * 100_000,
        '{"subwords": "a", "spelled": {"source": "", "target": ""}}',
    ):
        save_file(bits, file, {"headwise": record})
        refused("damaged file|found others")
    right = json.dumps({"subwords": subwords.digest(), "spelled": {"source": "", "target": ""}})
    for wrong in (bits["source"][:-1], bits["source"].astype(np.float32), bits["source"][None]):
        save_file({**bits, "source": wrong}, file, {"headwise": right})
        refused("expected a bit for each of")
