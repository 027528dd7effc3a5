from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwise.cli.main import run as headwise
from headwise.engine.translator import Translator
from translator_run import ENGLISH, GERMAN, make_run

PROGRAM = [sys.executable, "-c", "from headwise.cli.main import main; main()"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "de")


@pytest.fixture(scope="module")
def translator(run: Path) -> Translator:
    return Translator.load(run)


@pytest.fixture
def english(tmp_path: Path) -> Path:
    path = tmp_path / "test.en"
    path.write_bytes("".join(f"{line}\n" for line in [*ENGLISH, ""]).encode())
    return path


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def lines(captured: bytes) -> list[str]:
    assert captured == b"" or captured.endswith(b"\n")
    return captured.decode().split("\n")[:-1]


def test_one_line_in_one_line_out(run, english, translator, capsysbinary, monkeypatch) -> None:
    assert headwise(["translate", str(run), str(english)]) == 0
    from_file = lines(capsysbinary.readouterr().out)
    assert from_file == [t.text for t in translator.translate([*ENGLISH, ""])]
    feed(monkeypatch, english.read_bytes())
    monkeypatch.chdir(english.parent)
    assert headwise(["translate", str(run), "-", "-o", "-", "--chunk", "2"]) == 0
    assert lines(capsysbinary.readouterr().out) == from_file
    assert list(english.parent.iterdir()) == [english]


def test_only_line_feeds_end_a_line(run, capsysbinary, monkeypatch) -> None:
    feed(monkeypatch, "\ufeffTwo dogs.\r\n\u2028\x0bA\x85man\rruns.\n\nEnd".encode())
    assert headwise(["translate", str(run)]) == 0
    assert len(lines(capsysbinary.readouterr().out)) == 4


def test_gzip_in_and_file_out(run, english, translator, tmp_path, capsysbinary) -> None:
    packed = tmp_path / "test.en.gz"
    packed.write_bytes(gzip.compress(english.read_bytes()))
    out = tmp_path / "new" / "test.de"
    assert headwise(["translate", str(run), str(packed), "-o", str(out), "--beam", "1"]) == 0
    assert capsysbinary.readouterr().out == b""
    assert lines(out.read_bytes()) == [t.text for t in translator.translate([*ENGLISH, ""], beam=1)]


def test_columns(run, english, translator, capsysbinary) -> None:
    options = ["--beam", "2", "--n-best", "2", "--scores", "--alignments", "--alpha", "1"]
    assert headwise(["translate", str(run), str(english), *options]) == 0
    columns = [line.split("\t") for line in lines(capsysbinary.readouterr().out)]
    translations = translator.translate([*ENGLISH, ""], beam=2, n_best=2, alpha=1.0, alignments=True)
    expected = [
        [str(number), f"{output.score:.6f}", output.text, output.pharaoh]
        for number, translation in enumerate(translations, start=1)
        for output in translation.outputs
    ]
    assert [[row[0], *row[2:]] for row in columns] == [[row[0], *row[2:]] for row in expected]
    assert [float(row[1]) for row in columns] == pytest.approx([float(row[1]) for row in expected], abs=1e-4)


def test_jsonl_says_everything(run, english, translator, capsysbinary) -> None:
    assert headwise(["translate", str(run), str(english), "--jsonl", "--n-best", "3", "--alignments"]) == 0
    records = [json.loads(line) for line in lines(capsysbinary.readouterr().out)]
    translations = translator.translate([*ENGLISH, ""], n_best=3, alignments=True)
    for number, (record, translation) in enumerate(zip(records, translations, strict=True), start=1):
        assert (record["line"], record["source"], record["text"]) == (
            number,
            translation.source,
            translation.text,
        )
        assert record["source_pieces"] == list(translation.source_pieces)
        for written, output in zip(record["outputs"], translation.outputs, strict=True):
            assert written["text"] == output.text
            assert written["pieces"] == list(output.pieces)
            assert written["log_probability"] == pytest.approx(output.log_probability, abs=1e-4)
            assert written["score"] == pytest.approx(output.score, abs=1e-4)
            assert written["token_log_probabilities"] == pytest.approx(
                output.token_log_probabilities, abs=1e-4
            )
            assert [tuple(link) for link in written["alignment"]] == list(output.alignment or ())


def test_text_as_people_write_it(run, translator, tmp_path, capsys) -> None:
    pytest.importorskip("py3langid", reason="needs pip install 'headwise[languages]'")
    german = "Die alte Frau liest eine Zeitung im Garten."
    (tmp_path / "a.en").write_text(f"{ENGLISH[0].upper()}\n{german}\n", encoding="utf-8")
    told = tmp_path / "told"
    shutil.copytree(run, told)
    config = (told / "config.yaml").read_text()
    assert config.count("source_language: null") == config.count("target_language: null") == 1
    config = config.replace("source_language: null", "source_language: en")
    (told / "config.yaml").write_text(config.replace("target_language: null", "target_language: de"))
    command = ["translate", str(told), str(tmp_path / "a.en"), "--recase", "--already-translated", "keep"]
    (ordinary,) = translator.translate(ENGLISH[:1])
    for out in ([], ["-o", str(tmp_path / "a.de")]):
        assert headwise([*command, *out]) == 0
        printed = capsys.readouterr()
        text = (tmp_path / "a.de").read_text("utf-8") if out else printed.out
        assert text == f"{ordinary.text.upper()}\n{german}\n"
        assert "line 2: it is in the target language already, and stays as it is" in printed.err
    assert headwise([*command, "-s", "keep_translated=true"]) == 2
    assert "-s keep_translated: expected it once" in capsys.readouterr().err
    assert headwise(["translate", str(run), *command[2:]]) == 2
    assert "expected a run whose two languages are known, found none" in capsys.readouterr().err


def test_search_options_reach_the_search(run, english, translator, tmp_path, capsysbinary) -> None:
    prefixes = tmp_path / "prefixes.de"
    prefixes.write_text("Ein\n" * 7, encoding="utf-8")
    options = [
        *("-s", "min_length=3", "-s", "max_length=6", "-s", "no_repeat_ngram=1"),
        "--prefix-file",
        str(prefixes),
    ]
    assert headwise(["translate", str(run), str(english), *options]) == 0
    outputs = lines(capsysbinary.readouterr().out)
    expected = translator.translate(
        [*ENGLISH, ""], min_length=3, max_length=6, no_repeat_ngram=1, prefixes=["Ein"] * 7
    )
    assert outputs == [t.text for t in expected]
    assert all(text.startswith("Ein") for text in outputs[:-1])
    settings = ["sample=true", "temperature=0.8", "top_k=9", "top_p=0.9", "seed=7"]
    options = [word for setting in settings for word in ("-s", setting)]
    assert headwise(["translate", str(run), str(english), *options]) == 0
    expected = translator.translate([*ENGLISH, ""], sample=True, temperature=0.8, top_k=9, top_p=0.9, seed=7)
    assert lines(capsysbinary.readouterr().out) == [t.text for t in expected]


def test_with_adds_runs_to_an_ensemble(run, english, tmp_path, capsysbinary) -> None:
    other = make_run(tmp_path / "other", seed=1)
    assert headwise(["translate", str(run), str(english), "--with", str(other)]) == 0
    expected = Translator.load([run, other]).translate([*ENGLISH, ""])
    assert lines(capsysbinary.readouterr().out) == [t.text for t in expected]


def test_score_gives_what_the_search_reported(run, translator, tmp_path, capsysbinary) -> None:
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("\n".join(ENGLISH), encoding="utf-8")
    target.write_text("\n".join(GERMAN) + "\n", encoding="utf-8")
    arguments = ["evaluate", str(run), "--per-line", "--source", str(source), "--reference", str(target)]
    assert headwise(arguments) == 0
    plain = [line.split("\t") for line in lines(capsysbinary.readouterr().out)]
    assert headwise([*arguments, "--jsonl", "--alpha", "0"]) == 0
    records = [json.loads(line) for line in lines(capsysbinary.readouterr().out)]
    expected = translator.score(ENGLISH, GERMAN)
    for number, (row, record, output) in enumerate(zip(plain, records, expected, strict=True), start=1):
        assert float(row[0]) == pytest.approx(output.log_probability, abs=1e-4)
        assert [float(x) for x in row[1].split()] == pytest.approx(output.token_log_probabilities, abs=1e-4)
        assert record["line"] == number
        assert record["pieces"] == list(output.pieces)
        assert record["score"] == record["log_probability"] == pytest.approx(output.log_probability, abs=1e-4)


@pytest.mark.usefixtures("forked")
def test_a_long_line_is_warned_of_on_standard_error(run, tmp_path) -> None:
    text = tmp_path / "long.en"
    text.write_text("A dog.\n" + " ".join(ENGLISH) + "\n", encoding="utf-8")
    cut = subprocess.run([*PROGRAM, "translate", run, text], capture_output=True, text=True, check=True)
    engine, warning, spelled = cut.stderr.splitlines()
    assert "engine (" in engine
    assert warning.startswith("headwise: warning: line 2: ")
    assert warning.endswith("subwords, the model reads the first 39 of them")
    assert len(cut.stdout.splitlines()) == 2
    whole = subprocess.run(
        [*PROGRAM, "translate", run, text, "--split"], capture_output=True, text=True, check=True
    )
    assert whole.stderr.splitlines() == [engine, spelled]
    assert len(whole.stdout.splitlines()) == 2


@pytest.mark.usefixtures("forked")
def test_a_reader_that_goes_away_is_no_error(run, tmp_path) -> None:
    text = tmp_path / "many.en"
    text.write_text("A dog.\n" * 3000, encoding="utf-8")
    with subprocess.Popen(
        [*PROGRAM, "translate", run, text, "--beam", "1", "--chunk", "64"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().endswith(b"\n")
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        (engine,) = process.stderr.read().splitlines()
        assert b" engine (" in engine


@pytest.mark.usefixtures("forked")
def test_lines_come_out_before_the_input_ends(run) -> None:
    with subprocess.Popen(
        [*PROGRAM, "translate", run, "--chunk", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ENGLISH[:2]:
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_quantize_makes_a_smaller_run(run, tmp_path, capsys) -> None:
    small = tmp_path / "small"
    assert headwise(["export", "--to", "run", "--precision", "int8", str(run), "-o", str(small)]) == 0
    assert f"{small}: 0.0 MB in int8, from 0.1 MB" in capsys.readouterr().err
    assert {file.name for file in small.iterdir()} == {"config.yaml", "spm.model", "model.safetensors"}
