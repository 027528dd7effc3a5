"""Tokens of a document: consecutive parts of its source that together are the source, character by character.

Tags are found in the source and copied from it, as a parser that builds a tree and writes it again changes quotes,
references, white space in tags and what the source leaves out. HTML's are found as browsers do
(https://html.spec.whatwg.org/multipage/parsing.html#tokenization), in time linear in the length of the source; XML's by
expat, the parser of Python's standard library, in a document or a fragment; and the few of subtitles by their letters.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from html.entities import html5
from typing import Literal
from xml.parsers import expat

from headwise.errors import DataError

Kind = Literal["text", "open", "close", "point"]
MOST_DEPTH = 256
PLACEHOLDER = "placeholder"  # the name of the tokens of codes that stand for words
_MOST_CHARACTERS = 1_000_000  # between two tags that separate sentences
_MOST_TOKENS = 500_000
_MOST_ATTRIBUTES = 1_000  # of an element
_MOST_MARKUP = 2**20  # bytes of one tag or comment of XML
_NONE: Mapping[str, str] = {}
_CHUNK = 2**16  # bytes that expat gets at once

# A character reference, or one character. HTML's longest name has 31 letters.
_UNITS = re.compile(r"&(?:#[0-9]{1,9}|#[xX][0-9a-fA-F]{1,8}|[a-zA-Z][a-zA-Z0-9]{0,31});?|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
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


def decoded(raw: str, units: re.Pattern[str] = _UNITS) -> tuple[str, Sequence[str]]:
    """Return the text that a source means, and for each of its characters the source.

    `units` finds its references and characters. The source of the second character of a reference to two is empty.
    """
    if "&" not in raw:
        return raw, raw
    text: list[str] = []
    sources: list[str] = []
    for match in units.finditer(raw):
        unit = match[0]
        end = _end_of_reference(unit)
        meant = html.unescape(unit[:end]) if end > 1 else unit[:end]
        if not meant:  # a reference to no character, which stays where it is
            meant = "\ufffd"
        text += [meant, unit[end:]]
        sources += [unit[:end], *[""] * (len(meant) - 1), *unit[end:]]
    return "".join(text), sources


def _end_of_reference(unit: str) -> int:
    """Return the length of the reference or character at the beginning: letters behind a name may be of the text."""
    if unit[1:2] in ("", "#"):
        return len(unit)
    return next((end for end in range(len(unit), 1, -1) if unit[1:end] in html5), 1)


def escaped(text: str) -> str:
    """Return the source of a text: `&`, `<` and `>` become references."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def raw_of(tokens: Sequence[Token]) -> str:
    """Return the source of tokens."""
    return "".join(token.raw for token in tokens)


def check_depth(depth: int, what: str) -> None:
    """Raise `DataError` for elements that are nested too deeply."""
    if depth > MOST_DEPTH:
        raise DataError(f"{what}: expected elements nested at most {MOST_DEPTH} deep, found more")


def check_length(characters: int) -> None:
    """Raise `DataError` for a text, such as a paragraph, that is too long."""
    if characters > _MOST_CHARACTERS:
        raise DataError(f"text: expected at most {_MOST_CHARACTERS:,} characters in a paragraph, found more")


def check_tokens(count: int) -> None:
    """Raise `DataError` for more tags and texts than a document may have."""
    if count > _MOST_TOKENS:
        raise DataError(f"markup: expected at most {_MOST_TOKENS:,} tags and texts, found more")


class NestingError(Exception):
    """Elements that are not nested as expected."""


def end_of_element(tokens: Sequence[Token], start: int) -> int:
    """Return the number of the token after the element of XML that begins at one.

    Raises `NestingError` where it has no end among them, which well-formed tokens have.
    """
    depth = 0
    for position in range(start, len(tokens)):
        depth += {"open": 1, "close": -1}.get(tokens[position].kind, 0)
        if depth == 0:
            return position + 1
    raise NestingError


def _check_attributes(attributes: Sized) -> None:
    if len(attributes) > _MOST_ATTRIBUTES:
        raise DataError(f"markup: expected at most {_MOST_ATTRIBUTES:,} attributes of an element, found more")


_VOID_NAMES = "area base br col embed hr img input link meta param source track wbr"
_RAW_NAMES = "script style xmp iframe noembed noframes textarea title"
VOID = frozenset(_VOID_NAMES.split())
_RAW = frozenset(_RAW_NAMES.split())  # no tags inside
_SPACE = r"[ \t\n\f\r]"
_ATTRIBUTE = re.compile(
    rf"(?:{_SPACE}|/)*+(?:(=?[^ \t\n\f\r/>=]*+)(?:{_SPACE}*+={_SPACE}*+"
    r"""(?:(["'])|([^ \t\n\f\r>]++)|(?=>)))?)"""
)
_COMMENT_END = re.compile("--!?>")
_TEMPLATES = {"<%": "%>", "<?php": "?>", "<?=": "?>"}  # of ERB, EJS and PHP: no browser sees them
_MOST_TEMPLATE = 500  # characters
_NAME = re.compile(r"[a-zA-Z][^ \t\n\f\r/>]*+")


def html_tokens(source: str) -> list[Token]:
    """Return the tokens of an HTML document or fragment; every source has some."""
    tokens: list[Token] = []
    position = text_start = 0
    while (start := source.find("<", position)) >= 0:
        token, end = _markup(source, start)
        if token is None:  # `<` as text
            position = start + 1
            continue
        if start > text_start:
            tokens.append(Token("text", source[text_start:start]))
        tokens.append(token)
        check_tokens(len(tokens))
        position = text_start = end
        if token.kind == "open" and token.name in _RAW:
            end = _end_of_raw(source, end, token.name)
            if end > position:
                kind = "text" if token.name == "title" else "point"
                tokens.append(Token(kind, source[position:end]))
            position = text_start = end
        elif token.name == "plaintext" and token.kind == "open":
            tokens.append(Token("point", source[end:]))
            return tokens
    if text_start < len(source):
        tokens.append(Token("text", source[text_start:]))
    return tokens


def _markup(source: str, start: int) -> tuple[Token | None, int]:
    """Return the token that begins with `<` at a position, and its end; None where `<` is text."""
    following = source[start + 1 : start + 2]
    closing = following == "/"
    name = _NAME.match(source, start + 1 + closing)
    if name is not None:
        return _tag(source, start, name, closing)
    if source.startswith("<!--", start):
        return _comment(source, start)
    for opening, end_mark in _TEMPLATES.items():
        if source.startswith(opening, start):
            end = source.find(end_mark, start, start + _MOST_TEMPLATE) + len(end_mark)
            if end > start:
                return Token("point", source[start:end], PLACEHOLDER), end
    if following in ("!", "?") or (closing and start + 2 < len(source)):
        end = source.find(">", start + 2)
        end = len(source) if end < 0 else end + 1
        return Token("point", source[start:end]), end
    return None, start + 1


def _comment(source: str, start: int) -> tuple[Token, int]:
    for short in ("<!-->", "<!--->"):
        if source.startswith(short, start):
            return Token("point", short), start + len(short)
    match = _COMMENT_END.search(source, start + 4)
    end = len(source) if match is None else match.end()
    return Token("point", source[start:end]), end


def _tag(source: str, start: int, name: re.Match[str], closing: bool) -> tuple[Token, int]:
    """Return a tag and its end; one that doesn't end before the source is a point."""
    attributes: dict[str, str] = {}
    position = name.end()
    while position < len(source) and source[position] != ">":
        match = _ATTRIBUTE.match(source, position)
        assert match is not None
        position = match.end()
        value = match[3] or ""
        if match[2]:
            end = source.find(match[2], position)
            if end < 0:
                position = len(source)
                break
            value, position = source[position:end], end + 1
        if match[1]:
            attributes.setdefault(match[1].lower(), html.unescape(value))
            _check_attributes(attributes)
    if position >= len(source):
        return Token("point", source[start:]), len(source)
    end = position + 1
    lower = name[0].lower()
    kind = "close" if closing else "point" if lower in VOID else "open"
    return Token(kind, source[start:end], lower, {} if closing else attributes), end


def _end_of_raw(source: str, start: int, name: str) -> int:
    match = re.compile(rf"</{name}(?=[ \t\n\f\r/>])", re.IGNORECASE | re.ASCII).search(source, start)
    return len(source) if match is None else match.start()


SUBTITLE_TAG = re.compile(r"<(/?)([a-zA-Z]{1,10})((?:\s[^<>\n]{0,200})?)>|\{\\[^{}\n]{1,100}\}")
_BEGINNING = re.compile(r"\ufeff?\s*<(?:\?xml\s|!DOCTYPE)")
_ROOT = "<r>", "</r>"


def xml_tokens(source: str) -> list[Token]:
    """Return the tokens of an XML document, or of a fragment: text and elements without one around them.

    Raises `DataError` for what isn't well-formed, for declarations in the document's type, and for what is nested too
    deeply, too long or too much. External entities aren't read; references to undeclared ones are points.
    """
    whole = _BEGINNING.match(source) is not None
    before, after = ("", "") if whole else _ROOT
    found = [token for token in _Events(len(before)).parse(before + source + after) if token.raw or token.name]
    tokens = found if whole else found[1:-1]
    return _merged(tokens)


class _Events:
    """Where the parts of a document begin, as expat reports them."""

    def __init__(self, shift: int) -> None:
        self._parser = parser = expat.ParserCreate("utf-8")
        self._events: list[tuple[int, Kind, str, Mapping[str, str]]] = [(0, "point", "", _NONE)]
        self._depth, self._shift, self._cdata = 0, shift, False
        self._last = 0  # where expat is
        parser.UseForeignDTD(True)
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._open
        parser.EndElementHandler = self._close
        parser.CharacterDataHandler = lambda text: self._add("point" if self._cdata else "text")
        parser.StartCdataSectionHandler = lambda: self._mark_cdata(True)
        parser.EndCdataSectionHandler = lambda: self._mark_cdata(False)
        parser.SkippedEntityHandler = self._reference
        parser.StartDoctypeDeclHandler = self._document_type
        parser.DefaultHandler = lambda text: self._add("point")

    def parse(self, source: str) -> list[Token]:
        """Return the tokens, text in pieces."""
        content = source.encode()
        try:
            for start in range(0, len(content), _CHUNK):
                self._parser.Parse(content[start : start + _CHUNK], False)
                if start + _CHUNK - self._last > _MOST_MARKUP:
                    raise DataError(f"xml: expected tags of at most {_MOST_MARKUP:,} bytes, found a longer one")
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise DataError(self._sentence(error)) from None
        ends = [start for start, *_ in self._events[1:]] + [len(content)]
        return [
            Token(kind, content[start:end].decode(), name, attributes)
            for (start, kind, name, attributes), end in zip(self._events, ends, strict=True)
        ]

    def _sentence(self, error: expat.ExpatError) -> str:
        column = error.offset + 1 - (self._shift if error.lineno == 1 else 0)
        reason = expat.ErrorString(error.code)
        return f"xml: expected well-formed XML, found at line {error.lineno}, column {column}: {reason}"

    def _add(self, kind: Kind, name: str = "", attributes: Mapping[str, str] | None = None) -> None:
        self._last = self._parser.CurrentByteIndex
        if name or self._events[-1][1:3] != (kind, ""):  # else it is more of the same
            self._events.append((self._last, kind, name, attributes or _NONE))
            check_tokens(len(self._events))

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        check_depth(self._depth, "xml")
        _check_attributes(attributes)
        self._add("open", name, attributes)

    def _close(self, name: str) -> None:
        self._depth -= 1
        self._add("close", name)

    def _reference(self, name: str, parameter: bool) -> None:
        """HTML's names for characters are known, in documents that don't declare them, too."""
        self._add("text" if f"{name};" in html5 else "point")

    def _mark_cdata(self, inside: bool) -> None:
        self._cdata = inside
        self._add("point")

    def _document_type(self, name: str, system: str | None, public: str | None, internal: bool) -> None:
        """What a document's type declares, such as the default of an attribute, could be as large as anybody likes."""
        if internal:
            raise DataError("xml: expected a document without entity declarations or others in its type, found some")
        self._add("point")


def _merged(tokens: list[Token]) -> list[Token]:
    """Join the pieces of text, and the two tags of an empty element."""
    merged: list[Token] = []
    for token in tokens:
        last = merged[-1] if merged else None
        if last is not None and token.kind == "close" and not token.raw and last.kind == "open":
            merged[-1] = Token("point", last.raw, last.name, last.attributes)
        elif not token.raw:
            continue
        elif last is not None and not token.name and not last.name and token.kind == last.kind:
            merged[-1] = Token(token.kind, last.raw + token.raw)
        else:
            merged.append(token)
    return merged


def subtitle_tokens(source: str) -> list[Token]:
    """Return the tokens of a cue's text: tags, positions in braces, and text without references."""
    tokens: list[Token] = []
    position = 0
    for match in SUBTITLE_TAG.finditer(source):
        if match.start() > position:
            tokens.append(Token("text", source[position : match.start()]))
        kind = "point" if match[2] is None else "close" if match[1] else "open"
        tokens.append(Token(kind, match[0], (match[2] or "").lower()))
        position = match.end()
    if position < len(source):
        tokens.append(Token("text", source[position:]))
    return tokens
