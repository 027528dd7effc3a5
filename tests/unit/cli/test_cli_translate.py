"""`headwise translate` against the library: text in, text out, whatever the options."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forked import Popen
from headwise.engine.translator import Translator
from program import Call, headwise
from translation_server import make_pair
from translator_run import ENGLISH, GERMAN, make_run


@pytest.fixture
def english(tmp_path: Path) -> Path:
    path = tmp_path / "test.en"
    path.write_bytes("".join(f"{line}\n" for line in [*ENGLISH, ""]).encode())
    return path


@pytest.fixture
def translate(program: Call, run: Path) -> Callable[..., list[str]]:
    """Translate with the run, by the arguments; returns the lines."""
    return lambda *arguments: lines(program("translate", run, *arguments).ok().out)


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def lines(text: str) -> list[str]:
    assert text == "" or text.endswith("\n")
    return text.split("\n")[:-1]


def test_one_line_in_one_line_out(translate, english, translator, here, monkeypatch) -> None:
    from_file = translate(english)
    assert from_file == [t.text for t in translator.translate([*ENGLISH, ""])]
    feed(monkeypatch, english.read_bytes())
    assert translate("-", "-o", "-", "--chunk", 2) == from_file
    assert list(here.iterdir()) == [english]


def test_only_line_feeds_end_a_line(translate, monkeypatch) -> None:
    feed(monkeypatch, "\ufeffTwo dogs.\r\n\u2028\x0bA\x85man\rruns.\n\nEnd".encode())
    assert len(translate()) == 4


def test_gzip_in_and_file_out(translate, english, translator, tmp_path) -> None:
    packed = tmp_path / "test.en.gz"
    packed.write_bytes(gzip.compress(english.read_bytes()))
    out = tmp_path / "new" / "test.de"
    assert translate(packed, "-o", out, "--beam", 1) == []
    assert lines(out.read_text("utf-8")) == [t.text for t in translator.translate([*ENGLISH, ""], beam=1)]


def test_columns(translate, english, translator) -> None:
    options = ("--beam", 2, "--n-best", 2, "--scores", "--alignments", "--alpha", 1)
    columns = [line.split("\t") for line in translate(english, *options)]
    translations = translator.translate([*ENGLISH, ""], beam=2, n_best=2, alpha=1.0, alignments=True)
    expected = [
        [str(number), f"{output.score:.6f}", output.text, output.pharaoh]
        for number, translation in enumerate(translations, start=1)
        for output in translation.outputs
    ]
    assert [[row[0], *row[2:]] for row in columns] == [[row[0], *row[2:]] for row in expected]
    assert [float(row[1]) for row in columns] == pytest.approx([float(row[1]) for row in expected], abs=1e-4)


def test_jsonl_says_everything(program, run, english, translator) -> None:
    records = program("translate", run, english, "--jsonl", "--n-best", 3, "--alignments").records
    translations = translator.translate([*ENGLISH, ""], n_best=3, alignments=True)
    for number, (record, translation) in enumerate(zip(records, translations, strict=True), start=1):
        said = (record["line"], record["source"], record["text"])
        assert said == (number, translation.source, translation.text)
        assert record["source_pieces"] == list(translation.source_pieces)
        for written, output in zip(record["outputs"], translation.outputs, strict=True):
            assert written["text"] == output.text
            assert written["pieces"] == list(output.pieces)
            assert written["log_probability"] == pytest.approx(output.log_probability, abs=1e-4)
            assert written["score"] == pytest.approx(output.score, abs=1e-4)
            assert written["token_log_probabilities"] == pytest.approx(output.token_log_probabilities, abs=1e-4)
            assert [tuple(link) for link in written["alignment"]] == list(output.alignment or ())


def test_text_as_people_write_it(program, run, translator, tmp_path) -> None:
    pytest.importorskip("py3langid", reason="needs pip install 'headwise[languages]'")
    german = "Die alte Frau liest eine Zeitung im Garten."
    (tmp_path / "a.en").write_text(f"{ENGLISH[0].upper()}\n{german}\n", encoding="utf-8")
    told = make_pair(tmp_path, "en", "de")
    options = (tmp_path / "a.en", "--recase", "--already-translated", "keep")
    (ordinary,) = translator.translate(ENGLISH[:1])
    for out in ([], ["-o", tmp_path / "a.de"]):
        printed = program("translate", told, *options, *out).ok()
        text = (tmp_path / "a.de").read_text("utf-8") if out else printed.out
        assert text == f"{ordinary.text.upper()}\n{german}\n"
        assert "line 2: it is in the target language already, and stays as it is" in printed.err
    error = program("translate", told, *options, "-s", "keep_translated=true").error
    assert "-s keep_translated: expected it once" in error
    error = program("translate", run, *options).error
    assert "expected a run whose two languages are known, found none" in error


def test_search_options_reach_the_search(translate, english, translator, tmp_path) -> None:
    prefixes = tmp_path / "prefixes.de"
    prefixes.write_text("Ein\n" * 7, encoding="utf-8")
    options = ("-s", "min_length=3", "-s", "max_length=6", "-s", "no_repeat_ngram=1")
    outputs = translate(english, *options, "--prefix-file", prefixes)
    expected = translator.translate([*ENGLISH, ""], min_length=3, max_length=6, no_repeat_ngram=1, prefixes=["Ein"] * 7)
    assert outputs == [t.text for t in expected]
    assert all(text.startswith("Ein") for text in outputs[:-1])
    settings = ["sample=true", "temperature=0.8", "top_k=9", "top_p=0.9", "seed=7"]
    options = [word for setting in settings for word in ("-s", setting)]
    expected = translator.translate([*ENGLISH, ""], sample=True, temperature=0.8, top_k=9, top_p=0.9, seed=7)
    assert translate(english, *options) == [t.text for t in expected]


def test_with_adds_runs_to_an_ensemble(translate, run, english, tmp_path) -> None:
    other = make_run(tmp_path / "other", seed=1)
    expected = Translator.load([run, other]).translate([*ENGLISH, ""])
    assert translate(english, "--with", other) == [t.text for t in expected]


def test_score_gives_what_the_search_reported(program, run, translator, sides) -> None:
    sides[0].write_text("\n".join(ENGLISH), encoding="utf-8")  # without an end of the last line
    arguments = ("evaluate", run, "--per-line", "--source", sides[0], "--reference", sides[1])
    plain = [line.split("\t") for line in lines(program(*arguments).ok().out)]
    records = program(*arguments, "--jsonl", "--alpha", 0).records
    expected = translator.score(ENGLISH, GERMAN)
    for number, (row, record, output) in enumerate(zip(plain, records, expected, strict=True), start=1):
        assert float(row[0]) == pytest.approx(output.log_probability, abs=1e-4)
        assert [float(x) for x in row[1].split()] == pytest.approx(output.token_log_probabilities, abs=1e-4)
        assert record["line"] == number
        assert record["pieces"] == list(output.pieces)
        assert record["score"] == record["log_probability"] == pytest.approx(output.log_probability, abs=1e-4)


def test_a_long_line_is_warned_of_on_standard_error(run, tmp_path) -> None:
    text = tmp_path / "long.en"
    text.write_text("A dog.\n" + " ".join(ENGLISH) + "\n", encoding="utf-8")
    cut = headwise("translate", run, text).ok()
    engine, warning, spelled = cut.err.splitlines()
    assert "engine (" in engine
    assert warning.startswith("headwise: warning: line 2: ")
    assert warning.endswith("subwords, the model reads the first 39 of them")
    assert len(cut.out.splitlines()) == 2
    whole = headwise("translate", run, text, "--split").ok()
    assert whole.err.splitlines() == [engine, spelled]
    assert len(whole.out.splitlines()) == 2


def test_lines_come_out_before_the_input_ends(run) -> None:
    command = [sys.executable, "-m", "headwise", "translate", str(run), "--chunk", "1"]
    with Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ENGLISH[:2]:
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()
        assert process.wait(timeout=60) == 0
