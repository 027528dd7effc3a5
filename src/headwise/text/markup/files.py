"""Files of several formats: the texts that are translated, and the file with their translations."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from headwise.errors import DataError
from headwise.text.markup.catalogue import parse_catalogue
from headwise.text.markup.rules import TagRules
from headwise.text.markup.subtitles import parse_subtitles
from headwise.text.markup.word import without_empty_runs

_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
FORMATS = {
    ".txt": "text/plain",
    ".html": "text/html",
    ".htm": "text/html",
    ".xml": "text/xml",
    ".docx": _WORD,
    ".srt": "application/x-subrip",
    ".po": "text/x-gettext-translation",
}
_BOM = "\ufeff"
_MOST_ENTRIES = 2_000  # of a .docx file
_MOST_BYTES = 64 * 2**20  # of all its parts, uncompressed
_MOST_TEXT_BYTES = 8 * 2**20  # of a part with text
_WORD_TEXT = re.compile(r"<w:t(?:\s[^<>]*)?>([^<]*)</w:t>")
_WORD_TEXTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")


@dataclass(frozen=True)
class FileTexts:
    """A file's texts.

    Attributes:
        texts: the texts.
        tags: how their tags are handled; None without tags.
        lines: whether line ends separate sentences.
        write: returns the file with translations of the texts.
    """

    texts: list[str]
    tags: TagRules | None
    lines: bool
    write: Callable[[Sequence[str]], bytes]

    @cached_property
    def counted(self) -> str:
        """The characters that count for limits and quotas: without a .docx file's tags, of which there are many."""
        text = "".join(self.texts)
        if self.tags is not None and self.tags.format == "word":
            return "".join(_WORD_TEXT.findall(text))
        return text


def read_file(name: str, content: bytes) -> FileTexts:
    """Return the texts of a file, whose name says its format.

    Raises `DataError` for another format, a damaged file, and one that is too large when it is uncompressed.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix not in FORMATS:
        *others, last = FORMATS
        raise DataError(
            f"file: expected a name that ends with {', '.join(others)} or {last}, found {suffix[:10]!r}"
        )
    if suffix == ".docx":
        return _word(content)
    text = _decoded(content)
    mark = _BOM if text.startswith(_BOM) else ""
    text = text.removeprefix(_BOM)
    if suffix == ".srt":
        subtitles = parse_subtitles(text)
        return FileTexts(
            subtitles.texts,
            TagRules("subtitles"),
            False,
            lambda found: (mark + subtitles.write(found)).encode(),
        )
    if suffix == ".po":
        catalogue = parse_catalogue(text)
        return FileTexts(catalogue.texts, None, True, lambda found: (mark + catalogue.write(found)).encode())
    tags = {".txt": None, ".xml": TagRules("xml")}.get(suffix, TagRules())
    return FileTexts([text], tags, suffix == ".txt", lambda found: (mark + found[0]).encode())


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"file: expected text in UTF-8, found another byte at {error.start:,}") from None


def _word(content: bytes) -> FileTexts:
    with _readable(content) as archive:
        entries = archive.infolist()
        size = sum(entry.file_size for entry in entries)
        if len(entries) > _MOST_ENTRIES or size > _MOST_BYTES:
            raise DataError(
                f"file: expected at most {_MOST_ENTRIES:,} parts of {_MOST_BYTES:,} bytes in all, "
                f"found {len(entries):,} of {size:,}"
            )
        names = [entry.filename for entry in entries if _WORD_TEXTS.fullmatch(entry.filename)]
        if "word/document.xml" not in names or len(set(names)) < len(names):
            raise DataError("file: expected a .docx file with one word/document.xml, found none or several")
        texts = [_decoded(_part(archive, name)) for name in names]
    return FileTexts(
        texts,
        TagRules("word"),
        False,
        lambda found: _with_parts(content, dict(zip(names, found, strict=True))),
    )


@contextmanager
def _readable(content: bytes) -> Iterator[zipfile.ZipFile]:
    """Open an archive; what is wrong in it raises `DataError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield archive
    except DataError:
        raise
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError):
        raise DataError("file: expected a .docx file, found a damaged or encrypted archive") from None


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a part, of which no more is uncompressed than is allowed, whatever its header says."""
    with archive.open(name) as file:
        found = file.read(_MOST_TEXT_BYTES + 1)
    if len(found) > _MOST_TEXT_BYTES:
        raise DataError(f"file: expected text of at most {_MOST_TEXT_BYTES:,} bytes in {name}, found more")
    return found


def _with_parts(content: bytes, parts: dict[str, str]) -> bytes:
    """Return the archive with some parts replaced; the others keep their bytes, dates and order."""
    result = io.BytesIO()
    with _readable(content) as archive, zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as out:
        left = _MOST_BYTES
        for entry in archive.infolist():
            if entry.filename in parts:
                data = without_empty_runs(parts[entry.filename]).encode()
            else:
                with archive.open(entry) as file:
                    data = file.read(left + 1)
            left -= len(data)
            if left < 0:
                raise DataError(f"file: expected parts of at most {_MOST_BYTES:,} bytes in all, found more")
            out.writestr(entry, data, compress_type=entry.compress_type)
    return result.getvalue()
