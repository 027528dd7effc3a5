"""Paragraphs of Word's files: WordprocessingML (ISO/IEC 29500-1, section 17).

A paragraph is a sequence of runs, each with its formatting. The formatting of most of the text is taken for that of the
whole paragraph; the other runs are elements inside it, which are placed as tags are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.characters import has_letters_or_digits
from headwise.documents.blocks import Block, TextRun
from headwise.documents.sentence import Mark
from headwise.documents.tokens import (
    NestingError,
    Token,
    check_length,
    decoded,
    end_of_element,
    escaped,
    raw_of,
)

_DROPPED = frozenset({"w:proofErr", "w:lastRenderedPageBreak", "w:softHyphen"})  # of the old text alone
_AROUND_NAMES = "bdo customXml dir fldSimple hyperlink ins moveTo sdt sdtContent smartTag"
_AROUND = frozenset(f"w:{name}" for name in _AROUND_NAMES.split())
# Of an element around runs, before these.
_PROPERTIES = frozenset({"w:customXmlPr", "w:fldData", "w:sdtPr", "w:sdtEndPr", "w:smartTagPr"})
_SEPARATORS = re.compile("<w:(?:br|cr|drawing|ptab|tab)")
_FIELD = re.compile(r"<w:r[ >].*?<w:fldChar\s[^<>]*?\bw:fldCharType=[\"'](\w+)", re.DOTALL)
_RANGE = re.compile(r"<w:(\w+)(Start|End)\s[^<>]*?\bw:id=[\"'](\w+)")  # bookmarks, what a comment is about
_NO_TEXT = re.compile(r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_MOST_OPENED = 64  # fields and ranges of a paragraph that are open at once
_MOST_AROUND = 3  # paragraphs around one, each of which is read once more; Word has one
_OPEN, _CLOSE = '<w:t xml:space="preserve">', "</w:t>"


@dataclass(frozen=True)
class _Text:
    """Text of a run, with the source that begins a run of its formatting."""

    raw: str
    run: str


@dataclass(frozen=True)
class _Tag:
    """The tag of an element around runs."""

    raw: str
    opens: bool


@dataclass(frozen=True)
class _Nested:
    """What has paragraphs of its own, such as a text box."""

    parts: list[str | Block]


_Part = _Text | _Tag | _Nested | str  # a string stands between runs as it is


def paragraphs(tokens: Sequence[Token], depth: int = 0) -> list[str | Block]:
    """Return the paragraphs' texts as blocks, and between them all else; `depth` paragraphs are around them."""
    parts: list[str | Block] = []
    position = start = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if token.kind == "open" and token.name == "w:p":
            end = end_of_element(tokens, position - 1) - 1
            parts += [raw_of(tokens[start:position]), *_paragraph(tokens[position:end], depth)]
            position = start = end
    return [*parts, raw_of(tokens[start:])]


def _paragraph(tokens: Sequence[Token], depth: int) -> list[str | Block]:
    try:
        found = _paired(_parts(tokens, depth))
    except NestingError:  # such as the beginning of a text box
        return [raw_of(tokens)]
    lengths: Counter[str] = Counter()
    for part in found:
        if isinstance(part, _Text):
            lengths[part.run] += len(part.raw)
    check_length(sum(lengths.values()))
    text = "".join(decoded(part.raw)[0] for part in found if isinstance(part, _Text))
    nested = any(isinstance(part, _Nested) for part in found)
    if not has_letters_or_digits(text) and not nested:
        return [raw_of(tokens)]
    return _blocks(found, (lengths.most_common(1)[0][0] if lengths else "<w:r>") + _OPEN)


def _parts(tokens: Sequence[Token], depth: int) -> list[_Part]:
    """Return the texts of a paragraph's runs, and what is between them."""
    found: list[_Part] = []
    position = 0
    while position < len(tokens):
        token, end = tokens[position], position + 1
        if token.kind == "open" and token.name == "w:r":
            end = end_of_element(tokens, position)
            found += _run(tokens[position:end], depth)
        elif token.name in _AROUND and token.kind in ("open", "close"):
            while end < len(tokens) and tokens[end].name in _PROPERTIES:
                end = end_of_element(tokens, end) if tokens[end].kind == "open" else end + 1
            found.append(_Tag(raw_of(tokens[position:end]), token.kind == "open"))
        elif token.kind == "open":
            end = end_of_element(tokens, position)
            found.append(raw_of(tokens[position:end]))
        elif token.kind == "close":
            raise NestingError
        elif token.name not in _DROPPED:
            found.append(token.raw)
        position = end
    return found


def _run(tokens: Sequence[Token], depth: int) -> list[_Part]:
    """Return the texts of a run; what else it has gets a run of its own."""
    position = 1
    if tokens[1].name == "w:rPr":
        position = 2 if tokens[1].kind == "point" else end_of_element(tokens, 1)
    beginning = raw_of(tokens[:position])
    found: list[_Part] = []
    while position < len(tokens) - 1:
        token = tokens[position]
        end = position + 1 if token.kind != "open" else end_of_element(tokens, position)
        raw = raw_of(tokens[position:end])
        if token.name == "w:t" and token.kind == "open":
            found.append(_Text(_characters(tokens[position + 1 : end - 1]), beginning))
        elif depth < _MOST_AROUND and any(one.name == "w:p" for one in tokens[position:end]):
            found.append(_Nested([beginning, *paragraphs(tokens[position:end], depth + 1), "</w:r>"]))
        elif token.name == "w:noBreakHyphen":
            found.append(_Text("-", beginning))
        elif raw.strip() and token.name not in _DROPPED:
            found.append(f"{beginning}{raw}</w:r>")
        position = end
    return found


def _paired(parts: Sequence[_Part]) -> list[_Part]:
    """Return the parts with fields, bookmarks and other ranges as elements: none may end before it begins.

    What a field computes is the text of its element; its instruction is one part with its beginning. What doesn't begin
    and end inside the same element of the paragraph is left as it is.
    """
    found: list[_Part] = []
    opened: list[tuple[str, int, bool]] = []  # name, number among those found, whether a result may follow
    for part in parts:
        name, role = _range(part)
        place = _opened(opened, name) if role in ("separate", "end") else None
        if role == "begin" and (name == "tag" or len(opened) < _MOST_OPENED):
            opened.append((name, len(found), name == "field"))
        elif place is not None and opened[place][2]:
            start = opened[place][1]
            del opened[place:]
            if not any(isinstance(one, _Nested) for one in found[start:]):
                found[start:] = ["".join(map(_raw, [*found[start:], part]))]
                opened += [(name, start, False)] if role == "separate" else []
                continue
        elif place is not None and role == "end":
            start = opened[place][1]
            del opened[place:]
            found[start], part = _Tag(_raw(found[start]), True), _Tag(_raw(part), False)
        found.append(part)
    return found


def _range(part: _Part) -> tuple[str, str]:
    """Return what a part begins or ends, and which of them; empty for another part."""
    if isinstance(part, _Tag):
        return "tag", "begin" if part.opens else "end"
    if isinstance(part, str) and (field := _FIELD.match(part)):
        return "field", field[1]
    if isinstance(part, str) and (match := _RANGE.match(part)):
        return f"{match[1]} {match[3]}", "begin" if match[2] == "Start" else "end"
    return "", ""


def _opened(opened: Sequence[tuple[str, int, bool]], name: str) -> int | None:
    """Return the place of the last of a name; None where it would end outside the element in which it began."""
    for place in reversed(range(len(opened))):
        if opened[place][0] == name:
            return place
        if opened[place][0] == "tag" or (opened[place][0] == "field" and name not in ("tag", "field")):
            return None
    return None


def _raw(part: _Part) -> str:
    """Return the source of a part that has no paragraphs."""
    assert not isinstance(part, _Nested)
    if isinstance(part, _Text):
        return f"{part.run}{_OPEN}{part.raw}{_CLOSE}</w:r>"
    return part if isinstance(part, str) else part.raw


def _characters(tokens: Sequence[Token]) -> str:
    """Return the source of a text without the comments in it, and with references in place of a CDATA section."""
    if any(token.name for token in tokens):
        raise NestingError
    return "".join(
        token.raw if token.kind == "text" else _NO_TEXT.sub(lambda match: escaped(match[1] or ""), token.raw)
        for token in tokens
    )


def _blocks(parts: Sequence[_Part], base: str) -> list[str | Block]:
    """Return a paragraph's texts as blocks: line breaks, tabs and pictures separate them."""
    before, after = base, f"{_CLOSE}</w:r>"
    blocks: list[str | Block] = []
    block = Block()
    element = 0
    opened: list[tuple[Block, int]] = []
    for part in parts:
        if isinstance(part, _Text):
            run = TextRun(*decoded(part.raw))
            if not run.text:
                continue
            if part.run + _OPEN == base:
                block.items.append(run)
            else:
                element += 1
                opening, closing = f"{after}{part.run}{_OPEN}", f"{after}{before}"
                block.items += [Mark("open", opening, element), run, Mark("close", closing, element)]
        elif isinstance(part, _Nested):
            blocks += [before, block, after, *part.parts]
            block = Block()
        elif isinstance(part, str):
            if _SEPARATORS.search(part):
                blocks += [before, block, after, part]
                block = Block()
            else:
                block.items.append(Mark("point", f"{after}{part}{before}"))
        elif part.opens:
            element += 1
            opened.append((block, element))
            block.items.append(Mark("open", f"{after}{part.raw}{before}", element))
        else:
            start, number = opened.pop() if opened else (block, 0)
            same = start is block
            if not same:  # it began before a line break
                _unpair(start, number)
            block.items.append(Mark("close", f"{after}{part.raw}{before}", number if same else 0))
    return [*blocks, before, block, after]


def _unpair(block: Block, number: int) -> None:
    block.items = [
        Mark("open", item.raw) if isinstance(item, Mark) and item.element == number else item for item in block.items
    ]


def without_empty_runs(source: str) -> str:
    """Return a part's source without the runs that have no text, which `_blocks` leaves between others."""
    result: list[str] = []
    position = 0
    mark = f"{_OPEN}{_CLOSE}</w:r>"
    while (end := source.find(mark, position)) >= 0:
        start = max(source.rfind("<w:r>", position, end), source.rfind("<w:r ", position, end))
        inside = source[start:end]
        if start < 0 or "<w:t" in inside.replace("<w:tab", ""):
            result.append(source[position : end + len(mark)])
        else:
            result.append(source[position:start])
        position = end + len(mark)
    return "".join([*result, source[position:]])
