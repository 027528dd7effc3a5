"""Tokens of HTML, as browsers find them: https://html.spec.whatwg.org/multipage/parsing.html#tokenization.

A parser that builds a tree and writes it again changes quotes, references, white space in tags and what the source
leaves out. So tags are found in the source and copied from it. The time is linear in the length of the source.
"""

from __future__ import annotations

import html
import re

from headwise.text.markup.tokens import Token

_VOID_NAMES = "area base br col embed hr img input link meta param source track wbr"
_RAW_NAMES = "script style xmp iframe noembed noframes textarea title"
VOID = frozenset(_VOID_NAMES.split())
_RAW = frozenset(_RAW_NAMES.split())  # no tags inside
_SPACE = r"[ \t\n\f\r]"
_ATTRIBUTE = re.compile(
    rf"(?:{_SPACE}|/)*+(?:(=?[^ \t\n\f\r/>=]*+)(?:{_SPACE}*+={_SPACE}*+"
    r"""(?:(["'])|([^ \t\n\f\r>]++)|(?=>)))?)"""
)
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
    if following in ("!", "?") or (closing and start + 2 < len(source)):
        end = source.find(">", start + 2)
        end = len(source) if end < 0 else end + 1
        return Token("point", source[start:end]), end
    return None, start + 1


def _comment(source: str, start: int) -> tuple[Token, int]:
    for short in ("<!-->", "<!--->"):
        if source.startswith(short, start):
            return Token("point", short), start + len(short)
    ends = [end + len(mark) for mark in ("-->", "--!>") if (end := source.find(mark, start + 4)) >= 0]
    end = min(ends, default=len(source))
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
    if position >= len(source):
        return Token("point", source[start:]), len(source)
    end = position + 1
    lower = name[0].lower()
    kind = "close" if closing else "point" if lower in VOID else "open"
    return Token(kind, source[start:end], lower, {} if closing else attributes), end


def _end_of_raw(source: str, start: int, name: str) -> int:
    match = re.compile(rf"</{name}(?=[ \t\n\f\r/>])", re.IGNORECASE | re.ASCII).search(source, start)
    return len(source) if match is None else match.start()
