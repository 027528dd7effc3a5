"""`headwise translate` of documents: their sentences are those that lines give, and nothing is lost."""

from __future__ import annotations

import sys
from pathlib import Path

import docx
import polib
import pytest

pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")

from headwise.cli.main import run as headwise
from headwise.engine.translator import Translator
from translator_run import ENGLISH, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "de")


@pytest.fixture(scope="module")
def german(run: Path) -> list[str]:
    return [one.text for one in Translator.load(run).translate(ENGLISH)]


def translated(run: Path, file: Path, *options: str) -> Path:
    out = file.with_name(f"out{file.suffix}")
    assert headwise(["translate", str(run), str(file), "-o", str(out), *options]) == 0
    return out


def test_pages_subtitles_and_catalogues(run: Path, german: list[str], tmp_path: Path) -> None:
    around = {
        "page.html": "<!DOCTYPE html><p CLASS=a>{}</p><pre>\n{}\n</pre><script>a < b</script>",
        "page.xml": "<?xml version='1.0'?>\n<r><p a = 'b'>{}</p><p>{}</p><!-- c --></r>\n",
        "film.srt": "1\r\n00:00:01,000 --> 00:00:02,000\r\n{}\r\n\r\n2\r\n00:00:03,000 --> 00:00:04,000\r\n{}\r\n",
    }
    for name, source in around.items():
        file = tmp_path / name
        file.write_bytes(source.format(*ENGLISH[:2]).encode())
        for chunk in ("1", "1024"):
            out = translated(run, file, "--chunk", chunk)
            assert out.read_bytes().decode() == source.format(*german[:2])
    catalogue = polib.POFile()
    catalogue += [polib.POEntry(msgid=text, msgstr="x" * (text == ENGLISH[2])) for text in ENGLISH[:3]]
    catalogue.save(str(tmp_path / "a.po"))
    assert [one.msgstr for one in polib.pofile(str(translated(run, tmp_path / "a.po")))] == [*german[:2], "x"]


def test_a_word_file(
    run: Path, german: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = docx.Document()
    document.add_heading(ENGLISH[0], 1)
    document.add_paragraph(f"{ENGLISH[1]} ").add_run(ENGLISH[2]).bold = True
    document.save(str(tmp_path / "letter.DOCX"))
    result = docx.Document(str(translated(run, tmp_path / "letter.DOCX")))
    assert capsys.readouterr().err.startswith("headwise: native engine")
    assert result.paragraphs[0].text == german[0]
    assert result.paragraphs[0].style.name == "Heading 1"
    assert result.paragraphs[1].text == f"{german[1]} {german[2]}"


def test_tags_inside_a_sentence_are_placed(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    first, second, *rest = ENGLISH[0].split()
    file.write_text(f"<p>{first} <b>{second}</b> {' '.join(rest)} &amp; {{name}}</p>")
    result = translated(run, file).read_text()
    assert result.count("<b>") == result.count("</b>") == result.count("{name}") == 1
    assert result.index("<b>") < result.index("</b>")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "-o: expected a .html file for the translation of {file}, found none"),
        (["-o", "{folder}/a.docx"], "-o: expected a name that ends with .html, as {file} does, found"),
        (["-o", "{folder}/a"], "-o: expected a name that ends with .html, as {file} does, found"),
        (["-o", "{file}"], "{file}: expected an output file that is not an input file"),
        (["-o", "{folder}/folder.html"], "{folder}/folder.html: expected a file, found a directory"),
        *(
            (
                ["-o", "{folder}/b.html", *options.split()],
                f"{options.partition(' ')[0]}: expected a file of lines",
            )
            for options in (
                "--jsonl",
                "--scores",
                "--alignments",
                "--restart",
                "--n-best 2",
                "--on-bad-line stop",
            )
        ),
        (["-o", "{folder}/b.html", "--engine", "ray"], "--engine ray: expected a file of lines"),
        (["-o", "{folder}/b.html", "-s", "n_best=2"], "--n-best: expected a file of lines"),
    ],
)
def test_what_documents_have_not_is_refused(
    run: Path, tmp_path: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.html"
    file.write_text("<p>A dog.</p>")
    (tmp_path / "folder.html").mkdir()
    places = {"file": file, "folder": tmp_path}
    assert headwise(["translate", str(run), str(file), *(one.format(**places) for one in arguments)]) == 2
    error = capsys.readouterr().err
    assert sentence.format(**places) in error
    assert error.count("\n") == 1
    assert file.read_text() == "<p>A dog.</p>"


@pytest.mark.parametrize("from_file", [True, False])
def test_lines_do_not_go_into_a_document(
    run: Path, tmp_path: Path, *, from_file: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "text.en", tmp_path / "text.docx"
    file.write_text("A dog.\n")
    given = [str(file)] if from_file else []
    assert headwise(["translate", str(run), *given, "-o", str(out)]) == 2
    expected = f"-o: expected a .docx file to translate into {out}, found lines of text"
    assert capsys.readouterr().err == f"headwise: error: {expected}\n"
    assert not out.exists()


def test_a_failure_leaves_the_old_file(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, out = tmp_path / "page.html", tmp_path / "out.html"
    file.write_text("<p>A dog.</p>")
    out.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headwise.engine.translator.Translator.encode", fail)
    assert headwise(["translate", str(run), str(file), "-o", str(out)]) == 130
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "page.html"]


def test_a_missing_package_is_named(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.html"
    file.write_text("<p>A dog.</p>")
    monkeypatch.setitem(sys.modules, "sentencex", None)
    assert headwise(["translate", str(run), str(file), "-o", str(tmp_path / "out.html")]) == 2
    assert "sentencex, found none; run `pip install 'headwise[documents]'`" in capsys.readouterr().err
    assert not (tmp_path / "out.html").exists()
