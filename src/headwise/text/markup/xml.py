"""Tokens of XML, found by expat, the parser of Python's standard library, in a document or a fragment."""

from __future__ import annotations

import re
from html.entities import html5
from xml.parsers import expat

from headwise.errors import DataError
from headwise.text.markup.tokens import Kind, Token, check_depth

_BEGINNING = re.compile(r"\ufeff?\s*<(?:\?xml\s|!DOCTYPE)")
_ROOT = "<r>", "</r>"


def xml_tokens(source: str) -> list[Token]:
    """Return the tokens of an XML document, or of a fragment: text and elements without one around them.

    Raises `DataError` for what isn't well-formed, for entities that the document declares, and for elements nested too
    deeply. External entities aren't read; references to undeclared ones are points.
    """
    whole = _BEGINNING.match(source) is not None
    before, after = ("", "") if whole else _ROOT
    found = [
        token for token in _Events(len(before)).parse(before + source + after) if token.raw or token.name
    ]
    tokens = found if whole else found[1:-1]
    return _merged(tokens)


class _Events:
    """Where the parts of a document begin, as expat reports them."""

    def __init__(self, shift: int) -> None:
        self._parser = parser = expat.ParserCreate("utf-8")
        self._events: list[tuple[int, Kind, str, dict[str, str]]] = []
        self._depth, self._shift, self._cdata = 0, shift, False
        parser.UseForeignDTD(True)
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._open
        parser.EndElementHandler = self._close
        parser.CharacterDataHandler = lambda text: self._add("point" if self._cdata else "text")
        parser.StartCdataSectionHandler = self._start_cdata
        parser.EndCdataSectionHandler = self._end_cdata
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = self._reference
        parser.StartDoctypeDeclHandler = lambda *names: self._add("point")
        parser.DefaultHandler = lambda text: self._add("point")

    def parse(self, source: str) -> list[Token]:
        """Return the tokens, text in pieces."""
        content = source.encode()
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            raise DataError(self._sentence(error)) from None
        events = [(0, "point", "", {}), *self._events]
        ends = [start for start, *_ in events[1:]] + [len(content)]
        return [
            Token(kind, content[start:end].decode(), name, attributes)
            for (start, kind, name, attributes), end in zip(events, ends, strict=True)
        ]

    def _sentence(self, error: expat.ExpatError) -> str:
        column = error.offset + 1 - (self._shift if error.lineno == 1 else 0)
        reason = expat.ErrorString(error.code)
        return f"xml: expected well-formed XML, found at line {error.lineno}, column {column}: {reason}"

    def _add(self, kind: Kind, name: str = "", attributes: dict[str, str] | None = None) -> None:
        self._events.append((self._parser.CurrentByteIndex, kind, name, attributes or {}))

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        check_depth(self._depth, "xml")
        self._add("open", name, attributes)

    def _close(self, name: str) -> None:
        self._depth -= 1
        self._add("close", name)

    def _reference(self, name: str, parameter: bool) -> None:
        """HTML's names for characters are known, in documents that don't declare them, too."""
        self._add("text" if f"{name};" in html5 else "point")

    def _start_cdata(self) -> None:
        self._cdata = True
        self._add("point")

    def _end_cdata(self) -> None:
        self._cdata = False
        self._add("point")

    def _entity(self, name: str, *rest: object) -> None:
        raise DataError("xml: expected a document without entity declarations, found one")


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
