"""Subscripts and superscripts: of which text they are a part.

Formulas, as SO<sub>4</sub><sup>2−</sup> and 10<sup>−6</sup>, are pieces that a translation repeats: no alignment of
words tells where the tags between their characters go. The number of a note isn't a part of the word before it. The end
of an ordinal, as in 1<sup>st</sup>, is one, and the tags go with it: a translation has another.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from headwise.documents.blocks import BlockItem, TextRun, source_of
from headwise.documents.sentence import Mark, ProtectedPiece

# The elements of HTML, and the properties of runs in WordprocessingML and DrawingML.
_SUBSCRIPT = re.compile(r'<sub[\s>]|<w:vertAlign w:val="subscript"|<w:rPr\s[^<>]{0,500}\bbaseline="-[1-9]')
_SUPERSCRIPT = re.compile(r'<sup[\s>]|<w:vertAlign w:val="superscript"|<w:rPr\s[^<>]{0,500}\bbaseline="[1-9]')
# What stands for tags and pieces where formulas are looked for.
_SUB, _SUP, _END, _OTHER = "\ue000\ue001\ue002\ue003"
_MARKS = str.maketrans(dict.fromkeys((_SUB, _SUP, _END), _OTHER))
_ORDINAL = rf"(?<=[\dIVXLC]){_SUP}(?:st|nd|rd|th|er|ère|re|e|ème|o|a){_END}"
_NOTE = (
    rf"(?<=[^\W\d_]|[.,;:!?'\"’”“)\]])"
    rf"(?:{_SUP}{_OTHER}?(?:\[?\d{{1,3}}\]?|[*†‡§]{{1,3}}|,){_OTHER}?{_END}){{1,9}}"
)
_PART = rf"[^\s{_SUB}-{_OTHER}]"
_INSIDE = rf"(?:{_PART}{{1,12}}|{_PART}{{1,6}} [+−*/=<>≤≥–-] {_PART}{{1,6}}){_END}"
_ENDS = rf"(?![{_SUB}-{_OTHER}]{{0,9}}\w)"  # also behind tags
_LOWERED, _RAISED = rf"{_SUB}{_INSIDE}", rf"(?!{_ORDINAL}){_SUP}{_INSIDE}"
_ELEMENT = r"(?:[A-Z][a-z]?|[(\[](?:[A-Z][a-z]?){1,9}[)\]])"
_FORMULA = (
    rf"(?<![\w{_END}])(?:"
    rf"[+−-]?\d(?:[\d.,·×]{{0,20}}\d)?{_RAISED}"
    rf"|(?:{_ELEMENT}{{1,9}}{_LOWERED}(?:{_RAISED})?){{1,9}}{_ELEMENT}{{0,9}}{_ENDS}"
    rf"|(?:[A-Za-zΑ-ω]|(?<=\d[ \u00a0])[kcdmµ]m)(?:{_LOWERED}|{_RAISED}){{1,3}}{_ENDS}"
    rf"|(?:[A-Z][a-z]?){{1,3}}{_SUP}\d?[+−–-]{_END}"
    r")"
)
_ANY = re.compile(f"(?P<formula>{_FORMULA})|(?P<ordinal>{_ORDINAL})|(?P<note>{_NOTE})")


def with_formulas(items: Sequence[BlockItem]) -> list[BlockItem]:
    """Return the items of a block with pieces in place of formulas and the numbers of notes, and ordinals as text."""
    scripts = {item.element: kind for item in items if isinstance(item, Mark) and (kind := _script(item))}
    if not scripts:
        return list(items)
    # Each character with its item, and each mark and piece, which stand for one.
    units = [(n, c) for n, item in enumerate(items) for c in _range(item)]
    text = "".join(_stand_in(items[n], c, scripts) for n, c in units)
    found: list[BlockItem] = []
    position = 0
    for match in _ANY.finditer(text):
        found += _items(items, units[position : match.start()])
        part = _items(items, units[match.start() : match.end()])
        seen = "".join(item.text for item in part if isinstance(item, TextRun))
        if match.lastgroup == "ordinal":
            found.append(TextRun(seen, [source_of(part), *[""] * (len(seen) - 1)]))
        else:
            hidden = match.lastgroup == "note"
            found.append(ProtectedPiece(seen, source_of(part), "note" if hidden else "formula", hidden))
        position = match.end()
    return found + _items(items, units[position:])


def _script(mark: Mark) -> str:
    """Return what stands for the beginning of a subscript or a superscript; nothing for another mark."""
    if mark.kind != "open":
        return ""
    return _SUB if _SUBSCRIPT.search(mark.raw) else _SUP if _SUPERSCRIPT.search(mark.raw) else ""


def _range(item: BlockItem) -> range:
    return range(len(item.text)) if isinstance(item, TextRun) else range(1)


def _stand_in(item: BlockItem, character: int, scripts: Mapping[int, str]) -> str:
    if isinstance(item, TextRun):
        return item.text[character].translate(_MARKS)
    if isinstance(item, Mark) and item.element in scripts:
        return scripts[item.element] if item.kind == "open" else _END
    return _OTHER


def _items(items: Sequence[BlockItem], units: Sequence[tuple[int, int]]) -> list[BlockItem]:
    """Return the items of some units, of which a run may be a part."""
    found: list[BlockItem] = []
    for number, group in itertools.groupby(units, lambda unit: unit[0]):
        item = items[number]
        if isinstance(item, TextRun):
            places = [character for _, character in group]
            item = item[places[0] : places[-1] + 1]
        found.append(item)
    return found
