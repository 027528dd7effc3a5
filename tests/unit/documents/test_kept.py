"""Of a file of any format, nothing but its texts changes."""

from __future__ import annotations

import io
import zipfile
from xml.etree.ElementTree import canonicalize

import pytest

pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")

from hypothesis import given, settings
from hypothesis import strategies as st

from document_translation import of_file
from headwise.documents.formats import FORMATS

_TEXT = st.lists(st.sampled_from(["one", "two.", "dogs", "&amp;", "é,"]), min_size=1, max_size=5).map(
    lambda words: f"a {' '.join(words)}"
)
_BLANK = st.sampled_from(["", "\n", " \r\n", "\n\n\t"])
# What stands before and after a text, and before a translation in a catalogue.
_AROUND = {
    ".txt": [("1. ", "\n"), ("", "\r\n\r\n"), ("- ", "\n  12\n")],
    ".html": [
        ("<p  CLASS = 'a'>", "</p><!-- <b> -->"),
        ("<LI><img src=x/>", "<script>a < b</script>"),
        ("<td>&nbsp;", "<br/>"),
        ('<p translate="no">no</p><h1>', "</h1>"),
    ],
    ".xml": [
        ("<p  a = 'b'>", "</p><!-- c -->"),
        ("<q/><p>", "</p>\n<?d e?>"),
        ("<p><![CDATA[<f>]]></p><p>", "</p><g></g>"),
    ],
    ".md": [
        ("\n\n##  ", " ##\n\n"),
        ("\n\n> * ", "\n\n\n```\n@ [\n```\n\n"),
        ("\n\n|`x`|\n|:--|\n| ", "|\n\n"),
        ("\n\n[a]: b 'c'\n\n<p>d</p>\n\n", "  \n`e`\n\n"),
    ],
    ".srt": [
        ("1\r\n00:00:01,000 --> 00:00:02,000 X1:5\r\n", "\r\n\r\n"),
        ("7\n0:00:01.0 --> 0:00:02.0\n", "\n\n"),
    ],
    ".po": [
        ('# a\n#: b.c:1\n#, fuzzy\nmsgid "@"\nmsgstr "', '"\n\n#~ msgid "c"\n\n'),
        ('msgid "d"\r\nmsgstr "e"\r\n\r\nmsgctxt "f"\r\nmsgid "@"\r\nmsgstr "', '"\r\n\n'),
    ],
    ".json": [('\n{"a" : "', '"}'), ('\n[1e5, {"b": [null , "', '"]}]')],
    ".properties": [("#  a\n b\\\n  c : ", "\n"), ("! a = b\r\n\r\nd=", "\r\n")],
    ".strings": [('/* "a" = "b"; */\n"c d"  = "', '" ;'), ('// "\ne="', '";\n')],
    ".ftl": [
        ("# a = b\n\n-c =  ", "\n"),
        ("d-e =\n  { $n ->\n   [f] ", "\n  *[other]  { $n }\n}\n    .g = { $h }\n"),
    ],
    ".xlf": [
        ("<segment><source>@</source>\n<target>", "</target></segment>"),
        ("<segment/><!-- c --><segment  id='1'><source>@</source><target>", "</target></segment>"),
    ],
    ".tmx": [
        ("<tu><tuv xml:lang='en'><seg>@</seg></tuv><tuv xml:lang='de'><seg>", "</seg></tuv></tu>"),
        (
            "<tu><note/><tuv xml:lang='de'><seg>d</seg></tuv><tuv xml:lang='en'><seg>e</seg></tuv></tu><tu  a='b'>"
            "<tuv xml:lang='EN-gb'><seg>@</seg></tuv><tuv xml:lang='de-AT'><seg>",
            "</seg></tuv></tu>",
        ),
    ],
    ".docx": [
        ("<w:p><w:pPr/><w:r><w:rPr><w:b/></w:rPr><w:t>", "</w:t></w:r></w:p>"),
        ("<w:tbl><w:p w:x='y'><w:bookmarkStart/><w:r><w:t>", "</w:t></w:r></w:p></w:tbl><w:p/>"),
        ("<w:p><w:r><w:t>12</w:t></w:r></w:p><w:p><w:r><w:t xml:space='preserve'>", "</w:t></w:r></w:p>"),
    ],
}
_WHOLE = {
    ".xml": "<?xml version='1.0'?>\n<r>{}</r>\n",
    ".docx": "<w:document xmlns:w='w'>{}</w:document>",
    ".json": "[0{}]\r\n",
    ".xlf": "<xliff version='2.1' srcLang='en' trgLang='de'>{}</xliff>",
    ".tmx": "<?xml version='1.0'?>\n<!DOCTYPE tmx SYSTEM 'tmx14.dtd'>\n<tmx><header srclang='en'/>{}</tmx>\n",
}
_PLAIN = (".txt", ".srt", ".ftl")  # without references
_BESIDE = (".po", ".xlf", ".tmx")  # the translation stands beside the text
_OTHER_PARTS = {"[Content_Types].xml": b"<a b = 'c'/>", "word/media/image1.png": bytes(range(256))}


@st.composite
def files(draw: st.DrawFn, suffix: str) -> tuple[str, str]:
    """A file, and what it is with its texts in capitals."""
    source = result = draw(_BLANK)
    for before, after in draw(st.lists(st.sampled_from(_AROUND[suffix]), max_size=5)):
        text, blank = draw(_TEXT), draw(_BLANK)
        before = f",{before}" if suffix == ".json" else before
        if suffix in _BESIDE:
            before = before.replace("@", text)
            source += before + after + blank
        else:
            source += before + text + after + blank
        result += before + _capitals(text, suffix) + after + blank
    if suffix == ".ftl":  # a tab would begin what isn't Fluent
        source, result = source.replace("\t", ""), result.replace("\t", "")
    whole = _WHOLE.get(suffix, "{}")
    return whole.format(source.lstrip() if suffix == ".xml" else source), whole.format(
        result.lstrip() if suffix == ".xml" else result
    )


def _capitals(text: str, suffix: str) -> str:
    return text.upper() if suffix in _PLAIN else text.upper().replace("&AMP;", "&amp;")


@pytest.mark.parametrize(
    "suffix",
    [suffix for suffix in FORMATS if suffix not in (".docx", ".pptx", ".xlsx", ".odt", ".htm", ".xliff", ".pot")],
)
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_no_text_is_kept_byte_for_byte(suffix: str, data: st.DataObject) -> None:
    source, result = data.draw(files(suffix))
    assert of_file(f"a{suffix}", source.encode(), target="de").decode() == result


@given(files(".docx"))
@settings(max_examples=60, deadline=None)
def test_what_is_no_text_of_a_word_file_is_kept(pair: tuple[str, str]) -> None:
    source, result = pair
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in _OTHER_PARTS.items() | {("word/document.xml", source.encode())}:
            archive.writestr(name, content)
    with (
        zipfile.ZipFile(out) as before,
        zipfile.ZipFile(io.BytesIO(of_file("a.docx", out.getvalue(), target="de"))) as after,
    ):
        assert after.namelist() == before.namelist()
        assert {name: after.read(name) for name in _OTHER_PARTS} == _OTHER_PARTS
        space = "{http://www.w3.org/XML/1998/namespace}space"  # is set where text may begin with a space
        assert canonicalize(after.read("word/document.xml"), exclude_attrs=[space]) == canonicalize(
            result, exclude_attrs=[space]
        )
