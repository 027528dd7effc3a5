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


def read_text(content: bytes, name: str = "file") -> tuple[str, str]:
    """Return a text's byte order mark, if there is one, and the text; raises `DataError` if it isn't UTF-8 or long."""
    if len(content) > bounds.DOCUMENT_BYTES:
        raise DataError(f"{name}: expected text of at most {bounds.DOCUMENT_BYTES:,} bytes, found more")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: expected text in UTF-8, found another byte at {error.start:,}") from None
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def read_whole(content: bytes, markup: Literal["html", "xml"] | None = None) -> DocumentFile:
    """Return a file that is one text; the tags of its markup count, too."""
    mark, text = read_text(content)
    if markup is None:
        return DocumentFile([read(text, "all")], len(text), lambda found: (mark + found[0]).encode())
    encode = markup_encoder(text)
    parsed = read(text, "punctuation", TagRules(markup))
    return DocumentFile([parsed], len(text), lambda found: encode(mark + found[0]))


def markup_encoder(text: str) -> Callable[[str], bytes]:
    """Return what encodes the translation of a document of HTML or XML: in UTF-8, or in ASCII with references.

    That is for one in ASCII that says it is in another encoding: a reader would take UTF-8 for that.
    """
    declared = _DECLARED.search(text) if text.isascii() else None
    if declared is None or (declared[1] or declared[2]).lower() in ("utf-8", "utf8"):
        return str.encode
    return lambda found: found.encode("ascii", "xmlcharrefreplace")


def split_lines(text: str) -> list[str]:
    """Return a text's lines with their ends; raises `DataError` for more than a file may have."""
    if text.count("\n") > _MOST_LINES:
        raise DataError(f"file: expected at most {_MOST_LINES:,} lines, found more")
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def check_texts(texts: Sequence[object]) -> None:
    """Raise `DataError` for more texts than a file may have."""
    if len(texts) > _MOST_TEXTS:
        raise DataError(f"file: expected at most {_MOST_TEXTS:,} texts, found more")
