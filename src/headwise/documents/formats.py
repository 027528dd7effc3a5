"""The formats of documents: what each is called, and its reader, which counts what it parses, within bounds.

A reader returns the texts that are translated, parsed, and writes the file with their translations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath

from headwise.documents.archives import MOST_UNPACKED, read_archive
from headwise.documents.bilingual import read_bilingual
from headwise.documents.catalogue import read_catalogue
from headwise.documents.markdown import read_markdown
from headwise.documents.preparation import read
from headwise.documents.reading import MOST_BYTES, DocumentFile, read_text
from headwise.documents.resources import (
    apple_values,
    fluent_values,
    json_values,
    read_properties,
    read_resource,
)
from headwise.documents.rules import TagRules
from headwise.documents.subtitles import read_subtitles
from headwise.errors import DataError


@dataclass(frozen=True)
class DocumentFormat:
    """A format of documents.

    Attributes:
        media_type: its name in HTTP.
        reader: returns what a file has; raises `DataError` for a damaged file, and for one beyond the bounds. It is
            told the language of the translation if the format is `bilingual`.
        lines: whether it is a text whose lines are translated one by one wherever no document is expected.
        binary: whether it is no text in UTF-8.
        most_bytes: of a file that is read.
        bilingual: whether it has units in several languages.
    """

    media_type: str
    reader: Callable[..., DocumentFile]
    lines: bool = False
    binary: bool = False
    most_bytes: int = MOST_BYTES
    bilingual: bool = False

    def read(self, content: bytes, target: str = "") -> DocumentFile:
        """Return what a file to be translated into the language `target` has; raises as its reader."""
        return self.reader(content, target) if self.bilingual else self.reader(content)

    @property
    def content_type(self) -> str:
        """The media type, with the encoding of a text."""
        return self.media_type if self.binary else f"{self.media_type}; charset=utf-8"


def _read_whole(content: bytes, rules: TagRules | None = None) -> DocumentFile:
    """Return a file that is one text; its tags count, too."""
    mark, text = read_text(content)
    parsed = read(text, "all" if rules is None else "punctuation", rules)
    return DocumentFile([parsed], len(text), lambda found: (mark + found[0]).encode())


def _archive(suffix: str, media_type: str) -> DocumentFormat:
    reader = partial(read_archive, suffix=suffix)
    return DocumentFormat(media_type, reader, binary=True, most_bytes=MOST_UNPACKED)


_OFFICE = "application/vnd.openxmlformats-officedocument"
_XLIFF = DocumentFormat("application/xliff+xml", read_bilingual, bilingual=True)
_HTML = DocumentFormat("text/html", partial(_read_whole, rules=TagRules()))
FORMATS = {
    ".txt": DocumentFormat("text/plain", _read_whole, lines=True),
    ".html": _HTML,
    ".htm": _HTML,
    ".xml": DocumentFormat("text/xml", partial(_read_whole, rules=TagRules("xml"))),
    ".md": DocumentFormat("text/markdown", read_markdown),
    ".docx": _archive(".docx", f"{_OFFICE}.wordprocessingml.document"),
    ".pptx": _archive(".pptx", f"{_OFFICE}.presentationml.presentation"),
    ".xlsx": _archive(".xlsx", f"{_OFFICE}.spreadsheetml.sheet"),
    ".odt": _archive(".odt", "application/vnd.oasis.opendocument.text"),
    ".srt": DocumentFormat("application/x-subrip", read_subtitles),
    ".po": DocumentFormat("text/x-gettext-translation", read_catalogue),
    ".json": DocumentFormat("application/json", partial(read_resource, find=json_values)),
    ".properties": DocumentFormat("text/x-java-properties", read_properties),
    ".strings": DocumentFormat("text/x-apple-strings", partial(read_resource, find=apple_values)),
    ".ftl": DocumentFormat("text/x-fluent", partial(read_resource, find=fluent_values)),
    ".xlf": _XLIFF,
    ".xliff": _XLIFF,
    ".tmx": DocumentFormat("application/x-tmx+xml", read_bilingual, bilingual=True),
}


def format_of(name: str) -> DocumentFormat | None:
    """Return the format that the end of a file's name says; None for no document."""
    return FORMATS.get(PurePath(name).suffix.lower())


def read_file(name: str, content: bytes, target: str = "") -> DocumentFile:
    """Return the texts of a file, whose name says its format; `target` is the language of its translation.

    Raises `DataError` for another format, a damaged file, and one that is beyond the bounds of its format.
    """
    found = format_of(name)
    if found is None:
        *others, last = FORMATS
        suffix = PurePath(name).suffix.lower()
        raise DataError(
            f"file: expected a name that ends with {', '.join(others)} or {last}, found {suffix[:10]!r}"
        )
    return found.read(content, target)
