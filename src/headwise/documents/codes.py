"""Inline codes: what stands for tags and placeholders in segments of XLIFF 1.2, 2.1 and TMX; OpenDocument's ranges.

A code with two ends, in whichever way a format writes it, becomes the two tags of an element, so that it is placed as
one; every other code, with the native source in it, is a placeholder or a point. See
https://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html#Struct_InLine,
https://docs.oasis-open.org/xliff/xliff-core/v2.1/xliff-core-v2.1.html#inlineElements, and
https://www.gala-global.org/tmx-14b#ContentMarkup_Section.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwise.documents.tokens import PLACEHOLDER, Token, end_of_element, raw_of, xml_tokens

_NATIVE = frozenset({"bpt", "ept", "ph", "it", "ut"})  # their content is source of another format
SEGMENT = "segment"  # that of the marks around a unit's segments; others are inside sentences
BREAK = "break"  # that of a code that ends a line or a page: it says so, or has HTML's <br>
_BREAK = re.compile(r"""&lt;br\b|\s(?:type|ctype|subType)\s*=\s*["'](?:xlf:)?[lp]b["']""", re.IGNORECASE)
_OPENS = {"bpt": ("rid", "i", "id"), "bx": ("rid", "id"), "sc": ("id",), "sm": ("id",)}
_CLOSES = {
    "ept": ("bpt", "rid", "i", "id"),
    "ex": ("bx", "rid", "id"),
    "ec": ("sc", "startRef", "id"),
    "em": ("sm", "startRef"),
}
_WHOLE = _NATIVE | {"x", *_OPENS, *_CLOSES}  # their tags are one code, also where nothing is between them
# Of OpenDocument: the two ends of a bookmark, a reference, a tracked change, and what names them.
_RANGE = re.compile(r"(text:[\w-]+)-(start|end)")
_RANGE_NAMES = ("text:name", "text:id", "text:change-id")
_MOST_RANGES = 64  # that are open at once in an element


def code_tokens(source: str) -> list[Token]:
    """Return the tokens of a segment; raises `DataError` as `xml_tokens`."""
    tokens = xml_tokens(source)
    found: list[Token] = []
    marks: list[str] = []  # the names of those that are open
    position = 0
    while position < len(tokens):
        token, end = tokens[position], position + 1
        local = local_name(token.name)
        if token.kind == "open" and local in _WHOLE:
            end = end_of_element(tokens, position)
        raw = raw_of(tokens[position:end])
        position = end
        if local in ("x", "ph") and token.kind != "close":
            found.append(Token("point", raw, BREAK if _BREAK.search(raw) else PLACEHOLDER))
        elif local in _OPENS and token.kind != "close":
            found.append(Token("open", raw, f"{local} {_key(token, _OPENS[local])}", token.attributes))
        elif local in _CLOSES and token.kind != "close":
            name, *keys = _CLOSES[local]
            found.append(Token("close", raw, f"{name} {_key(token, keys)}"))
        elif local in _NATIVE and token.kind == "open":
            found.append(Token("point", raw))
        elif local == "mrk" and token.kind != "point":
            kind = token.attributes.get("mtype")
            name = marks.pop() if token.kind == "close" else SEGMENT if kind == "seg" else token.name
            marks += [name] if token.kind == "open" else []
            attributes = {"translate": "no"} if kind == "protected" else token.attributes
            found.append(Token(token.kind, raw, name, attributes))
        else:
            found.append(token if token.kind != "point" else Token("point", raw))
    return found


def range_tokens(source: str) -> list[Token]:
    """Return the tokens of OpenDocument's XML, in which the ends of a range, such as a bookmark, are an element's tags.

    One that doesn't begin and end inside the same element, or that overlaps another, is left as it is. Raises
    `DataError` as `xml_tokens`.
    """
    tokens = xml_tokens(source)
    # The ranges that are open in each open element, and their tokens.
    levels: list[list[tuple[str, int]]] = [[]]
    for number, token in enumerate(tokens):
        if token.kind == "open":
            levels.append([])
        elif token.kind == "close":
            levels.pop()
        elif match := _RANGE.fullmatch(token.name):
            opened = levels[-1]
            name = f"{match[1]} {_key(token, _RANGE_NAMES)}"
            place = next((n for n in reversed(range(len(opened))) if opened[n][0] == name), None)
            if match[2] == "start" and len(opened) < _MOST_RANGES:
                opened.append((name, number))
            elif match[2] == "end" and place is not None:
                start = opened[place][1]
                del opened[place:]
                tokens[start] = Token("open", tokens[start].raw, name)
                tokens[number] = Token("close", token.raw, name)
    return tokens


def local_name(name: str) -> str:
    """Return an element's name without the prefix of its namespace."""
    return name.rpartition(":")[2]


def _key(token: Token, names: Sequence[str]) -> str:
    return next((token.attributes[name] for name in names if name in token.attributes), "")
