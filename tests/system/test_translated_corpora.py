"""`headwise translate FILE -o OUT`: formats, bad lines, and the same bytes wherever it is interrupted."""

from __future__ import annotations

import fcntl
import gzip
import json
import random
import warnings
from pathlib import Path

import pytest

from headwise.engine.sentences import LongLineWarning
from headwise.engine.translator import Translator
from program import Call, finish, headwise, press_ctrl_c, start, wait_for
from text_lines import lines
from translator_run import ENGLISH, make_run

zstandard = pytest.importorskip("zstandard", reason="zstandard isn't installed (the extra zstd)")
CHUNK = ("--chunk", "16", "--beam", "1", "-s", "max_length=8")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "de")


@pytest.fixture(scope="module")
def english() -> list[str]:
    draw = random.Random(1)
    return [" ".join(draw.choices(draw.choice(ENGLISH).split(), k=draw.randint(0, 6))) for _ in range(100)]


@pytest.fixture(scope="module")
def german(run: Path, english: list[str]) -> list[str]:
    return [t.text for t in Translator.load(run).translate(english, beam=1, max_length=8)]


@pytest.fixture
def packed(english: list[str], tmp_path: Path) -> Path:
    """The text in two frames, one of which ends within a line."""
    data = "".join(f"{line}\n" for line in english).encode()
    path = tmp_path / "text.en.zst"
    path.write_bytes(zstandard.compress(data[:777]) + zstandard.compress(data[777:]))
    return path


def unpacked(path: Path) -> list[str]:
    with open(path, "rb") as file:
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return reader.read().decode().split("\n")[:-1]


def translated(out: Path) -> int:
    progress = out.with_name(f"{out.name}.progress")
    return json.loads(progress.read_text())["lines"] if progress.exists() else 0


# Formats


def test_compressed_text(run: Path, packed: Path, german: list[str], tmp_path: Path, program: Call) -> None:
    out = tmp_path / "text.de.zst"
    program("translate", run, packed, "-o", out, *CHUNK).ok()
    assert unpacked(out) == german
    again = tmp_path / "text.de.gz"
    program("translate", run, packed, "-o", again, *CHUNK).ok()
    assert gzip.decompress(again.read_bytes()).decode().split("\n")[:-1] == german
    assert not list(tmp_path.glob("*.progress"))


def test_records_keep_their_fields(
    run: Path, english: list[str], german: list[str], tmp_path: Path, program: Call
) -> None:
    source = tmp_path / "text.jsonl"
    source.write_text("".join(json.dumps({"id": i, "en": text}) + "\n" for i, text in enumerate(english)))
    out = tmp_path / "out.jsonl.gz"
    fields = ("--source-field", "en", "--target-field", "de")
    program("translate", run, source, "-o", out, *fields, *CHUNK).ok()
    records = [json.loads(line) for line in gzip.decompress(out.read_bytes()).splitlines()]
    rows = zip(english, german, strict=True)
    assert records == [{"id": i, "en": en, "de": de} for i, (en, de) in enumerate(rows)]
    plain = tmp_path / "out.de"
    program("translate", run, source, "-o", plain, *fields, *CHUNK).ok()
    assert lines(plain) == german


def test_parquet_keeps_its_columns(
    run: Path, english: list[str], german: list[str], tmp_path: Path, program: Call
) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow isn't installed (the extra parquet)")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"id": list(range(100)), "text": [{"en": text} for text in english]})
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=30)
    out = tmp_path / "out.parquet"
    fields = ("--source-field", "text.en", "--target-field", "de")
    program("translate", run, tmp_path / "in.parquet", "-o", out, *fields, *CHUNK).ok()
    written = parquet.read_table(out)
    assert written.column_names == ["id", "text", "de"]
    assert written["de"].to_pylist() == german
    assert written.select(["id", "text"]).equals(table)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]
    broken = tmp_path / "broken.parquet"
    broken.write_bytes((tmp_path / "in.parquet").read_bytes()[:-20])
    error = program("translate", run, broken, "-o", out, *fields).error
    assert error.startswith(f"{broken}: expected a whole Parquet file, found a damaged one (")
    error = program("translate", run, tmp_path / "in.parquet", "-o", out, "--source-field", "fr").error
    assert error.endswith("expected a column 'fr', found id, text")


def test_a_file_without_rows(run: Path, tmp_path: Path, program: Call) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow isn't installed (the extra parquet)")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "text.en").touch()
    empty = arrow.table({"id": arrow.array([], arrow.int64()), "source": arrow.array([], arrow.string())})
    parquet.write_table(empty, tmp_path / "in.parquet")
    for name, columns in (("text.en", ["source", "target"]), ("in.parquet", ["id", "source", "target"])):
        out = tmp_path / "out.parquet"
        program("translate", run, tmp_path / name, "-o", out, *CHUNK).ok()
        written = parquet.read_table(out)
        assert (written.column_names, written.num_rows) == (columns, 0)
    for suffix, read in ((".gz", gzip.decompress), (".zst", zstandard.decompress), ("", bytes)):
        out = tmp_path / f"text.de{suffix}"
        program("translate", run, tmp_path / "text.en", "-o", out, *CHUNK).ok()
        assert read(out.read_bytes()) == b""
        assert bool(suffix) == bool(out.stat().st_size)


@pytest.mark.parametrize("end", [50, -3])
def test_a_truncated_file_is_an_error(run: Path, packed: Path, end: int, tmp_path: Path, program: Call) -> None:
    packed.write_bytes(packed.read_bytes()[:end])
    error = program("translate", run, packed, "-o", tmp_path / "out").error
    assert error == (f"{packed}: expected a whole Zstandard file, found a damaged one (it ends within a frame)")


# Bad lines

BAD = [b"A man.", b"two \xff dogs", b"The old woman reads. " * 40, b"", b"A dog."]


@pytest.mark.parametrize(("rule", "expected"), [("replace", [0, 1, 2, 4]), ("empty", [0, 4])])
def test_bad_lines_by_rule(rule: str, expected: list[int], run: Path, tmp_path: Path, program: Call) -> None:
    source, out = tmp_path / "bad.en", tmp_path / "bad.de"
    source.write_bytes(b"\n".join(BAD) + b"\n")
    done = program("translate", run, source, "-o", out, "--on-bad-line", rule, *CHUNK).ok()
    texts = [line.decode("utf-8", "replace") if i in expected else "" for i, line in enumerate(BAD)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LongLineWarning)
        translations = Translator.load(run).translate(texts, beam=1, max_length=8)
    assert lines(out) == [translation.text for translation in translations]
    assert "1 not UTF-8, 1 too long of 5" in done.err


def test_a_bad_line_stops_after_those_before_it(run: Path, tmp_path: Path, program: Call) -> None:
    source, out = tmp_path / "bad.en", tmp_path / "bad.de"
    source.write_bytes(b"A man.\n" * 20 + b"\n".join(BAD) + b"\n")
    error = program("translate", run, source, "-o", out, *CHUNK).error
    assert error == (
        f"{source} line 22: expected UTF-8 text, found other bytes (--on-bad-line replace or empty goes on)"
    )
    assert len(lines(tmp_path / "bad.de.lines")) == 21
    assert translated(out) == 16
    error = program("translate", run, source, "-o", out, *CHUNK, "--beam", 2).error
    assert error.startswith(f"{out}: was begun with beam=1, found beam=2 now; ")
    program("translate", run, source, "-o", out, *CHUNK, "--on-bad-line", "empty").ok()
    resumed = out.read_bytes()
    whole = tmp_path / "whole.de"
    program("translate", run, source, "-o", whole, *CHUNK, "--on-bad-line", "empty").ok()
    assert resumed == whole.read_bytes()
    error = program("translate", run, source, "-o", out, *CHUNK, "--on-bad-line", "stop").error
    assert "line 22: " in error
    source.write_bytes(b"\n".join(BAD[2:]) + b"\n")
    error = program("translate", run, source, "-o", whole, *CHUNK, "--on-bad-line", "stop").error
    assert error.startswith(f"{source} line 1: expected at most 39 subwords, found ")


def test_prefixes_are_as_many_as_lines_when_it_resumes_too(run: Path, tmp_path: Path, program: Call) -> None:
    source, prefixes, out = tmp_path / "text.en", tmp_path / "prefixes", tmp_path / "text.de"
    source.write_text("A man.\n" * 16)
    prefixes.write_text("Ein\r\n" * 17)
    command = ("translate", run, source, "-o", out, *CHUNK, "--prefix-file", prefixes)
    for complete in (0, 16):
        assert translated(out) == complete
        assert program(*command).error == "prefixes: expected one for each of the 16 lines, found more"
    prefixes.write_bytes(b"Ein\n" * 15 + b"\xff\n")
    error = program(*command, "--restart").error
    assert error == f"{prefixes} line 16: expected UTF-8 text, found other bytes"
    prefixes.write_text("Ein\n" * 16)
    program(*command, "--restart").ok()
    assert all(line.startswith("Ein") for line in lines(out))


def test_bad_records_by_rule(run: Path, tmp_path: Path, program: Call) -> None:
    source, out = tmp_path / "bad.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b'{"source": "A man."}\n{"source": 3}\n{"so\n{"source": "A dog."}\n')
    error = program("translate", run, source, "-o", out, *CHUNK).error
    assert error.startswith(f"{source} line 2: expected text in field 'source', found a number (--on-bad-line")
    done = program("translate", run, source, "-o", out, *CHUNK, "--on-bad-line", "empty")
    assert "2 without the field of 4" in done.err
    records = [json.loads(line) for line in lines(out)]
    assert [record["target"] != "" for record in records] == [True, False, False, True]


# Interruptions


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_change_nothing(kills: int, run: Path, packed: Path, tmp_path: Path) -> None:
    draw, whole, out = random.Random(kills), tmp_path / "whole.zst", tmp_path / "out.zst"
    packed.write_bytes(packed.read_bytes() * 5)
    command = ("translate", run, packed, *CHUNK, "--engine", "pytorch", "-o")
    headwise(*command, whole).ok()
    for kill in range(kills):
        process, before = start(*command, out), translated(out)
        goal = before + 16 * draw.randint(1, 2)
        wait_for(lambda goal=goal: translated(out) >= goal, process)
        if kill == 0:
            press_ctrl_c(process)
            assert "lines are saved; the same command goes on from there" in finish(process).err
        else:
            process.kill()
            finish(process)
        if translated(out) > 400:
            break
    assert 0 < translated(out) < 500
    done = headwise(*command, out)
    assert "of 500 lines are translated already" in done.err
    assert out.read_bytes() == whole.read_bytes()
    assert not out.with_name("out.zst.progress").exists()


def test_two_processes_do_not_write_the_same_file(run: Path, packed: Path, tmp_path: Path, program: Call) -> None:
    with open(tmp_path / "out.lines", "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        error = program("translate", run, packed, *CHUNK, "-o", tmp_path / "out").error
    assert error == f"{tmp_path / 'out.lines'}: is being written by another process"
