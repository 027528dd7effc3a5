"""Message catalogues of gettext (.po): the messages that have no translation yet.

Each entry has comments, `msgctxt`, `msgid`, perhaps `msgid_plural`, and `msgstr` or `msgstr[0]`, `msgstr[1]` …, each a
sequence of strings in C's notation. See https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial

from headwise.config.languages import base_code
from headwise.documents.readers.document_file import DocumentFile, check_texts, read_text, split_lines
from headwise.documents.readers.values import Value, file_of, plain_value
from headwise.errors import DataError

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LINE = re.compile(rf"(?:msgctxt|msgid_plural|msgid|msgstr(?:\[\d\])?)?(?:\s*{_STRING.pattern})+\s*")
_ESCAPE = re.compile(r"\\([abfnrtv\\\"'?])|((?:\\(?:x[0-9a-fA-F]{2}|[0-7]{1,3}))+)")  # a character, bytes
_BYTE = re.compile(r"\\(?:x(..)|([0-7]+))")
_CHARSET = re.compile(r"(Content-Type:[^\\\"]{0,80}\bcharset=)(?!utf-?8\b)[\w.:-]+", re.IGNORECASE)
_LANGUAGE = re.compile(r"((?<!-)Language:)[ \t]*([\w.@-]{0,80})(?=\\n)")
_MEANING = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WRITTEN = str.maketrans({meaning: f"\\{letter}" for letter, meaning in _MEANING.items()} | {"\\": "\\\\", '"': '\\"'})


@dataclass
class _String:
    """A keyword's string, and where the lines that it is on begin and end."""

    start: int
    end: int
    line_end: str
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)


def read_catalogue(content: bytes, target: str = "", source: str = "") -> DocumentFile:
    """Read a file to translate from a language into `target`, which the header names afterwards if it names none.

    The header of a template may name the language of the messages instead. With translations that aren't ASCII, it
    names UTF-8. Raises `DataError` with the line where something else is found, for a file in another language, and for
    one beyond the bounds.
    """
    mark, text = read_text(content)
    values = _messages(text)
    first = values[0].start if values else len(text)
    found = _field(_LANGUAGE, text[:first])
    named = "" if found is None else found[2]
    base = base_code(named.partition("@")[0])
    if named and target and source and base not in (base_code(target), base_code(source)):
        raise DataError(f"file: expected Language {target}, found {named!r}")
    language = target.replace("-", "_") if base != base_code(target) else ""

    def encode(written: str) -> bytes:
        header, rest = written[:first], written[first:]
        named = [(_LANGUAGE, rf"\1 {language}")] if language else []
        named += [] if written.isascii() else [(_CHARSET, r"\1UTF-8")]
        for pattern, name in named if values else ():
            if match := _field(pattern, header):
                header = header[: match.start()] + match.expand(name) + header[match.end() :]
        return (mark + header + rest).encode()

    return file_of(text, values, encode)


def _field(pattern: re.Pattern[str], header: str) -> re.Match[str] | None:
    """Return a field of the header: in a string before the first message without a translation, no comment or id."""
    lines = re.finditer(r"^[ \t]*(?:msgstr[ \t]*)?\".*", header, re.MULTILINE)
    return next((found for line in lines if (found := pattern.search(header, *line.span()))), None)


def _messages(source: str) -> list[Value]:
    """Return the messages without a translation; raises `DataError` with the line where something else is found."""
    values: list[Value] = []
    entry: dict[str, _String] = {}
    last: _String | None = None
    position = 0
    for number, line in enumerate(split_lines(source), start=1):
        start, position = position, position + len(line)
        content = line.lstrip("\ufeff").strip()
        if not content or content.startswith("#"):
            if "msgstr" in "".join(entry):
                values += _untranslated(entry)
                entry, last = {}, None
            continue
        check_texts(values)
        match = _LINE.fullmatch(content)
        if match is None:
            raise DataError(f"line {number}: expected a keyword of gettext and a string, found other text")
        keyword = match[0].partition('"')[0].strip()
        if keyword in ("msgctxt", "msgid") and any(key.startswith("msgstr") for key in entry):
            values += _untranslated(entry)
            entry = {}
        if keyword:
            if keyword in entry:
                raise DataError(f"line {number}: expected one {keyword} in a message, found a second one")
            last = entry[keyword] = _String(start, position, "\r\n" if line.endswith("\r\n") else "\n")
        if last is None:
            raise DataError(f"line {number}: expected a keyword of gettext, found a string")
        last.parts += map(_meant, _STRING.findall(content))
        last.end = position
    return values + _untranslated(entry)


def _untranslated(entry: dict[str, _String]) -> list[Value]:
    """Return the messages of an entry that have no translation; the header, whose id is empty, has none."""
    if "msgid" not in entry or not entry["msgid"].text:
        return []
    singular, plural = entry["msgid"], entry.get("msgid_plural", entry["msgid"])
    of_one = "msgstr[0]" if "msgstr[1]" in entry else "msgstr"  # a language may have one form for any number
    return [
        plain_value(
            one.start,
            one.end,
            (singular if keyword == of_one else plural).text,
            partial(_strings, keyword, one.line_end),
        )
        for keyword, one in entry.items()
        if keyword.startswith("msgstr") and not one.text
    ]


def _meant(written: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return _MEANING.get(match[1], match[1])
        content = bytes(int(hexa, 16) if hexa else int(octal, 8) & 0xFF for hexa, octal in _BYTE.findall(match[2]))
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            return content.decode("latin-1")

    return _ESCAPE.sub(replace, written)


def _strings(keyword: str, end: str, text: str) -> str:
    """Return the lines of a keyword and its string: one line, or one for each line of the text."""
    written = text.translate(_WRITTEN)
    parts = re.findall(r"(?:[^\\]|\\[^n])*?\\n|(?:[^\\]|\\.)+", written)
    if len(parts) < 2:
        return f'{keyword} "{written}"{end}'
    return "".join([f'{keyword} ""{end}', *(f'"{part}"{end}' for part in parts)])
