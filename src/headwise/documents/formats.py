"""The formats of documents: what each is called, and its reader, which counts what it parses, within bounds.

A reader returns the texts that are translated, parsed, and writes the file with their translations. It is imported when
a file is read: a program that translates lines needs none.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING

from headwise import bounds
from headwise.errors import DataError

if TYPE_CHECKING:
    from headwise.documents.readers.document_file import DocumentFile


@dataclass(frozen=True)
class DocumentFormat:
    """A format of documents.

    Attributes:
        media_type: its name in HTTP.
        reader: the function of a module in `readers` that returns what a file has, called with these `options`; it
            raises `DataError` for a damaged file, and for one beyond the bounds.
        lines: whether it is a text whose lines are translated one by one wherever no document is expected.
        binary: whether it is no text in UTF-8.
        most_bytes: of a file that is read.
        bilingual: whether it has units in several languages; its reader is told those of the translation and the text.
    """

    media_type: str
    reader: str
    options: Mapping[str, str] = field(default_factory=dict)
    lines: bool = False
    binary: bool = False
    most_bytes: int = bounds.DOCUMENT_BYTES
    bilingual: bool = False

    def read(self, content: bytes, target: str = "", source: str = "") -> DocumentFile:
        """Return what a file has to be translated from the language `source` into `target`; raises as its reader.

        A language is empty if it isn't known.
        """
        module, _, function = self.reader.partition(".")
        read: Callable[..., DocumentFile] = getattr(import_module(f"{__package__}.readers.{module}"), function)
        return read(content, *((target, source) if self.bilingual else ()), **self.options)

    def content_type(self, content: bytes) -> str:
        """Return the media type of a file, with the encoding of a text: that it names, or is read as."""
        if self.binary:
            return self.media_type
        if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return f"{self.media_type}; charset=utf-16"
        # This module leaves the readers and what they share out.
        from headwise.documents.readers.document_file import named_encoding

        named = named_encoding(content)
        if named not in ("", "ascii"):
            return f"{self.media_type}; charset={named}"
        try:
            content.decode("utf-8")
        except UnicodeDecodeError:
            return f"{self.media_type}; charset=iso-8859-1"
        return f"{self.media_type}; charset=utf-8"


def _archive(suffix: str, media_type: str) -> DocumentFormat:
    options = {"suffix": suffix}
    return DocumentFormat(media_type, "archives.read_archive", options, binary=True, most_bytes=bounds.UNPACKED_BYTES)


_OFFICE = "application/vnd.openxmlformats-officedocument"
_XLIFF = DocumentFormat("application/xliff+xml", "bilingual.read_bilingual", bilingual=True)
_PO = DocumentFormat("text/x-gettext-translation", "catalogue.read_catalogue", bilingual=True)
_HTML = DocumentFormat("text/html", "document_file.read_whole", {"markup": "html"})
FORMATS = {
    ".txt": DocumentFormat("text/plain", "document_file.read_whole", lines=True),
    ".html": _HTML,
    ".htm": _HTML,
    ".xml": DocumentFormat("text/xml", "resources.read_xml"),
    ".md": DocumentFormat("text/markdown", "markdown.read_markdown"),
    ".docx": _archive(".docx", f"{_OFFICE}.wordprocessingml.document"),
    ".pptx": _archive(".pptx", f"{_OFFICE}.presentationml.presentation"),
    ".xlsx": _archive(".xlsx", f"{_OFFICE}.spreadsheetml.sheet"),
    ".odt": _archive(".odt", "application/vnd.oasis.opendocument.text"),
    ".srt": DocumentFormat("application/x-subrip", "subtitles.read_subtitles"),
    ".po": _PO,
    ".pot": _PO,
    ".json": DocumentFormat("application/json", "resources.read_json"),
    ".properties": DocumentFormat("text/x-java-properties", "resources.read_properties"),
    ".strings": DocumentFormat("text/x-apple-strings", "resources.read_apple"),
    ".ftl": DocumentFormat("text/x-fluent", "resources.read_fluent"),
    ".xlf": _XLIFF,
    ".xliff": _XLIFF,
    ".tmx": DocumentFormat("application/x-tmx+xml", "bilingual.read_bilingual", bilingual=True),
}


def format_of(name: str) -> DocumentFormat | None:
    """Return the format that the end of a file's name says; None for no document."""
    return FORMATS.get(PurePath(name).suffix.lower())


def read_file(name: str, content: bytes, target: str = "", source: str = "") -> DocumentFile:
    """Return the texts of a file, whose name says its format, to be translated from a language into `target`.

    Raises `DataError` for another format, a damaged file, and one that is beyond the bounds of its format.
    """
    found = format_of(name)
    if found is None:
        *others, last = FORMATS
        suffix = PurePath(name).suffix.lower()
        raise DataError(f"file: expected a name that ends with {', '.join(others)} or {last}, found {suffix[:10]!r}")
    return found.read(content, target, source)
