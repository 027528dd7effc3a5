"""Files of several formats against the libraries that others read them with."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import docx
import polib
import pytest
from lxml import etree, html

from document_translation import of_file
from headwise.documents.blocks import Block
from headwise.documents.formats import format_of, read_file
from headwise.documents.readers.subtitles import wrapped
from headwise.errors import DataError

PO = r"""# A translator
msgid ""
msgstr ""
"Project-Id-Version: x\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. A comment
#: a.c:1
#, c-format
msgctxt "menu"
msgid "Open \"%s\"\t\\ file"
msgstr ""

#| msgid "old"
msgid "Done"
msgstr "Fertig"

msgid ""
"Two\n"
"lines"
msgstr ""

msgid "%d dog"
msgid_plural "%d dogs"
msgstr[0] ""
msgstr[1] ""

#~ msgid "gone"
#~ msgstr ""
"""
SRT = "1\r\n00:00:01,000 --> 00:00:02,500\r\nTwo dogs are <i>playing</i>\r\nin the snow & rain.\r\n\r\n"
SRT += "2\r\n00:00:03,000 --> 00:00:04,000\r\n- Yes.\r\n- No, {\\an8}never.\r\n\r\n"


def texts_of(name: str, content: str) -> list[str]:
    return [text.text for text in read_file(name, content.encode()).texts]


def written(name: str, content: str, translations: list[str]) -> str:
    return read_file(name, content.encode()).write(translations).decode()


def test_a_catalogue_is_filled() -> None:
    assert texts_of("a.po", PO) == ['Open "%s"\t\\ file', "Two\nlines", "%d dog", "%d dogs"]
    translations = ['Öffne "%s"\t\\ Datei', "Zwei\nZeilen", "%d Hund", "%d Hunde"]
    filled = written("a.po", PO, translations)
    known, before = polib.pofile(filled), polib.pofile(PO)
    assert known.metadata == before.metadata
    assert [(e.msgid, e.msgctxt, e.comment, e.occurrences, e.flags) for e in known] == [
        (e.msgid, e.msgctxt, e.comment, e.occurrences, e.flags) for e in before
    ]
    values = [e.msgstr or e.msgstr_plural for e in known if not e.obsolete]
    assert values == [translations[0], "Fertig", translations[1], {0: "%d Hund", 1: "%d Hunde"}]
    assert set(PO.splitlines()) - set(filled.splitlines()) == {'msgstr[0] ""', 'msgstr[1] ""'}
    assert texts_of("a.po", filled) == []
    assert written("a.po", filled, []) == filled


def test_escaped_bytes_of_a_catalogue_are_characters() -> None:  # as `msgcat --escape` writes them
    assert texts_of("a.po", r'msgid "caf\303\251 \xe2\x82\254\065\n\101"' + '\nmsgstr ""\n') == ["café €5\nA"]
    assert texts_of("a.po", r'msgid "caf\351s"' + '\nmsgstr ""\n') == ["cafés"]  # of a file in Latin-1


def test_strings_of_a_catalogue_that_follow_each_other_are_one() -> None:
    assert texts_of("a.po", 'msgid "One " "mes"\n"sage"\nmsgstr "" ""\n') == ["One message"]


@pytest.mark.parametrize("text", ["a", '"\\\n\t', "a\nb\n", "\n", "é\\n", 'x"\n\\', "\\n\n\\\\n"])
def test_a_message_is_written_as_polib_reads_it(text: str) -> None:
    source = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "a"\nmsgstr ""\n'
    filled = written("a.po", source, [text])
    assert polib.pofile(filled)[0].msgstr == text
    entry = polib.POEntry(msgid=text, msgstr="")
    if text.strip():
        assert texts_of("a.po", str(entry)) == [text]


@pytest.mark.parametrize("charset", ["ASCII", "ISO-8859-1", "CHARSET", "utf-8", "UTF8"])
def test_a_catalogue_says_in_which_encoding_it_is(charset: str, tmp_path: Path) -> None:
    header = f'msgid ""\nmsgstr ""\n"MIME-Version: 1.0\\n"\n"Content-Type: text/plain; charset={charset}\\n"\n'
    file = read_file("a.po", f'{header}\nmsgid "Content-Type: charset=a"\nmsgstr ""\n'.encode())
    assert file.write(["dog"]).decode().startswith(header)
    (tmp_path / "a.po").write_bytes(file.write(["Größe"]))
    (entry,) = polib.pofile(str(tmp_path / "a.po"))
    assert (entry.msgid, entry.msgstr) == ("Content-Type: charset=a", "Größe")  # in the header's encoding
    one_line = f"# Content-Type: charset=a\n{header.replace(chr(34) + chr(10) + chr(34), '')}"
    file = read_file("a.po", f'{one_line}\nmsgid "a"\nmsgstr ""\n'.encode())
    (tmp_path / "b.po").write_bytes(file.write(["Größe"]))
    assert polib.pofile(str(tmp_path / "b.po"))[0].msgstr == "Größe"
    known = charset.lower().startswith("utf")
    assert (header if known else header.replace(charset, "UTF-8")) in (tmp_path / "a.po").read_text("utf-8")


@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        ("", "de", "de"),
        ("en", "de", "de"),
        ("en_US", "pt-BR", "pt_BR"),
        ("de_AT", "de", "de_AT"),
        ("fr", "", "fr"),
    ],
)
def test_a_catalogue_says_in_which_language_it_is(before: str, target: str, after: str) -> None:
    header = f'msgid ""\nmsgstr ""\n"Language-Team: x\\n"\n"Language: {before}\\n"\n"X-Source-Language: en\\n"\n\n'
    file = read_file("a.pot", f'{header}msgid "a"\nmsgstr ""\n'.encode(), target, "en")
    filled = polib.pofile(file.write(["b"]).decode())
    assert filled.metadata == {"Language-Team": "x", "Language": after, "X-Source-Language": "en"}


def test_a_header_in_one_line_names_language_and_encoding() -> None:
    header = '"Language: \\nContent-Type: text/plain; charset=ASCII\\n"'
    source = f'msgid ""\nmsgstr ""\n{header}\n\nmsgid "a"\nmsgstr ""\n'.encode()
    filled = polib.pofile(read_file("a.po", source, "de", "en").write(["ä"]).decode())
    assert filled.metadata == {"Language": "de", "Content-Type": "text/plain; charset=UTF-8"}


def test_a_catalogue_in_another_language_is_refused() -> None:
    source = b'msgid ""\nmsgstr ""\n"Language: fr\\n"\n\nmsgid "a"\nmsgstr ""\n'
    with pytest.raises(DataError, match="file: expected Language de, found 'fr'"):
        read_file("a.po", source, "de", "en")


@pytest.mark.parametrize("charset", ["iso-8859-1", "US-ASCII", "utf-8"])
def test_a_document_is_in_the_encoding_that_it_names(charset: str) -> None:
    pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")
    page = f'<html><meta http-equiv="Content-Type" content="text/html; charset={charset}"><p>size</p></html>'
    data = f"<?xml version='1.0' encoding='{charset}'?><a><b>size</b></a>"
    unit = f"<?xml version='1.0' encoding='{charset}'?><xliff><trans-unit><source>size</source></trans-unit></xliff>"
    for name, source, parse in (
        ("a.html", page, html.fromstring),
        ("a.xml", data, etree.fromstring),
        ("a.xlf", unit, etree.fromstring),
    ):
        assert of_file(name, source, str).count(b"size") >= 1
        result = of_file(name, source, lambda _: "Größe, Ω")
        assert "Größe, Ω" in "".join(parse(result).itertext())
        assert ("Ω".encode() in result) is (charset == "utf-8")


@pytest.mark.parametrize("charset", ["iso-8859-1", "windows-1252", "iso-8859-15", "KOI8-R", "Shift_JIS", "iso-2022-jp"])
def test_a_document_stays_in_its_encoding(charset: str) -> None:
    pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")
    letters = {"KOI8-R": "Привет", "Shift_JIS": "こんにちは", "iso-2022-jp": "こんにちは"}.get(charset, "Größe é")
    page = f'<html><head><meta charset="{charset}"></head><!-- {letters} --><p>size</p></html>'
    data = f"<?xml version='1.0' encoding='{charset}'?><a><!-- {letters} --><b>size</b></a>"
    unit = (
        f"<?xml version='1.0' encoding='{charset}'?><xliff><trans-unit><note>{letters}</note>"
        f"<source>size</source></trans-unit></xliff>"
    )
    for name, source, parse in (
        ("a.html", page, html.fromstring),
        ("a.xml", data, etree.fromstring),
        ("a.xlf", unit, etree.fromstring),
    ):
        content = source.encode(charset)
        assert letters.encode(charset) in of_file(name, content, str)
        result = of_file(name, content, lambda _: f"{letters} ĳ Ω")
        assert f"{letters} ĳ Ω" in "".join(parse(result).itertext())
        assert letters.encode(charset) in result  # what isn't translated
        assert (found := format_of(name))
        assert found.content_type(result).endswith(f"charset={charset.lower()}")


def test_a_page_has_the_bytes_that_browsers_read() -> None:
    pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")
    page = '<meta charset="iso-8859-1"><script>say("“{0}”")</script><style>p{{content:"€"}}</style><p>“{0}” é</p>'
    content = page.format("a").encode("windows-1252")
    assert of_file("a.html", content, str) == content
    result = of_file("a.html", content, str.upper)
    assert html.fromstring(result.decode("windows-1252")).xpath("//p/text()") == ["“A” É"]
    assert b'say("\x93a\x94")' in result


@pytest.mark.parametrize(
    ("charset", "read_as", "text"),
    [("Shift_JIS", "cp932", "① 髙い"), ("gb2312", "gbk", "镕"), ("euc-kr", "cp949", "뷁")],
)
def test_a_page_has_the_characters_that_browsers_know_in_its_encoding(charset: str, read_as: str, text: str) -> None:
    pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")
    content = f'<meta charset="{charset}"><p>words {text}</p>'.encode(read_as)
    assert of_file("a.html", content, str) == content
    result = of_file("a.html", content, str.upper).decode(read_as)
    assert html.fromstring(result).xpath("//p/text()") == [f"WORDS {text}"]


@pytest.mark.parametrize("charset", ["utf-7", "zlib", "windows-1252"])
def test_an_encoding_that_a_document_is_not_in_is_refused(charset: str) -> None:
    content = f'<html><meta charset="{charset}"><p>'.encode() + b"\x81</p></html>"
    with pytest.raises(DataError, match=r"file: expected text in (UTF-8|windows-1252, which it names), found"):
        read_file("a.html", content)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.po", b"msgid 'a'\n", "line 1: expected a keyword of gettext and a string"),
        ("a.po", b'"a"\n', "line 1: expected a keyword of gettext, found a string"),
        ("a.po", b'msgid "a"\nmsgstr ""\nmsgstr ""\n', "line 3: expected one msgstr in a message"),
        ("a.srt", b"x\n", "line 1: expected the number of a cue"),
        ("a.srt", b"1\nx\n", "line 2: expected times such as"),
        ("a.docx", b"PK\3\4", "file: expected a .docx file, found a damaged"),
        ("a.docx", b"", "file: expected a .docx file, found a damaged"),
        ("a.json", b"{", "file: expected JSON"),
        ("a.json", b"[" * 100 + b"]" * 100, "file: expected JSON"),
        ("a.strings", b"a b", 'file: expected strings such as "name" = "text";'),
        ("a.ftl", b"a = \xff", "file: expected text in UTF-8"),
        *[(f"a.{kind}", b"\r" * 500_001, "file: expected at most 500,000 lines") for kind in ("md", "po", "srt")],
        (
            "a.html",
            b"\xff",
            "file: expected text in UTF-8, found another byte at 0; iconv converts other encodings",
        ),
        ("a.pdf", b"", r"expected a name that ends with \.txt, \.html, .*, found '\.pdf'"),
    ],
)
def test_a_damaged_file_is_refused(name: str, content: bytes, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        read_file(name, content)


def archive(parts: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (archive({"word/document.xml": b" " * (9 * 2**20)}), "expected text of at most 8,388,608 bytes"),
        (archive({f"x{n}": b"" for n in range(2_001)}), "expected at most 2,000 parts"),
        (archive({"a.xml": b""}), "expected a .docx file with one word/document.xml"),
        (archive({"word/document.xml": b"\xff"}), "expected text in UTF-8"),
    ],
)
def test_a_hostile_archive_is_refused(content: bytes, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        read_file("a.docx", content)


def test_an_archive_that_is_too_large_is_not_called_damaged() -> None:
    with pytest.raises(DataError, match="file: expected at most 67,108,864 bytes, found more"):
        read_file("a.pptx", archive({"ppt/presentation.xml": b"<p/>"}) + bytes(2**26))


def test_an_archive_whose_header_lies_is_refused() -> None:
    content = bytearray(archive({"word/document.xml": b"<a/>" + b" " * 2**20}))
    place = content.rindex(b"PK\1\2") + 24  # the size in the central directory
    content[place : place + 4] = (10).to_bytes(4, "little")
    with pytest.raises(DataError):
        read_file("a.docx", bytes(content))


def test_damage_of_any_method_of_compression_is_told() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("word/document.xml", "<w:document>Hello</w:document>" * 20)
    content = bytearray(out.getvalue())
    content[70] ^= 0xFF
    with pytest.raises(DataError, match=r"expected a \.docx file, found a damaged or encrypted archive"):
        read_file("a.docx", bytes(content))


def test_subtitles_keep_times_lines_and_ends() -> None:
    texts = ["Two dogs are <i>playing</i> in the snow & rain.", "Yes.", "No, {\\an8}never."]
    assert ["".join(map(source, text.blocks)) for text in read_file("a.srt", SRT.encode()).texts] == texts
    assert written("a.srt", SRT, texts) == SRT
    result = written("a.srt", SRT, ["Zwei Hunde <i class=x>spielen gern</i> draußen", "Ja.", "Nein."])
    assert "\r\n- Ja.\r\n- Nein." in result
    assert result.splitlines()[2:4] == ["Zwei Hunde <i class=x>spielen", "gern</i> draußen"]
    assert result.count("\r\n") == SRT.count("\r\n") == result.count("\n")
    empty_cue = "\ufeff1\n00:00:01,000 --> 00:00:02,000\n\n2\n0:00:01,0 --> 0:00:02,0\na"
    assert texts_of("a.srt", empty_cue) == ["a"]


def test_a_cue_ends_where_the_next_one_begins() -> None:  # some programs write no empty line between them
    times = "00:00:01,000 --> 00:00:02,000"
    source = f"1\n{times}\nIn\n1984\n2\n{times}\n3\n{times}\nthe end\n"
    assert texts_of("a.srt", source) == ["In 1984", "the end"]
    translation = source.replace("In", "Im Jahr").replace("the end", "das Ende")
    for end in ("\n", "\r\n", "\r"):
        of_end = written("a.srt", source.replace("\n", end), ["Im Jahr 1984", "das Ende"])
        assert of_end == translation.replace("\n", end)


def test_a_cue_stays_whole_where_a_translation_is_empty() -> None:
    source = "1\n00:00:01,000 --> 00:00:02,000\nUh.\n- Yes?\n"
    result = written("a.srt", source, ["", "Ja?"])
    assert texts_of("a.srt", result) == ["Ja?"]


def test_speakers_in_tags_are_apart() -> None:
    cue = "1\n00:00:01,000 --> 00:00:02,500\n{}<i>- {}</i>\n<i>-{} <b>{}</b></i>\n"
    source = cue.format("{\\an8}", "Where is the dog that you saw?", "No", "idea")
    pytest.importorskip("sentencex", reason="needs pip install 'headwise[documents]'")
    assert of_file("a.srt", source).decode() == cue.format("{\\an8}", "WHERE IS THE DOG THAT YOU SAW?", "NO", "IDEA")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_subtitles_stay_in_their_encoding(encoding: str) -> None:
    content = SRT.encode(encoding)
    assert of_file("a.srt", content, str) == content


def test_lines_of_subtitles_are_balanced() -> None:
    assert wrapped("one two three four", 2) == ["one two", "three four"]
    assert wrapped("one", 3) == ["one"]
    assert wrapped("a <font color='x y z'>b</font> c", 2)[0] in ("a", "a <font color='x y z'>b</font>")


def source(part: str | Block) -> str:
    """The source of a part whose text has no references."""
    return part if isinstance(part, str) else "".join(getattr(one, "raw", None) or one.text for one in part.items)


def test_a_word_file_has_the_parts_that_it_had() -> None:
    document = docx.Document()
    document.add_paragraph("One.")
    out = io.BytesIO()
    document.save(out)
    file = read_file("a.docx", out.getvalue())
    assert file.characters == 4
    same = file.write(["".join(map(source, text.blocks)) for text in file.texts])
    with zipfile.ZipFile(out) as before, zipfile.ZipFile(io.BytesIO(same)) as after:
        assert after.namelist() == before.namelist()
        assert all(after.read(name) == before.read(name) for name in before.namelist() if name != "word/document.xml")
