"""Documents that are made to take memory or time, by what they do; run as a program, it reads all of them."""

from __future__ import annotations

import io
import json
import re
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

_MB = 2**20
_WORD = '<w:document xmlns:w="w"><w:body>{}</w:body></w:document>'


def archive(parts: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return out.getvalue()


def word(body: str, before: str = "") -> bytes:
    return archive({"word/document.xml": before + _WORD.format(body)})


def _cue(text: str) -> bytes:
    return f"1\n00:00:01,000 --> 00:00:02,000\n{text}".encode()


def _sheet(strings: str, table: str = "") -> bytes:
    return archive({"xl/workbook.xml": "", "xl/sharedStrings.xml": strings, "xl/tables/table1.xml": table})


def _unit(source: str) -> bytes:
    return f"<xliff><trans-unit><source>{source}</source></trans-unit></xliff>".encode()


# How sentences begin.
_ENTITIES = "xml: expected a document without entity declarations"
_DEEP = "xml: expected elements nested at most 256 deep"
_LONG = "file: expected text of at most 8,388,608 bytes"
_TAGS = "markup: expected at most 500,000 tags and texts"
_DEFAULT = f'<!DOCTYPE a [<!ATTLIST a b CDATA "{"x" * 2 * 10**6}">]>'
_MANY = " ".join(f'a{number}=""' for number in range(5_000))
_ELEMENTS = "<a>" + "<a>a</a>" * 84_000 + "</a>"
# What is refused, by the file's name: the file, and how the sentence begins.
REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "bomb.docx": (lambda: word(" " * 9 * _MB), "file: word/document.xml: expected text of at most"),
    "bomb.pptx": (
        lambda: archive({"ppt/presentation.xml": "", "ppt/slides/slide1.xml": " " * 9 * _MB}),
        "file: ppt/slides/slide1.xml: expected text of at most",
    ),
    "entity.odt": (lambda: archive({"content.xml": '<!DOCTYPE a [<!ENTITY b "bbb">]><a>&b;</a>'}), _ENTITIES),
    "deep.xlsx": (lambda: archive({"xl/workbook.xml": "", "xl/sharedStrings.xml": "<si>" * 9_000}), _DEEP),
    "parts.odt": (lambda: archive({f"x{n}": "" for n in range(2_001)}), "file: expected at most 2,000 parts"),
    "parts.docx": (
        lambda: archive({f"x{n}": "" for n in range(2_001)}),
        "file: expected at most 2,000 parts",
    ),
    "unpacked.docx": (
        lambda: archive({f"{n}.bin": " " * 16 * _MB for n in range(5)}),
        "file: expected at most 2,000 parts of 67,108,864 bytes",
    ),
    "default.docx": (lambda: word("<a/>" * 250, _DEFAULT), _ENTITIES),
    "default.xml": (lambda: _DEFAULT.encode() + b"<a/>", _ENTITIES),
    "entity.xml": (lambda: b'<!DOCTYPE a [<!ENTITY b "bbb"><!ENTITY c "&b;&b;">]><a>&c;</a>', _ENTITIES),
    "parameter.xml": (lambda: b'<!DOCTYPE a [<!ENTITY % b SYSTEM "file:///etc/passwd">%b;]><a/>', _ENTITIES),
    "entity.xlf": (lambda: b'<!DOCTYPE a [<!ENTITY b "bbb">]><xliff>&b;</xliff>', _ENTITIES),
    "external.tmx": (
        lambda: b'<!DOCTYPE tmx [<!ENTITY b SYSTEM "file:///etc/passwd">]><tmx>&b;</tmx>',
        _ENTITIES,
    ),
    "deep.tmx": (lambda: b"<tmx>" + b"<tu>" * 9_000, _DEEP),
    "bomb.xlf": (lambda: b"\xff\xfe" + b" " * 9 * _MB, _LONG),
    "other.tmx": (lambda: b"<a/>", "file: expected an element xliff or tmx, found a"),
    "long.md": (lambda: b"a" * (_MB + 1), "file: expected Markdown of at most 1,048,576 bytes"),
    "deep.json": (lambda: b"[" * 9_000 + b"]" * 9_000, "file: expected JSON"),
    "other.strings": (lambda: b'"' + b'\\"' * 2 * 10**6, "file: expected strings such as"),
    "long.properties": (lambda: b"a" * (8 * _MB + 1), _LONG),
    "values.properties": (lambda: b"a=b\n" * 100_001, "file: expected at most 100,000 texts, found more"),
    "deep.docx": (lambda: word("<a>" * 9_000 + "</a>" * 9_000), _DEEP),
    "deep.xml": (lambda: b"<a>" * 9_000, _DEEP),
    "deep.html": (lambda: b"<b>" * 9_000, "html: expected elements nested at most 256 deep"),
    "attributes.xml": (lambda: b"<a %s/>" % _MANY.encode(), "markup: expected at most 1,000 attributes"),
    "attributes.html": (lambda: b"<a %s>" % _MANY.encode(), "markup: expected at most 1,000 attributes"),
    "attributes.docx": (lambda: word(f"<a {_MANY}/>"), "markup: expected at most 1,000 attributes"),
    "tag.xml": (lambda: b"<a b='" + b"x" * 2 * _MB, "xml: expected tags of at most 1,048,576 bytes"),
    "elements.docx": (
        lambda: archive({f"word/{name}.xml": _ELEMENTS for name in ("document", "header1")}),
        _TAGS,
    ),
    "elements.html": (lambda: b"<br>" * 500_001, _TAGS),
    "comments.html": (lambda: b"<!---->" * 500_001, _TAGS),
    "paragraph.html": (lambda: "é".encode() * 2 * _MB, "text: expected at most 1,000,000 characters"),
    "paragraph.docx": (
        lambda: word("<w:p><w:r>" + f"<w:t>{'a ' * 300_000}</w:t>" * 2 + "</w:r></w:p>"),
        "text: expected at most 1,000,000 characters",
    ),
    "lines.srt": (lambda: b"\n" * 8 * _MB, "file: expected at most 500,000 lines"),
    "speakers.srt": (lambda: _cue("-\n" * 400_000), "file: expected at most 100,000 texts"),
    "lines.po": (lambda: b"#\n" * 4 * _MB, "file: expected at most 500,000 lines"),
    "messages.po": (lambda: b'msgid "a"\nmsgstr ""\n' * 100_001, "file: expected at most 100,000 texts"),
    "long.po": (lambda: b"x" * (8 * _MB + 1), _LONG),
}
# What is read, in time and memory linear in its length: the file and the characters that count.
READ: dict[str, tuple[Callable[[], bytes], int]] = {
    "space.docx": (lambda: word(f"<w:p><w:r><w:t>{'Hello you. ' * 6_000}</w:t ></w:r></w:p>"), 66_000),
    "comment.docx": (
        lambda: word(f"<w:p><w:r><w:t>{'Hello you. ' * 6_000}<!-- --></w:t></w:r></w:p>"),
        66_000,
    ),
    "section.docx": (
        lambda: word(f"<w:p><w:r><w:t>a<![CDATA[{'Hello you. ' * 6_000}]]></w:t></w:r></w:p>"),
        66_001,
    ),
    "codes.xlf": (
        lambda: _unit("a" + "<x/>" * 50_000 + '<bpt id="1"/><ept id="1"/>' * 20_000),
        1 + 4 * 50_000 + 26 * 20_000,
    ),
    "nested.xlf": (
        lambda: _unit("</source>" + "<trans-unit>" * 250 + "</trans-unit>" * 250 + "<source>a"),
        1,
    ),
    "comments.strings": (lambda: b"/*" * 10**6, 0),
    "words.strings": (lambda: b"/**/" + b"a" * 10**6 + b" " * 10**6, 0),
    "continued.properties": (lambda: b"a=" + b"b\\\n" * 3 * 10**5, 3 * 10**5),
    "dots.properties": (lambda: b"a=" + b"www." * 2 * 10**5, 8 * 10**5),
    "spaces.ftl": (lambda: b"a = b" + b" " * 10**6 + b"c", 10**6 + 2),
    "lines.ftl": (lambda: b"a = b\n" + b" \n" * 10**6 + b" c", 2),
    "braces.ftl": (lambda: b"a = b" + b"{" * 10**6, 0),
    "closed.ftl": (lambda: b"a = b " + b"{" * 50_000 + b"}" * 50_000, 0),
    "selectors.ftl": (lambda: b"a = b " + b"{ $n ->\n[a] b" * 50_000, 8),
    "quotes.ftl": (lambda: b"a = b" + b'{"' * 50_000, 0),
    "quotes.md": (lambda: b"> " * 20_000 + b"a", 0),
    "brackets.md": (lambda: b"[" * 40_000 + b"]" * 9_999 + b"a", 50_000),
    "ticks.md": (lambda: b"".join(b"`" * n + b"a" for n in range(1, 300)), 45_149),
    "stars.md": (lambda: b"*a **b " * 7_000, 48_999),
    "lists.md": (lambda: b"".join(b" " * n + b"- a\n" for n in range(0, 400)), 72),
    "strings.xlsx": (lambda: _sheet("<sst>" + "<si>" * 200 + " " * 10**6 + "</si>" * 200 + "</sst>"), 0),
    "columns.xlsx": (lambda: _sheet("<sst/>", "<tableColumn " * 200_000), 0),
    "cue.srt": (lambda: _cue("some words <i>that</i> are here in a line\n" * 600), 42 * 600 - 1),
    "words.srt": (lambda: _cue("a b\n" * 200_000), 799_999),
    "spaces.srt": (lambda: _cue("a\n" + "\t" * 10**6 + "b\n"), 3),
    "references.html": (lambda: b"&amp" * 200_000, 800_000),
    "brackets.html": (lambda: b"<" * 900_000, 900_000),
    "quotes.po": (lambda: b'msgid "' + b'\\"' * 400_000 + b'"\nmsgstr ""\n', 400_000),
    "strings.po": (lambda: b"msgid " + b'"a"' * 200_000 + b'\nmsgstr ""\n', 200_000),
}


def _most_memory() -> float:
    """Return the most MB that this process had; `ru_maxrss` would count those of the process that started it, too."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


def main() -> None:
    """Read and write every file; print what became of each, its seconds of CPU time, and the most memory of all."""
    from headwise.documents.formats import read_file
    from headwise.errors import DataError

    outcomes: dict[str, list[object]] = {}
    for name, (make, _) in (REFUSED | READ).items():
        content = make()
        began = time.process_time()
        try:
            file = read_file(name, content)
            file.write(["a <i>b</i> c " * 1_000] * len(file.texts))
            outcome: object = file.characters
        except DataError as error:
            outcome = str(error)
        outcomes[name] = [outcome, time.process_time() - began]
        del content
    json.dump({"files": outcomes, "memory": _most_memory()}, sys.stdout)


if __name__ == "__main__":
    main()
