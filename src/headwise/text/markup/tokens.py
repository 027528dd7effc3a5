"""Tokens of a document: consecutive parts of its source that together are the source, character by character."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headwise.errors import DataError

Kind = Literal["text", "open", "close", "point"]
MOST_DEPTH = 256

# A character reference, or one character. HTML's longest name has 31 letters.
_UNITS = re.compile(r"&(?:#[0-9]{1,9}|#[xX][0-9a-fA-F]{1,8}|[a-zA-Z][a-zA-Z0-9]{0,31});?|.", re.DOTALL)


@dataclass(frozen=True)
class Token:
    """A part of a document's source.

    Attributes:
        kind: `open` and `close` for tags, `point` for what has no content: empty elements, comments, declarations.
        raw: the source.
        name: the element's name; empty for text, and for points that are no elements.
        attributes: values as the source has them, but for character references, which are decoded.
    """

    kind: Kind
    raw: str
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


def decoded(raw: str) -> tuple[str, list[str]]:
    """Return the text that a source means, and for each of its characters the source.

    The source of the second character of a reference to two is empty.
    """
    if "&" not in raw:
        return raw, list(raw)
    text: list[str] = []
    sources: list[str] = []
    for match in _UNITS.finditer(raw):
        unit = match[0]
        meant = html.unescape(unit) if len(unit) > 1 else unit
        if not meant:  # a reference to no character, which stays where it is
            meant = "\ufffd"
        text.append(meant)
        sources += [unit, *[""] * (len(meant) - 1)]
    return "".join(text), sources


def escaped(text: str) -> str:
    """Return the source of a text: `&`, `<` and `>` become references."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def check_depth(depth: int, what: str) -> None:
    """Raise `DataError` for elements that are nested too deeply."""
    if depth > MOST_DEPTH:
        raise DataError(f"{what}: expected elements nested at most {MOST_DEPTH} deep, found more")
