"""Message catalogues of gettext (.po): the messages that have no translation yet.

Each entry has comments, `msgctxt`, `msgid`, perhaps `msgid_plural`, and `msgstr` or `msgstr[0]`, `msgstr[1]` …, each a
sequence of strings in C's notation. See https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from headwise.config.languages import base_code
from headwise.documents.reading import DocumentFile, check_texts, read_text, split_lines
from headwise.documents.values import plain_value
from headwise.errors import DataError

_LINE = re.compile(r'(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d)\])?)?\s*"((?:[^"\\]|\\.)*)"\s*')
_ESCAPE = re.compile(r"\\(?:([abfnrtv\\\"'?])|x([0-9a-fA-F]{2})|([0-7]{1,3}))")
_CHARSET = re.compile(r"(Content-Type:[^\\\"]{0,80}\bcharset=)(?!utf-?8\b)[\w.:-]+", re.IGNORECASE)
_LANGUAGE = re.compile(r"((?<!-)Language:)[ \t]*([\w.@-]{0,80})(?=\\n)")
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
class CatalogueMessage:
    """A message without a translation: its text, and where the translation goes."""

    text: str
    keyword: str
    start: int
    end: int


@dataclass(frozen=True)
class Catalogue:
    """A file: its lines with their ends, and the messages without a translation."""

    lines: tuple[str, ...]
    messages: tuple[CatalogueMessage, ...]

    @property
    def texts(self) -> list[str]:
        """The messages' texts."""
        return [message.text for message in self.messages]

    @property
    def language(self) -> str | None:
        """The language that the header names; empty where it names none yet, None where it has no place for one."""
        return next((match[2] for match in map(_LANGUAGE.search, self._header) if match), None)

    @property
    def _header(self) -> list[str]:
        """The lines before the first message without a translation, without comments."""
        before = self.lines[: self.messages[0].start if self.messages else None]
        return ["" if line[:1] == "#" else line for line in before]

    def write(self, translations: Sequence[str], language: str = "") -> str:
        """Return the file with translations of the texts; the lines of all else are as they were.

        But the header names the `language`, if one is given, and UTF-8 where not all is ASCII.
        """
        lines = list(self.lines)
        for message, translation in zip(self.messages, translations, strict=True):
            end = "\r\n" if self.lines[message.start].endswith("\r\n") else "\n"
            lines[message.start] = _strings(message.keyword, translation, end)
            lines[message.start + 1 : message.end] = [""] * (message.end - message.start - 1)
        named = [(_LANGUAGE, rf"\1 {language}")] if language else []
        if not all(map(str.isascii, lines)):
            named.append((_CHARSET, r"\1UTF-8"))
        for pattern, name in named if self.messages else ():
            for number, line in enumerate(self._header):
                if pattern.search(line):
                    lines[number] = pattern.sub(name, lines[number])
                    break
        return "".join(lines)


def read_catalogue(content: bytes, target: str = "", source: str = "") -> DocumentFile:
    """Read a file to translate from a language into `target`, which the header names afterwards if it names none.

    The header of a template may name the language of the messages instead. Raises `DataError` as `parse_catalogue`, for
    a file in another language, and for one beyond the bounds.
    """
    mark, text = read_text(content)
    catalogue = parse_catalogue(text)
    named = catalogue.language
    base = base_code((named or "").partition("@")[0])
    if named and target and source and base not in (base_code(target), base_code(source)):
        raise DataError(f"file: expected Language {target}, found {named!r}")
    language = target.replace("-", "_") if named is not None and base != base_code(target) else ""
    values = [plain_value(0, 0, message, str) for message in catalogue.texts]

    def write(found: Sequence[str]) -> bytes:
        texts = [value.write(one) for value, one in zip(values, found, strict=True)]
        return (mark + catalogue.write(texts, language)).encode()

    return DocumentFile([value.text for value in values], sum(value.characters for value in values), write)


def parse_catalogue(source: str) -> Catalogue:
    """Parse a file; raises `DataError` with the line where something else is found."""
    lines = split_lines(source)
    messages: list[CatalogueMessage] = []
    entry: dict[str, _String] = {}
    last: _String | None = None
    for number, line in enumerate(lines):
        content = line.lstrip("\ufeff").strip()
        if not content or content.startswith("#"):
            if "msgstr" in "".join(entry):
                messages += _untranslated(entry)
                entry, last = {}, None
            continue
        check_texts(messages)
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


def _untranslated(entry: dict[str, _String]) -> list[CatalogueMessage]:
    """Return the messages of an entry that have no translation; the header, whose id is empty, has none."""
    if "msgid" not in entry or not entry["msgid"].text:
        return []
    singular, plural = entry["msgid"], entry.get("msgid_plural", entry["msgid"])
    of_one = "msgstr[0]" if "msgstr[1]" in entry else "msgstr"  # a language may have one form for any number
    return [
        CatalogueMessage(
            (singular if keyword == of_one else plural).text,
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
