"""Presentations, sheets and OpenDocument texts against the libraries that others read them with."""

from __future__ import annotations

import io
import re
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")

from document_translation import of_document, of_file
from headwise.documents.formats import read_file
from headwise.errors import DataError

SLIDE = (
    '<p:sld xmlns:a="a" xmlns:p="p"><a:p><a:pPr/><a:r><a:rPr lang="en"/><a:t>Hello you</a:t></a:r><a:br/><a:r>'
    "<a:t>&amp; more</a:t></a:r><a:fld><a:t>3</a:t></a:fld><a:endParaRPr/></a:p></p:sld>"
)
STRINGS = (
    '<sst xmlns="s"><si><t>Hello you</t></si><si><t>Head</t></si><si><r><t>a </t></r><r><rPr><b/></rPr><t>bold</t></r>'
    "</si><si><t>12</t></si></sst>"
)
SHEET = '<worksheet><row r="1"><c r="A1" t="inlineStr"><is><t>In line</t></is></c><c><v>3</v></c></row></worksheet>'
TABLE = '<table><tableColumns><tableColumn id="1" name="Head"/></tableColumns></table>'
TEXT = (
    "<office:document-content><office:automatic-styles><number:text>no</number:text></office:automatic-styles>"
    '<office:body><office:text><text:h>Head</text:h><text:p>Hello <text:span text:style-name="T1">you</text:span>.'
    "<text:line-break/>More<text:note><text:note-citation>i</text:note-citation><text:note-body><text:p>Note</text:p>"
    "</text:note-body></text:note></text:p></office:text></office:body></office:document-content>"
)
FILES = {
    "a.pptx": {"ppt/presentation.xml": "<p/>", "ppt/slides/slide1.xml": SLIDE, "ppt/media/image1.png": "x"},
    "a.xlsx": {
        "xl/workbook.xml": "<w><sheet name='no'/></w>",
        "xl/sharedStrings.xml": STRINGS,
        "xl/worksheets/sheet1.xml": SHEET,
        "xl/tables/table1.xml": TABLE,
    },
    "a.odt": {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": TEXT,
        "styles.xml": "<s/>",
    },
}
CHANGED = {
    "ppt/slides/slide1.xml": SLIDE.replace("Hello", "HELLO").replace("you", "YOU").replace("more", "MORE"),
    "xl/sharedStrings.xml": STRINGS.replace("Hello you", "HELLO YOU").replace("a <", "A <").replace("bold", "BOLD"),
    "xl/worksheets/sheet1.xml": SHEET.replace("In line", "IN LINE"),
    "content.xml": TEXT.replace(">Head", ">HEAD")
    .replace("Hello", "HELLO")
    .replace("you<", "YOU<")
    .replace(">More", ">MORE")
    .replace(">Note", ">NOTE"),
}


def archive(parts: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize("name", FILES)
def test_nothing_but_text_changes(name: str) -> None:
    with zipfile.ZipFile(io.BytesIO(of_file(name, archive(FILES[name])))) as result:
        assert result.namelist() == list(FILES[name])
        for part, before in FILES[name].items():
            found = result.read(part).decode().replace(' xml:space="preserve"', "")
            expected = CHANGED.get(part, before)
            assert found.replace(" ", "") == expected.replace(" ", "")  # one may move from a run to the next


def test_a_presentation_is_what_other_programs_read() -> None:
    pptx = pytest.importorskip("pptx", reason="needs pip install python-pptx")
    out = io.BytesIO()
    document = pptx.Presentation()
    slide = document.slides.add_slide(document.slide_layouts[0])
    slide.shapes.title.text_frame.paragraphs[0].add_run().text = "Hello you"
    slide.notes_slide.notes_text_frame.text = "A note"
    document.save(out)
    result = pptx.Presentation(io.BytesIO(of_file("a.pptx", out.getvalue())))
    assert result.slides[0].shapes.title.text_frame.text == "HELLO YOU"
    assert result.slides[0].notes_slide.notes_text_frame.text == "A NOTE"


def test_a_sheet_is_what_other_programs_read() -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="needs pip install openpyxl")
    out = io.BytesIO()
    book = openpyxl.Workbook()
    book.active["A1"], book.active["A2"], book.active["A3"] = "Hello  you", 3, "=A2+1"
    book.active["A4"] = "One line\nAnother line"
    book.save(out)
    sheet = openpyxl.load_workbook(io.BytesIO(of_file("a.xlsx", out.getvalue()))).active
    assert [sheet[cell].value for cell in ("A1", "A2", "A3")] == ["HELLO YOU", 3, "=A2+1"]
    assert sheet["A4"].value == "ONE LINE\nANOTHER LINE"


def test_a_sheet_whose_elements_have_a_prefix_is_of_file() -> None:
    """As the Open XML SDK and ClosedXML write them."""
    openpyxl = pytest.importorskip("openpyxl", reason="needs pip install openpyxl")
    out = io.BytesIO()
    book = openpyxl.Workbook()
    book.active.append(["Head", "Hello you", 3])
    book.active.append(["Head", "More text", 4])
    book.active.add_table(openpyxl.worksheet.table.Table(displayName="T", ref="A1:C2"))
    book.active["C1"] = "Three"
    book.save(out)
    parts = {}
    with zipfile.ZipFile(out) as file:
        for name in file.namelist():
            parts[name] = file.read(name).decode()
            if name == "xl/sharedStrings.xml" or "worksheets/sheet" in name or "tables/" in name:
                parts[name] = re.sub(r"<(/?)(?=\w)", r"<\1x:", parts[name]).replace(" xmlns=", " xmlns:x=")
    sheet = openpyxl.load_workbook(io.BytesIO(of_file("a.xlsx", archive(parts)))).active
    found = [[cell.value for cell in row] for row in sheet]
    assert found == [["Head", "Hello you", "Three"], ["Head", "MORE TEXT", 4]]  # the first are headings


def test_line_ends_of_sheets_as_excel_writes_them() -> None:
    heading = "<si><t>Two_x000D_\nlines</t></si>"
    parts = {
        **FILES["a.xlsx"],
        "xl/sharedStrings.xml": f"<sst>{heading}<si><t>One line_x000D_\nanother_x0009_x_y</t></si></sst>",
        "xl/tables/table1.xml": '<table><tableColumn id="1" name="Two_x000d__x000a_lines"/></table>',
    }
    seen: list[str] = []
    written = of_file("a.xlsx", archive(parts), lambda text: seen.append(text) or text.upper())
    with zipfile.ZipFile(io.BytesIO(written)) as result:
        found = result.read("xl/sharedStrings.xml").decode().replace(' xml:space="preserve"', "")
    assert found == f"<sst>{heading}<si><t>ONE LINE_x000D_\nANOTHER_x0009_X_Y</t></si></sst>"
    assert "One line" in seen  # without what stands for a line end


def test_a_control_character_of_a_sheet_is_none_of_its_xml() -> None:
    parts = {**FILES["a.xlsx"], "xl/sharedStrings.xml": "<sst><si><t>One_x0007_two_x0001_</t></si></sst>"}
    with zipfile.ZipFile(io.BytesIO(of_file("a.xlsx", archive(parts)))) as result:
        root = ElementTree.fromstring(result.read("xl/sharedStrings.xml"))
    assert "".join(root.itertext()) == "ONE TWO_x0001_"


def test_tabs_of_a_presentation_stay() -> None:
    pptx = pytest.importorskip("pptx", reason="needs pip install python-pptx")
    out = io.BytesIO()
    document = pptx.Presentation()
    frame = document.slides.add_slide(document.slide_layouts[0]).shapes.title.text_frame
    texts = ["Sales\tin two years\t", "12\t13"]
    frame.text = "\n".join(texts)
    document.save(out)
    result = pptx.Presentation(io.BytesIO(of_file("a.pptx", out.getvalue())))
    assert [one.text for one in result.slides[0].shapes.title.text_frame.paragraphs] == [text.upper() for text in texts]


def test_a_note_is_translated_and_the_sentence_around_it_is_whole() -> None:
    note = (
        '<text:note text:id="1"><text:note-citation>1</text:note-citation><text:note-body><text:p>A <text:span>long'
        "</text:span> note.</text:p></text:note-body></text:note>"
    )
    inside = "<dc:creator>no</dc:creator><text:p>One thing</text:p><text:p>Two</text:p>"
    comment = f"<office:annotation>{inside}</office:annotation>"
    body = f"<text:p>The dog{note} runs {comment}home. {comment}</text:p><text:p>{comment}</text:p>"
    body += f"<text:p>{{n, plural,{comment} one {{a dog{note}}} other {{dogs}}}} run{note}</text:p>"
    content = f"<office:text xmlns:office='o' xmlns:text='t' xmlns:dc='d'>{body}</office:text>"
    seen: list[str] = []
    file = read_file("a.odt", archive({"content.xml": content}))
    texts = [of_document(text, lambda one: seen.append(one) or one.upper()) for text in file.texts]
    assert "The dog runs home." in [" ".join(text.split()) for text in seen]
    assert file.characters > len("The dog runs home.A long note.")
    with zipfile.ZipFile(io.BytesIO(file.write(texts))) as result:
        found = result.read("content.xml").decode()
    expected = re.sub(r"(?<=>)[^<>]*", lambda text: text[0].upper(), content).replace("NO<", "no<")
    for keyword in ("{n, plural,", " one {", "other"):
        expected = expected.replace(keyword.upper(), keyword)
    assert re.sub(r"\s", "", found) == re.sub(r"\s", "", expected)


@pytest.mark.parametrize("seed", range(8))
def test_no_range_of_an_opendocument_text_ends_before_it_begins(seed: int) -> None:
    part = (
        'One <text:bookmark-start text:name="a"/>dog <text:change-start text:change-id="b"/>runs<text:change-end '
        'text:change-id="b"/> so<text:bookmark-end text:name="a"/> far <text:span><text:bookmark-end text:name="c"/>'
        'now <text:reference-mark-start text:name="d"/></text:span>and<text:reference-mark-end text:name="d"/> then'
    )
    content = f"<office:text xmlns:office='o' xmlns:text='t'><text:p>{part}</text:p></office:text>"
    weights = np.random.default_rng(seed)
    written = of_file(
        "a.odt", archive({"content.xml": content}), weigh=lambda *shape: weights.random(shape, np.float32)
    )
    with zipfile.ZipFile(io.BytesIO(written)) as result:
        found = result.read("content.xml").decode()
    ElementTree.fromstring(found)
    assert sorted(re.findall("<[^<>]+>", found)) == sorted(re.findall("<[^<>]+>", content))
    for name in ("bookmark-{} text:name=.a", "change-{} text:change-id"):
        start, end = (re.search(name.format(which), found) for which in ("start", "end"))
        assert start is not None
        assert end is not None
        assert start.start() < end.start()


def test_notes_inside_each_other_are_read_to_a_bound() -> None:
    part = "<office:annotation>a " * 250 + "</office:annotation>" * 250
    content = archive({"content.xml": f"<a xmlns:office='o'>{part}</a>"})
    with zipfile.ZipFile(io.BytesIO(of_file("a.odt", content))) as result:
        assert result.read("content.xml").decode() == f"<a xmlns:office='o'>{part.replace('a ', 'A ')}</a>"


def test_an_encrypted_text_is_called_so() -> None:
    encrypted = "<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>"
    content = archive({"content.xml": "no XML", "META-INF/manifest.xml": encrypted})
    with pytest.raises(DataError, match=r"file: expected a \.odt file, found a damaged or encrypted archive"):
        read_file("a.odt", content)


def test_an_archive_without_its_main_part_is_refused() -> None:
    with pytest.raises(DataError, match=r"file: expected a \.odt file with one content\.xml, found none"):
        read_file("a.odt", archive({"a": "b"}))


@pytest.mark.parametrize(
    ("suffix", "part", "prefix", "namespace"),
    [
        ("docx", "word/document.xml", "w", "http://schemas.openxmlformats.org/wordprocessingml/2006/main"),
        ("docx", "word/document.xml", "w", "http://purl.oclc.org/ooxml/wordprocessingml/main"),
        ("pptx", "ppt/slides/slide1.xml", "a", "http://schemas.openxmlformats.org/drawingml/2006/main"),
        ("odt", "content.xml", "text", "urn:oasis:names:tc:opendocument:xmlns:text:1.0"),
    ],
)
def test_other_prefixes_are_refused(suffix: str, part: str, prefix: str, namespace: str) -> None:
    """As Python's ElementTree writes them, without a request; the texts wouldn't be found."""

    def content(written: str) -> bytes:
        name = f"{written}:" * bool(written)
        elements = f"<{name}p><{name}r><{name}t>Hello you</{name}t></{name}r></{name}p>"
        declared = f"xmlns:{written}" if written else "xmlns"
        return archive({"ppt/presentation.xml": "", part: f'<{name}b {declared}="{namespace}">{elements}</{name}b>'})

    assert b"HELLO" in of_file(f"a.{suffix}", content(prefix))
    for other in ("ns0", ""):
        with pytest.raises(
            DataError, match=f"file: {part}: expected elements such as {prefix}:p, found the prefix '{other}'"
        ):
            read_file(f"a.{suffix}", content(other))


def test_the_main_part_of_word_may_be_numbered() -> None:
    part = "<w:p><w:r><w:t>Hello you</w:t></w:r></w:p>"
    with zipfile.ZipFile(io.BytesIO(of_file("a.docx", archive({"word/document2.xml": part})))) as result:
        assert ">HELLO YOU<" in result.read("word/document2.xml").decode()
    with pytest.raises(DataError, match=r"expected a \.docx file with one word/document\.xml, found none or several"):
        read_file("a.docx", archive({"word/document.xml": part, "word/document2.xml": part}))
