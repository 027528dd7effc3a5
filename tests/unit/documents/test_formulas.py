"""Subscripts and superscripts: formulas stay whole, numbers of notes behind their words, ordinals lose their tags."""

from __future__ import annotations

import io
import re
import zipfile

import numpy as np
import pytest

from document_translation import of_file
from headwise.documents.formats import read_file

FORMULAS = [
    "10<sup>−6</sup>",
    "−3.5·10<sup>-19</sup>",
    "x<sub>i+1</sub>",
    "2<sup>n − 1</sup>",
    "x<sup>2</sup>",
    "a<sub>1</sub><sup>n</sup>",
    "H<sub>2</sub>O",
    "C<sub>6</sub>H<sub>12</sub>O<sub>6</sub>",
    "Ca(OH)<sub>2</sub>",
    "SO<sub>4</sub><sup>2−</sup>",
    "Na<sup>+</sup>",
    "Σ<sub>k</sub>",
]


def seen(content: str) -> list[tuple[str, str, bool]]:
    """Return the pieces of a document of HTML: what is read, the source, and whether it is hidden."""
    (text,) = read_file("a.html", content.encode()).texts
    pieces = [piece for sentence in text.prepare("en").all_sentences for piece in sentence.pieces]
    return [(piece.text, piece.raw, piece.hidden) for piece in pieces]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize(
    "around", ["{} is here", "see {}, the end", "(with {})", "a <b>large {}</b> one", "{}-free air"]
)
def test_a_formula_is_a_piece(formula: str, around: str) -> None:
    text = re.sub("<[^<>]+>", "", formula)
    assert seen(f"<p>{around.format(formula)}</p>") == [(text, formula, False)]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("seed", range(3))
def test_a_formula_stays_whole_wherever_it_goes(formula: str, seed: int) -> None:
    random = np.random.default_rng(seed)

    def turned(text: str) -> str:
        return " ".join(random.permutation(text.split()))

    found = of_file("a.html", f"<p>one <i>two</i> {formula} three</p>", turned, lambda *shape: random.random(shape))
    assert found.decode().count(formula) == 1


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a claim<sup>1</sup> here", "A CLAIM<sup>1</sup> HERE"),
        ("a claim<sup><a href='#1'>1</a></sup> here", "A CLAIM<sup><a href='#1'>1</a></sup> HERE"),
        ("the end.<sup>[2]</sup>", "THE END.<sup>[2]</sup>"),
        ("word<sup>*</sup>, more<sup>1</sup><sup>,</sup><sup>2</sup>", None),
        ("NASA<sup>12</sup> knows", "NASA<sup>12</sup> KNOWS"),
        ("the 1<sup>st</sup> and 2<sup>nd</sup>", "THE 1ST AND 2ND"),
        ("le XIX<sup>e</sup> siècle", "LE XIXE SIÈCLE"),
        ("x<sub></sub> is <sub>low</sub>", "X<sub></sub> IS <sub>LOW</sub>"),
        ("\ue000a\ue002 x<sup>2</sup> y", "\ue000A\ue002 x<sup>2</sup> Y"),
    ],
)  # fmt: skip
def test_notes_and_ordinals(source: str, expected: str | None) -> None:
    expected = expected or source.upper().replace("SUP>", "sup>")
    assert of_file("a.html", f"<p>{source}</p>").decode() == f"<p>{expected}</p>"


def test_a_note_is_not_read() -> None:
    read: list[str] = []

    def kept(text: str) -> str:
        read.append(text)
        return text

    source = "<p>This is the end.<sup>1</sup> The next one<sup>2</sup> is here.</p>"
    assert of_file("a.html", source, kept).decode() == source
    assert read == ["This is the end.", "The next one is here."]


def office(name: str, runs: list[tuple[str, str]]) -> bytes:
    """Return a file of Word or PowerPoint with one paragraph of runs, each with its script."""
    word = name.endswith("docx")
    prefix, kind = ("w", "wordprocessingml") if word else ("a", "drawingml")
    scripts = {"sub": '<w:vertAlign w:val="subscript"/>', "super": '<w:vertAlign w:val="superscript"/>'}
    content = ""
    for text, script in runs:
        if word:
            content += f"<w:r><w:rPr>{scripts.get(script, '')}</w:rPr><w:t>{text}</w:t></w:r>"
        else:
            baseline = {"sub": ' baseline="-25000"', "super": ' baseline="30000"'}.get(script, "")
            content += f'<a:r><a:rPr lang="en-US"{baseline}/><a:t>{text}</a:t></a:r>'
    namespace = f'xmlns:{prefix}="http://schemas.openxmlformats.org/{kind}/2006/main"'
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("ppt/presentation.xml", "")
        part = "word/document.xml" if word else "ppt/slides/slide1.xml"
        file.writestr(part, f"<{prefix}:b {namespace}><{prefix}:p>{content}</{prefix}:p></{prefix}:b>")
    return out.getvalue()


@pytest.mark.parametrize("name", ["a.docx", "a.pptx"])
def test_scripts_of_office_files(name: str) -> None:
    runs = [("See SO", ""), ("4", "sub"), ("2−", "super"), (" and a claim", ""), ("1", "super"), (" now", "")]
    (text,) = read_file(name, office(name, runs)).texts
    (sentence,) = text.prepare("en").all_sentences
    assert [(piece.text, piece.hidden) for piece in sentence.pieces] == [("SO42−", False), ("1", True)]
    result = of_file(name, office(name, runs), str.upper)
    with zipfile.ZipFile(io.BytesIO(result)) as file:
        written = file.read(file.namelist()[-1]).decode()
    assert re.sub("<[^<>]+>", "", written) == "SEE SO42− AND A CLAIM1 NOW"
    assert written.count("super" if name == "a.docx" else 'baseline="30000"') == 2
