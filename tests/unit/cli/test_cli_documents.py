"""`headwise translate` of documents: their sentences are those that lines give, and nothing is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import docx
import polib
import pytest

pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")

from headwise.engine.translator import Translator
from program import Call
from translator_run import ENGLISH

Translated = Callable[..., Path]


@pytest.fixture(scope="module")
def german(translator: Translator) -> list[str]:
    return [one.text for one in translator.translate(ENGLISH)]


@pytest.fixture
def translated(run: Path, program: Call) -> Translated:
    """Translate a file, with options; returns the file of the translation."""

    def into(file: Path, *options: object) -> Path:
        out = file.with_name(f"out{file.suffix}")
        assert " engine (" in program("translate", run, file, "-o", out, *options).ok().err.splitlines()[0]
        return out

    return into


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "page.html"
    file.write_text("<p>A dog.</p>")
    return file


def test_pages_subtitles_and_catalogues(translated: Translated, german: list[str], tmp_path: Path) -> None:
    around = {
        "page.html": "<!DOCTYPE html><p CLASS=a>{}</p><pre>\n{}\n</pre><script>a < b</script>",
        "page.xml": "<?xml version='1.0'?>\n<r><p a = 'b'>{}</p><p>{}</p><!-- c --></r>\n",
        "film.srt": "1\r\n00:00:01,000 --> 00:00:02,000\r\n{}\r\n\r\n2\r\n00:00:03,000 --> 00:00:04,000\r\n{}\r\n",
    }
    for name, source in around.items():
        file = tmp_path / name
        file.write_bytes(source.format(*ENGLISH[:2]).encode())
        for chunk in ("1", "1024"):
            out = translated(file, "--chunk", chunk)
            assert out.read_bytes().decode() == source.format(*german[:2])
    catalogue = polib.POFile()
    catalogue += [polib.POEntry(msgid=text, msgstr="x" * (text == ENGLISH[2])) for text in ENGLISH[:3]]
    catalogue.save(str(tmp_path / "a.po"))
    assert [one.msgstr for one in polib.pofile(str(translated(tmp_path / "a.po")))] == [*german[:2], "x"]


def test_a_word_file(translated: Translated, german: list[str], tmp_path: Path) -> None:
    document = docx.Document()
    document.add_heading(ENGLISH[0], 1)
    document.add_paragraph(f"{ENGLISH[1]} ").add_run(ENGLISH[2]).bold = True
    document.save(str(tmp_path / "letter.DOCX"))
    result = docx.Document(str(translated(tmp_path / "letter.DOCX")))

    assert result.paragraphs[0].text == german[0]
    assert result.paragraphs[0].style.name == "Heading 1"
    assert result.paragraphs[1].text == f"{german[1]} {german[2]}"


def test_tags_inside_a_sentence_are_placed(translated: Translated, page: Path) -> None:
    first, second, *rest = ENGLISH[0].split()
    page.write_text(f"<p>{first} <b>{second}</b> {' '.join(rest)} &amp; {{name}}</p>")
    result = translated(page).read_text()
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
            (["-o", "{folder}/b.html", *options.split()], f"{options.split()[0]}: expected a file of lines")
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
    run: Path, page: Path, arguments: list[str], sentence: str, program: Call
) -> None:
    places = {"file": page, "folder": page.parent}
    (page.parent / "folder.html").mkdir()
    outcome = program("translate", run, page, *(one.format(**places) for one in arguments))
    assert sentence.format(**places) in outcome.error
    assert outcome.err.count("\n") == 1
    assert page.read_text() == "<p>A dog.</p>"


@pytest.mark.parametrize("from_file", [True, False])
def test_lines_do_not_go_into_a_document(run: Path, tmp_path: Path, *, from_file: bool, program: Call) -> None:
    file, out = tmp_path / "text.en", tmp_path / "text.docx"
    file.write_text("A dog.\n")
    outcome = program("translate", run, *([file] if from_file else []), "-o", out)
    assert outcome.error == f"-o: expected a .docx file to translate into {out}, found lines of text"
    assert outcome.err.count("\n") == 1
    assert not out.exists()


def test_a_failure_leaves_the_old_file(run: Path, page: Path, program: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    out = page.with_name("out.html")
    out.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headwise.engine.translator.Translator.encode", fail)
    assert program("translate", run, page, "-o", out).code == 130
    assert out.read_text() == "old"
    assert {*page.parent.iterdir()} == {out, page}


def test_a_missing_package_is_named(run: Path, page: Path, program: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    out = page.with_name("out.html")
    error = program("translate", run, page, "-o", out).error
    assert error.endswith("sentencex, found none; run `pip install 'headwise[documents]'`")
    assert not out.exists()
