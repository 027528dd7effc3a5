"""N lines in, N lines out: no line contains a character that Python or other programs treat as a line end."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.cli.lines import line_writer
from headwise.cli.main import run as headwise
from headwise.config import CleaningConfig, SubwordConfig
from headwise.engine.translator import Translator
from headwise.errors import DataError
from headwise.evaluation.alignment import read_alignments
from headwise.text.preparation.labelled.question_answering import read_question
from headwise.text.reading import lines as module
from headwise.text.reading.conllu import read_trees
from headwise.text.reading.lines import json_line, one_line, read_lines
from headwise.text.reading.pairs import CleaningReport, clean_pairs, pair_files, read_pairs
from headwise.text.reading.plain import LineReport, read_text
from headwise.text.reading.records import read_records
from headwise.text.tokens.subwords import Subwords
from translator_run import ENGLISH, GERMAN, make_run

# Every character at which Python splits lines, determined with Python itself.
LINE_ENDS = [line[-1] for line in "".join(map(chr, range(sys.maxunicode + 1))).splitlines(keepends=True)[:-1]]
TEXT = "".join(f"a{end}b " for end in LINE_ENDS).strip()
FLAT = "".join("a b " for _ in LINE_ENDS).strip()


@given(st.text())
def test_a_text_is_one_line_for_python_and_keeps_its_places(text: str) -> None:
    flat = one_line(text)
    assert len(flat.splitlines()) <= 1
    assert [new if new != " " else None for new in flat] == [
        None if old == " " or old in LINE_ENDS else old for old in text
    ]


def test_texts_are_read_as_one_line_from_every_format(tmp_path: Path) -> None:
    raw = TEXT.replace("\n", " ")  # in plain files a \n ends the line

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    def pairs(source: Path, target: Path | None = None) -> list[tuple[str, str]]:
        found = clean_pairs(read_pairs(pair_files(source, target)), CleaningConfig(), CleaningReport())
        return [(pair.source, pair.target) for pair in found]

    record = json.dumps({"source": TEXT, "target": TEXT, "inner": {"list": [TEXT]}})
    assert pairs(written("a.jsonl", f"{record}\n")) == [(FLAT, FLAT)]
    assert pairs(written("a.tsv", f"{raw}\t{raw}\n")) == [(FLAT, FLAT)]
    assert pairs(written("a.en", f"{raw}\n"), written("a.de.gz", f"{raw}\n")) == [(FLAT, FLAT)]
    for documents, end in ((True, ""), (False, "\n")):
        found = read_text(written("a.txt", f"{raw}\n"), LineReport(documents=documents))
        assert [line.text for line in found] == [FLAT + end]
    fields = {"source": FLAT, "target": FLAT, "inner": {"list": [FLAT]}}
    assert [each.fields for each in read_records(tmp_path / "a.jsonl")] == [fields]
    cells = io.StringIO()
    csv.writer(cells, lineterminator="\n").writerows([["text", "label"], [TEXT, "x"]])
    assert [each.fields for each in read_records(written("a.csv", cells.getvalue()))] == [{"text": FLAT, "label": "x"}]
    assert list(read_lines(written("b.gz", f"{raw}\nend"))) == [FLAT, "end"]
    question = read_question(json.dumps({"question": TEXT, "context": TEXT}), "here")
    assert (question.question, question.context) == (FLAT, FLAT)
    word = "\t".join(["1", "a\u2028b", *["_"] * 4, "0", "root", "_", "_"])
    assert read_trees(written("a.conllu", f"{word}\n\n"))[0].text.splitlines() == ["a\u00a0b"]


def test_no_writer_writes_another_line(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    out = tmp_path / "out"
    for place in (out, None):
        with line_writer(place) as write:
            write(TEXT)
            write(json_line({"text": TEXT}))
        content = (out.read_bytes() if place else capsysbinary.readouterr().out).decode()
        assert content.count("\n") == len(content.splitlines()) == 2
        assert content.splitlines()[0] == FLAT
        assert json.loads(content.splitlines()[1]) == {"text": TEXT}  # JSON says it without a line end


def test_a_line_that_fills_the_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1_000)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"0-0\n" + b"a" * 999 + b"\n" + b"a" * 1_001))
    for read in (lambda: list(read_lines(path)), lambda: list(read_text(path, LineReport(documents=True)))):
        with pytest.raises(DataError) as caught:
            read()
        assert str(caught.value) == f"{path} line 3: expected at most 1,000 bytes, found a longer line"
    for read in (read_trees, read_alignments):
        with pytest.raises(DataError):
            read(path)


@pytest.mark.parametrize("read", [read_trees, read_alignments, lambda path: list(read_lines(path))])
def test_a_damaged_gzip_file_is_one_sentence(tmp_path: Path, read) -> None:
    good = gzip.compress(b"0-0 1-1\n" * 1_000)
    corrupted = bytearray(good)
    corrupted[20:30] = bytes(10)
    for content in (good[:-12], bytes(corrupted), b"\x1f\x8b", b"no gzip"):
        path = tmp_path / "a.gz"
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.gz"):
            read(path)


def test_a_model_that_knows_line_ends_writes_spaces(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """A model of an earlier version, whose subwords contain line ends; its weights are random, so it generates them."""
    run = make_run(tmp_path / "run")
    texts = [LINE_ENDS[i % len(LINE_ENDS)].join(text.split()) for i, text in enumerate([*ENGLISH, *GERMAN] * 10)]
    subwords = Subwords.train(texts, ["x"], SubwordConfig(size=150), run)
    translator = Translator.load([run])
    samples = translator.translate(ENGLISH, sample=True, seed=3)
    assert any(set(subwords.decode_target(t.outputs[0].tokens)) & set(LINE_ENDS) for t in samples)
    assert all(len(t.text.splitlines()) <= 1 for t in samples)
    (tmp_path / "text").write_text("\n".join(ENGLISH))
    for options in ([], ["--jsonl"], ["--n-best", "1", "--scores"]):
        assert (
            headwise(["translate", str(run), str(tmp_path / "text"), "-s", "sample=true", "-s", "seed=3", *options])
            == 0
        )
        out = capsysbinary.readouterr().out.decode()
        assert out.count("\n") == len(out.splitlines()) == len(ENGLISH)
