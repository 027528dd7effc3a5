"""Files of several formats: the texts that are translated, and the file with their translations.

Message catalogues of gettext (.po): the messages that have no translation yet. Each entry has comments, `msgctxt`,
`msgid`, perhaps `msgid_plural`, and `msgstr` or `msgstr[0]`, `msgstr[1]` …, each a sequence of strings in C's notation.
See https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html.

SubRip subtitles (.srt): numbered cues with their times, and text with a few tags.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath

from headwise.documents.rules import TagRules
from headwise.documents.tokens import SUBTITLE_TAG
from headwise.documents.word import without_empty_runs
from headwise.errors import DataError

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


_LINE = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d)\])?)?\s*"((?:[^"\\]|\\.)*)"\s*')
_ESCAPE = re.compile(r"\\(?:([abfnrtv\\\"'?])|x([0-9a-fA-F]{2})|([0-7]{1,3}))")
_MEANING = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WRITTEN = {meaning: f"\\{letter}" for letter, meaning in _MEANING.items()} | {"\\": "\\\\", '"': '\\"'}


@dataclass
class _String:
    """A keyword's string, and the lines that it is on."""

    start: int
    end: int
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass(frozen=True)
class Message:
    """A message without a translation: its text, and where the translation goes."""

    text: str
    keyword: str
    start: int
    end: int


@dataclass(frozen=True)
class Catalogue:
    """A file: its lines with their ends, and the messages without a translation."""

    lines: tuple[str, ...]
    messages: tuple[Message, ...]

    @property
    def texts(self) -> list[str]:
        """The messages' texts."""
        return [message.text for message in self.messages]

    def write(self, translations: Sequence[str]) -> str:
        """Return the file with translations of the texts; the lines of all else are as they were."""
        lines = list(self.lines)
        for message, translation in zip(self.messages, translations, strict=True):
            end = "\r\n" if self.lines[message.start].endswith("\r\n") else "\n"
            lines[message.start] = _strings(message.keyword, translation, end)
            lines[message.start + 1 : message.end] = [""] * (message.end - message.start - 1)
        return "".join(lines)


def parse_catalogue(source: str) -> Catalogue:
    """Parse a file; raises `DataError` with the line where something else is found."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", source)
    messages: list[Message] = []
    entry: dict[str, _String] = {}
    last: _String | None = None
    for number, line in enumerate(lines):
        content = line.lstrip("\ufeff").strip()
        if not content or content.startswith("#"):
            if "msgstr" in "".join(entry):
                messages += _untranslated(entry)
                entry, last = {}, None
            continue
        match = _LINE.fullmatch(content)
        if match is None:
            raise DataError(
                f"line {number + 1}: expected a keyword of gettext and a string, found other text"
            )
        keyword = match[0].partition('"')[0].strip()
        if keyword in ("msgctxt", "msgid") and any(key.startswith("msgstr") for key in entry):
            messages += _untranslated(entry)
            entry = {}
        if keyword:
            if keyword in entry:
                raise DataError(f"line {number + 1}: expected one {keyword} in a message, found a second one")
            last = entry[keyword] = _String(number, number)
        if last is None:
            raise DataError(f"line {number + 1}: expected a keyword of gettext, found a string")
        last.parts.append(_meant(match[3]))
        last.end = number + 1
    messages += _untranslated(entry)
    return Catalogue(tuple(lines), tuple(messages))


def _untranslated(entry: dict[str, _String]) -> list[Message]:
    """Return the messages of an entry that have no translation; the header, whose id is empty, has none."""
    if "msgid" not in entry or not entry["msgid"].text:
        return []
    plural = entry.get("msgid_plural", entry["msgid"])
    return [
        Message(
            (entry["msgid"] if keyword in ("msgstr", "msgstr[0]") else plural).text,
            keyword,
            one.start,
            one.end,
        )
        for keyword, one in entry.items()
        if keyword.startswith("msgstr") and not one.text
    ]


def _meant(written: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return _MEANING.get(match[1], match[1])
        return chr(int(match[2], 16) if match[2] else int(match[3], 8) & 0xFF)

    return _ESCAPE.sub(replace, written)


def _strings(keyword: str, text: str, end: str) -> str:
    """Return the lines of a keyword and its string: one line, or one for each line of the text."""
    written = "".join(_WRITTEN.get(character, character) for character in text)
    parts = re.findall(r"(?:[^\\]|\\[^n])*?\\n|(?:[^\\]|\\.)+", written)
    if len(parts) < 2:
        return f'{keyword} "{written}"{end}'
    return "".join([f'{keyword} ""{end}', *(f'"{part}"{end}' for part in parts)])


_TIME = r"\d{1,4}:\d{2}:\d{2}[,.]\d{1,3}"
_TIMES = re.compile(rf"\s*{_TIME}\s+-->\s+{_TIME}(?:\s.*)?", re.ASCII)
_SPEAKER = re.compile(r"\s*[-–—‐]")


@dataclass(frozen=True)
class Cue:
    """A cue's text: the numbers of its lines among those of the file, which are translated together."""

    lines: range


@dataclass(frozen=True)
class Subtitles:
    """A file: its lines with their ends, and the cues."""

    lines: tuple[str, ...]
    cues: tuple[Cue, ...]

    @property
    def texts(self) -> list[str]:
        """The text of each cue, on one line."""
        return [" ".join(self.lines[line].strip() for line in cue.lines) for cue in self.cues]

    def write(self, translations: Sequence[str]) -> str:
        """Return the file with translations of the texts, each on as many lines as before where that is possible."""
        lines = list(self.lines)
        for cue, translation in zip(self.cues, translations, strict=True):
            parts = wrapped(" ".join(translation.split()), len(cue.lines))
            for number, line in enumerate(cue.lines):
                end = self.lines[line][len(self.lines[line].rstrip("\r\n")) :]
                lines[line] = f"{parts[number]}{end}" if number < len(parts) else ""
        return "".join(lines)


def parse_subtitles(source: str) -> Subtitles:
    """Parse a file; raises `DataError` with the line where something else is found."""
    lines = source.splitlines(keepends=True) if "\r" not in source else re.findall(r"[^\n]*\n|[^\n]+", source)
    cues: list[Cue] = []
    position = 0
    while position < len(lines):
        text = lines[position].lstrip("\ufeff").strip()
        if not text:
            position += 1
            continue
        if not (text.isascii() and text.isdigit()):
            raise DataError(f"line {position + 1}: expected the number of a cue, found other text")
        if position + 1 >= len(lines) or not _TIMES.fullmatch(lines[position + 1].rstrip("\r\n")):
            raise DataError(
                f"line {position + 2}: expected times such as 00:00:01,000 --> 00:00:02,000, found none"
            )
        start = end = position + 2
        while end < len(lines) and lines[end].strip():
            end += 1
        cues += _cues(lines, start, end)
        position = end
    return Subtitles(tuple(lines), tuple(cues))


def _cues(lines: Sequence[str], start: int, end: int) -> list[Cue]:
    """Return the texts of a cue: one, or one for each line that begins with the dash of a speaker."""
    starts = [line for line in range(start, end) if line == start or _SPEAKER.match(lines[line])]
    return [
        Cue(range(first, last))
        for first, last in zip(starts, [*starts, end][1:], strict=True)
        if first < last
    ]


def wrapped(text: str, count: int) -> list[str]:
    """Return a text on at most `count` lines of about the same length, broken at spaces outside tags."""
    lines: list[str] = []
    for left in range(count, 1, -1):
        tags = [match.span() for match in SUBTITLE_TAG.finditer(text)]
        spaces = [
            place
            for place, character in enumerate(text)
            if character == " " and not any(start < place < end for start, end in tags)
        ]
        if not spaces:
            break
        place = min(spaces, key=lambda space: abs(space - len(text) / left))
        lines.append(text[:place])
        text = text[place + 1 :]
    return [*lines, text]
