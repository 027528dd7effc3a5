"""Words of a sentence with tags inside, such as `CO<sub>2</sub>`, which a translation mostly has as they are.

The tags stand between letters, of which no alignment of words tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headwise.documents.sentence import Found, Item, Mark, ProtectedPiece, Range, Sentence, words

KEPT = "word"  # the kind of the pieces that these words are
_OTHER = {"open": "close", "close": "open"}


def with_kept_words(
    sentence: Sentence, translation: str, target: Sequence[Range], found: Sequence[Found], write: Callable[[str], str]
) -> tuple[Sentence, list[Found]]:
    """Return a sentence in which those words are pieces that its translation has as often, and where all pieces are.

    `target` are the translation's words: a kept one is one of them. `found` says where the pieces are that the
    sentence has already, and `write` returns the source of a text.
    """
    units = [unit for item in sentence.items for unit in (item if isinstance(item, str) else [item])]
    # The units of the characters outside of pieces, by their positions in the text.
    places: dict[int, int] = {}
    position = 0
    for number, unit in enumerate(units):
        if isinstance(unit, str):
            places[position] = number
        position += 1 if isinstance(unit, str) else 0 if isinstance(unit, Mark) else len(unit.text)
    pieces = sentence.piece_ranges()
    here = _by_word(sentence.text, words(sentence.text, pieces), pieces)
    there = _by_word(translation, target, [(one.start, one.end) for one in found])
    partners = {(one.kind, one.element): n for n, one in enumerate(units) if isinstance(one, Mark)}
    spans: dict[int, tuple[int, ProtectedPiece, Range]] = {}
    for word, ranges in here.items():
        if len(ranges) != len(there[word]):
            continue
        for (start, end), translated in zip(ranges, there[word], strict=True):
            first, last = _span(units, partners, places[start], places[end - 1])
            if first < last:
                raw = "".join(write(one) if isinstance(one, str) else one.raw for one in units[first:last])
                spans[first] = last, ProtectedPiece(word, raw, KEPT), translated
    return _replaced(sentence, units, spans, found) if spans else (sentence, list(found))


def enclosed(sentence: Sentence) -> dict[int, set[int]]:
    """Return the elements around each kept word in a sentence, by its number among the pieces."""
    around: dict[int, set[int]] = {}
    opened: set[int] = set()
    number = 0
    for item in sentence.items:
        if isinstance(item, Mark) and item.kind != "point":
            opened ^= {item.element}
        elif isinstance(item, ProtectedPiece):
            if item.kind == KEPT:
                around[number] = opened - {0}
            number += 1
    return around


def _by_word(text: str, ranges: Sequence[Range], pieces: Sequence[Range]) -> defaultdict[str, list[Range]]:
    """Return where each of a text's words, which have those ranges, is; without pieces."""
    known, found = set(pieces), defaultdict[str, list[Range]](list)
    for start, end in ranges:
        if (start, end) not in known:
            found[text[start:end]].append((start, end))
    return found


def _span(units: Sequence[Item], partners: Mapping[tuple[str, int], int], first: int, last: int) -> tuple[int, int]:
    """Return the units of a word with the tags in it and their partners; none if there are none or others around it."""

    def partner(number: int) -> int:
        one = units[number] if 0 <= number < len(units) else None
        kind = _OTHER.get(one.kind, "") if isinstance(one, Mark) else ""
        return partners.get((kind, one.element), -1) if isinstance(one, Mark) and one.element else -1

    start, end = first, last
    while first < partner(start - 1) < last:
        start -= 1
    while first < partner(end + 1) < last:
        end += 1
    marks = [n for n in range(start, end + 1) if isinstance(units[n], Mark)]
    tags = [n for n in marks if units[n].kind != "point"]  # type: ignore[union-attr]
    return (start, end + 1) if marks and all(start <= partner(n) <= end for n in tags) else (0, 0)


def _replaced(
    sentence: Sentence,
    units: Sequence[Item],
    spans: Mapping[int, tuple[int, ProtectedPiece, Range]],
    found: Sequence[Found],
) -> tuple[Sentence, list[Found]]:
    """Return a sentence with pieces in place of units, given by the first of these, and where all pieces are."""
    by_number = {one.piece: one for one in found}
    items: list[Item] = []
    everywhere: list[Found] = []
    number = before = after = 0  # a unit, and the pieces so far: of the sentence, and of the new one
    while number < len(units):
        unit = units[number]
        number += 1
        if span := spans.get(number - 1):
            number, unit, (start, end) = span
            everywhere.append(Found(start, end, after))
        elif isinstance(unit, ProtectedPiece):
            one = by_number.get(before)
            everywhere += [] if one is None else [replace(one, piece=after)]
            before += 1
        after += isinstance(unit, ProtectedPiece)
        if isinstance(unit, str) and items and isinstance(items[-1], str):
            items[-1] += unit
        else:
            items.append(unit)
    return replace(sentence, items=tuple(items)), sorted(everywhere, key=lambda one: one.start)
