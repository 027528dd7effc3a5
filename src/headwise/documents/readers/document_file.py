"""What the readers of all formats share: what they return, text in UTF-8, and the bounds on texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from headwise import bounds
from headwise.documents.preparation import ParsedText, read
from headwise.documents.rules import TagRules
from headwise.errors import DataError

_MOST_LINES = 500_000
_MOST_TEXTS = 100_000
_BOM = "\ufeff"
_DECLARED = re.compile(
    r"""<\?xml\s[^<>]{0,200}?\bencoding\s*=\s*["']([\w.:-]+)|<meta\s[^<>]{0,500}?\bcharset\s*=\s*["']?\s*([\w.:-]+)""",
    re.IGNORECASE,
)
_HEAD = 4096  # bytes in which HTML and XML name their encoding
# Of one byte a letter, or two; Python's names, so that nothing else is looked up.
_ENCODINGS = re.compile(
    r"iso-8859-(?:[1-9]|1[013456])|windows-125[0-8]|koi8-[ru]|shift_jis|euc-(?:jp|kr)|gb(?:k|2312|18030)|big5"
)
# Browsers take these for others, which have more characters, as many writers do; a parser of XML doesn't.
_AS_BROWSERS_READ = {"iso-8859-1": "windows-1252", "shift_jis": "cp932", "gb2312": "gbk", "euc-kr": "cp949"}


@dataclass(frozen=True)
class Confidence:
    """A model's own estimate of how good a translation is, from 0 to 1, and the name of what it estimates."""

    value: float
    measure: str


@dataclass(frozen=True)
class DocumentFile:
    """A file as its format's reader found it.

    Attributes:
        texts: what is translated.
        characters: how many count for limits and quotas.
        write: returns the file with translations of the texts.
        write_rated: the same with the model's estimate of each; None where the format has no place for it.
    """

    texts: Sequence[ParsedText]
    characters: int
    write: Callable[[Sequence[str]], bytes]
    write_rated: Callable[[Sequence[str], Sequence[Confidence | None]], bytes] | None = None


def check_size(content: bytes, name: str = "file") -> None:
    """Raise `DataError` for a text of more bytes than one may have."""
    if len(content) > bounds.DOCUMENT_BYTES:
        raise DataError(f"{name}: expected text of at most {bounds.DOCUMENT_BYTES:,} bytes, found more")


def read_text(content: bytes, name: str = "file") -> tuple[str, str]:
    """Return a text's byte order mark, if there is one, and the text; raises `DataError` if it isn't UTF-8 or long."""
    check_size(content, name)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: expected text in UTF-8, found another byte at {error.start:,}; iconv converts other encodings"
        ) from None
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def read_whole(content: bytes, markup: Literal["html", "xml"] | None = None) -> DocumentFile:
    """Return a file that is one text; the tags of its markup count, too."""
    if markup is None:
        mark, text = read_text(content)
        return DocumentFile([read(text, "all")], len(text), lambda found: (mark + found[0]).encode())
    text, encode = decode_markup(content)
    parsed = read(text, "punctuation", TagRules(markup))
    return DocumentFile([parsed], len(text), lambda found: encode(found[0]))


def decode_markup(content: bytes) -> tuple[str, Callable[[str], bytes]]:
    """Return the text of a document of HTML or XML, and what encodes its translation; raises `DataError`.

    One that names another encoding than UTF-8, and isn't in UTF-8, stays in that, with references to what it lacks.
    """
    encoding = named_encoding(content)
    if not encoding:
        mark, text = read_text(content)
        return text, lambda found: (mark + found).encode()
    check_size(content)
    is_xml = content.startswith(b"<?xml")
    codec = encoding if is_xml and encoding != "iso-8859-1" else _AS_BROWSERS_READ.get(encoding, encoding)
    try:
        text = content.decode(codec)
    except UnicodeDecodeError as error:
        sentence = f"file: expected text in {encoding}, which it names, found another byte at {error.start:,}"
        raise DataError(sentence) from None
    return text, lambda found: found.encode(encoding if is_xml else codec, "xmlcharrefreplace")


def named_encoding(content: bytes) -> str:
    """Return the encoding that a document of HTML or XML names and is in; empty where that is UTF-8, or unknown."""
    found = _DECLARED.search(content[:_HEAD].decode("latin-1"))
    name = "utf-8" if found is None else (found[1] or found[2]).lower()
    if name in ("utf-8", "utf8"):
        return ""
    if name == "iso-2022-jp":  # in ASCII, and no UTF-8
        return name
    if content.isascii():  # a reader would take UTF-8 for the encoding that it names
        return "ascii"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return name if _ENCODINGS.fullmatch(name) else ""
    return ""


def split_lines(text: str) -> list[str]:
    """Return a text's lines with their ends; raises `DataError` for more than a file may have."""
    if text.count("\n") + text.count("\r") - text.count("\r\n") > _MOST_LINES:
        raise DataError(f"file: expected at most {_MOST_LINES:,} lines, found more")
    return re.findall(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+", text)


def check_texts(texts: Sequence[object]) -> None:
    """Raise `DataError` for more texts than a file may have."""
    if len(texts) > _MOST_TEXTS:
        raise DataError(f"file: expected at most {_MOST_TEXTS:,} texts, found more")
