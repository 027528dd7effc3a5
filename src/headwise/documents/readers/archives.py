"""Archives of XML: files of Word, PowerPoint, Excel and LibreOffice (.docx, .pptx, .xlsx, .odt).

DrawingML's paragraphs and SpreadsheetML's strings are read as Word's (ISO/IEC 29500-1, sections 17, 18 and 21): they
have the same runs under other names, which become Word's and, when the file is written, their own again. OpenDocument's
paragraphs (https://docs.oasis-open.org/office/OpenDocument/v1.3/) are XML with elements inside the text.
"""

from __future__ import annotations

import html
import io
import re
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from headwise import bounds
from headwise.documents.blocks import TOKENS, Block, TextRun, every_block, parse_tokens, source_of
from headwise.documents.preparation import ParsedText
from headwise.documents.readers.document_file import DocumentFile, read_text
from headwise.documents.readers.docx import paragraphs, without_empty_runs
from headwise.documents.rules import TagRules
from headwise.documents.tokens import check_tokens, xml_tokens
from headwise.errors import DataError
from headwise.files import DamagedArchive, opened_zip

_MOST_ENTRIES = 2_000
_MANIFEST = "META-INF/manifest.xml"  # of OpenDocument: it says how parts are encrypted
_PLAIN = '<w:r plain="">'  # around a text that is in no run
_RUNS_OF_PLAIN = re.compile(rf"{_PLAIN}(.*?)</w:r>", re.DOTALL)
_SPACE = '<w:t xml:space="preserve">'
_DRAWN_TEXT = re.compile(r"<w:t>[^<>]*+</w:t>")
_TAB = "</w:t><w:tab/><w:t>"  # in place of one in DrawingML
_COLUMN = re.compile(r"<(?:\w{1,80}:)?tableColumn\s[^<>]{0,2000}?\bname=\"([^\"<>]{0,1000})\"")
_ROOT = re.compile(r"(?:[^<]|<[?!])*+<(\w{1,80}:)?")
_NAMESPACE = re.compile(r"""\sxmlns(?::(\w{1,80}))?\s?=\s?["']([^<>"']{1,200})""")
_CONTROL = re.compile("_x00([01][0-9a-fA-F])_")  # a control character in a sheet, such as the end of a line


@dataclass(frozen=True)
class ArchiveKind:
    """A kind of archive.

    Attributes:
        suffix: the end of its name.
        main: the part that it has in any case.
        parts: which parts have text.
        prefix: that of its texts' elements; empty for any.
        namespace: how that of the prefix ends.
        names: the names of Word's elements that its elements have, by theirs; of a part whose name ends with a key.
        rules: instead of runs: how the tags of its XML are handled.
    """

    suffix: str
    main: str
    parts: re.Pattern[str]
    prefix: str = ""
    namespace: tuple[str, ...] = ()
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rules: TagRules | None = None

    def renamed(self, name: str, source: str) -> Mapping[str, str]:
        """Return Word's names by those in a part; names without a prefix get that of its root."""
        found = next((names for key, names in self.names.items() if key in name), {})
        root = _ROOT.match(source)
        prefix = (root[1] or "") if root is not None else ""
        return {own if ":" in own else prefix + own: word for own, word in found.items()}

    def check_prefix(self, name: str, source: str) -> None:
        """Raise `DataError` where a part has another prefix than its usual one: its texts wouldn't be found."""
        for prefix, namespace in _NAMESPACE.findall(source) if self.prefix else ():
            if namespace.endswith(self.namespace) and prefix != self.prefix:
                raise DataError(
                    f"file: {name}: expected elements such as {self.prefix}:p, found the prefix {prefix!r}; "
                    "an office program that opens and saves the file writes the usual one"
                )


_DRAWING = {"a:p": "w:p", "a:r": "w:r", "a:rPr": "w:rPr", "a:t": "w:t", "a:br": "w:br"}
_SHEET = {"r": "w:r", "rPr": "w:rPr", "t": "w:t"}
_ODF_SPLITS = """text:p text:h text:line-break text:tab text:note-body text:list text:list-item
text:section text:table-of-content text:index-body text:index-title office:body office:text table:table table:table-row
table:table-cell draw:frame draw:text-box svg:title svg:desc"""
_ODF_NESTED = frozenset({"text:note", "office:annotation"})
_ODF_APART = """office:automatic-styles office:styles office:font-face-decls office:settings office:scripts office:forms
text:sequence-decls text:tracked-changes table:named-expressions form:form"""
_ODF_KEPT = """dc:creator dc:date meta:creator-initials text:note-citation text:page-number text:page-count
text:sequence text:bibliography-mark math:math"""
KINDS = {
    kind.suffix: kind
    for kind in (
        ArchiveKind(
            ".docx",
            "word/document.xml",
            re.compile(r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml"),
            "w",
            ("/wordprocessingml/2006/main", "/wordprocessingml/main"),
        ),
        ArchiveKind(
            ".pptx",
            "ppt/presentation.xml",
            re.compile(r"ppt/(?:slides/slide|notesSlides/notesSlide)\d+\.xml"),
            "a",
            ("/drawingml/2006/main", "/drawingml/main"),
            {"ppt/": _DRAWING},
        ),
        ArchiveKind(
            ".xlsx",
            "xl/workbook.xml",
            re.compile(r"xl/(?:sharedStrings|worksheets/sheet\d+)\.xml"),
            names={"sharedStrings": {"si": "w:p", **_SHEET}, "worksheets/": {"is": "w:p", **_SHEET}},
        ),
        ArchiveKind(
            ".odt",
            "content.xml",
            re.compile(r"(?:content|styles)\.xml"),
            "text",
            (":xmlns:text:1.0",),
            rules=TagRules(
                "odf",
                ignore=frozenset(_ODF_KEPT.split() + _ODF_APART.split()),
                splitting=frozenset(_ODF_SPLITS.split() + _ODF_APART.split()),
                nested=_ODF_NESTED,
            ),
        ),
    )
}


def read_archive(content: bytes, suffix: str) -> DocumentFile:
    """Read a file; raises `DataError` for a damaged archive or part, and for one beyond the bounds.

    Only the characters of its paragraphs count: it has many tags, which no reader sees.
    """
    kind = KINDS[suffix]
    if len(content) > bounds.UNPACKED_BYTES:
        raise DataError(f"file: expected at most {bounds.UNPACKED_BYTES:,} bytes, found more")
    with _readable(content, suffix) as archive:
        entries = archive.infolist()
        size = sum(entry.file_size for entry in entries)
        if len(entries) > _MOST_ENTRIES or size > bounds.UNPACKED_BYTES:
            raise DataError(
                f"file: expected at most {_MOST_ENTRIES:,} parts of {bounds.UNPACKED_BYTES:,} bytes in all, "
                f"found {len(entries):,} of {size:,}"
            )
        every = [entry.filename for entry in entries]
        if _MANIFEST in every and "encryption-data" in _part(archive, _MANIFEST):
            raise _unreadable(suffix)
        names = [name for name in every if kind.parts.fullmatch(name)]
        # Some programs number Word's main part.
        mains = [re.sub(r"(?<=word/document)\d+(?=\.xml)", "", name) for name in every].count(kind.main)
        if mains != 1 or len(set(names)) < len(names):
            raise DataError(f"file: expected a {suffix} file with one {kind.main}, found none or several")
        kept = _columns(archive, every) if suffix == ".xlsx" else ()
        parts: list[list[str | Block]] = []
        count = 0
        for name in names:
            found, tokens = _blocks(_part(archive, name), kind, name)
            count += tokens
            check_tokens(count)
            for place, one in enumerate(found):
                if isinstance(one, Block) and suffix == ".xlsx":
                    _as_cell(one)
                    found[place] = source_of(one.items) if one.text in kept else one
            parts.append(found)
    return DocumentFile(
        [ParsedText(tuple(part), "punctuation", protect=True) for part in parts],
        sum(len(block.text) for part in parts for block in every_block(part)),
        lambda found: _with_parts(content, kind, dict(zip(names, found, strict=True))),
    )


def _blocks(source: str, kind: ArchiveKind, name: str) -> tuple[list[str | Block], int]:
    """Return a part's paragraphs with all between them, and the number of its tokens."""
    kind.check_prefix(name, source)
    if kind.rules is not None:
        tokens = TOKENS[kind.rules.format](source)
        return parse_tokens(tokens, kind.rules), len(tokens)
    names = kind.renamed(name, source)
    if names:
        source = _with_names(source, names)
        if kind.suffix == ".pptx":
            source = _DRAWN_TEXT.sub(lambda text: text[0].replace("\t", _TAB), source)
        if kind.suffix == ".xlsx":
            source = re.sub(r"(<w:p>\s{0,99})(<w:t(?:\s[^<>]*+)?>[^<>]*+</w:t>)", rf"\1{_PLAIN}\2</w:r>", source)
    tokens = xml_tokens(source)
    return paragraphs(tokens), len(tokens)


def _with_names(source: str, names: Mapping[str, str]) -> str:
    pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"(</?)({pattern})(?=[\s/>])", lambda tag: tag[1] + names[tag[2]], source)


def _written(source: str, kind: ArchiveKind, name: str) -> str:
    """Return the source of a part from its translation."""
    if kind.rules is not None:
        return source
    source = without_empty_runs(source)
    names = kind.renamed(name, source)
    if not names:
        return source
    source = _RUNS_OF_PLAIN.sub(r"\1", source)
    if kind.suffix == ".pptx":  # DrawingML has no such attribute, and a tab is a character
        source = source.replace(_SPACE, "<w:t>").replace(_TAB, "\t").replace("<w:tab/>", "<w:t>\t</w:t>")
    return _with_names(source, {word: own for own, word in names.items()})


def _columns(archive: zipfile.ZipFile, names: list[str]) -> Collection[str]:
    """Return the headings of tables, which Excel wants to be the same in the cells and in the table's part."""
    parts = [name for name in names if re.fullmatch(r"xl/tables/[^/]{1,200}\.xml", name)]
    found = [one for name in parts for one in _COLUMN.findall(_part(archive, name))]
    return {_CONTROL.sub(_control, html.unescape(one)) for one in found}


def _as_cell(block: Block) -> None:
    """Make a text that of a cell, which has its own line ends, perhaps with a control character as `_x000D_`."""
    block.lines = True
    for item in block.items:
        if isinstance(item, TextRun) and _CONTROL.search(item.text):
            sources: list[str] = []
            position = 0
            for match in _CONTROL.finditer(item.text):
                sources += [*item.sources[position : match.start()], match[0]]
                position = match.end()
            item.sources = [*sources, *item.sources[position:]]
            item.text = _CONTROL.sub(_control, item.text)


def _control(match: re.Match[str]) -> str:
    """Return the end of a line or a tab; XML has no other control character, which is read as a space."""
    character = chr(int(match[1], 16))
    return character if character.isspace() else " "


@contextmanager
def _readable(content: bytes, suffix: str) -> Iterator[zipfile.ZipFile]:
    """Open an archive; what is wrong in it raises `DataError`."""
    try:
        with opened_zip(io.BytesIO(content)) as archive:
            yield archive
    except DamagedArchive:
        raise _unreadable(suffix) from None


def _unreadable(suffix: str) -> DataError:
    return DataError(f"file: expected a {suffix} file, found a damaged or encrypted archive")


def _part(archive: zipfile.ZipFile, name: str) -> str:
    """Return a part, of which no more is uncompressed than is allowed, whatever its header says."""
    with archive.open(name) as file:
        return "".join(read_text(file.read(bounds.DOCUMENT_BYTES + 1), f"file: {name}"))


def _with_parts(content: bytes, kind: ArchiveKind, parts: Mapping[str, str]) -> bytes:
    """Return the archive with some parts replaced; the others keep their bytes, dates and order."""
    result = io.BytesIO()
    with (
        _readable(content, kind.suffix) as archive,
        zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as out,
    ):
        left = bounds.UNPACKED_BYTES
        for entry in archive.infolist():
            if entry.filename in parts:
                data = _written(parts[entry.filename], kind, entry.filename).encode()
            else:
                with archive.open(entry) as file:
                    data = file.read(left + 1)
            left -= len(data)
            if left < 0:
                raise DataError(f"file: expected parts of at most {bounds.UNPACKED_BYTES:,} bytes in all, found more")
            out.writestr(entry, data, compress_type=entry.compress_type)
    return result.getvalue()
