"""Pieces of text that must not change: the arguments of ICU messages, and whether a translation has the pieces.

An ICU message such as `{count, plural, one {# dog} other {# dogs}}` has texts to translate, and keywords that aren't.
So has Java's `{0,choice,0#no dogs|1#one dog|1<{0} dogs}`.
See https://unicode-org.github.io/icu/userguide/format_parse/messages/.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from headwise.documents.pieces import find_pieces
from headwise.documents.sentence import Found, Mark, ProtectedPiece, Sentence

_MOST_SOUGHT = 200  # different pieces of a sentence: the time to find them is the product with its length
_PLACEHOLDERS = frozenset({"placeholder", "format", "icu"})
_RUBY = r"(?<=(?<![\d%])%)<\w{1,80}>[-+0#]{0,4}[\d.]{0,9}[diouxXeEfFgGaAcsp](?!\w)"  # %<name>s isn't a tag
TAG = re.compile(rf"(?!{_RUBY})<(/?)(?:\d{{1,3}}|[a-zA-Z][\w.:-]{{0,80}}(?:\s[^<>]{{0,1000}})?)/?>")


def locate(sentence: Sentence, translation: str) -> tuple[list[Found], list[int]]:
    """Return where the sentence's pieces are in its translation, in order, and the numbers of those that aren't.

    A piece is there if it occurs as often as in the sentence. Of a number, spaces and marks may differ.
    Of more than 200 different pieces, none is sought.
    """
    by_pattern: dict[str, list[int]] = defaultdict(list)
    for number, piece in enumerate(sentence.pieces):
        by_pattern[_pattern(piece)].append(number)
    if len(by_pattern) > _MOST_SOUGHT:
        return [], list(range(len(sentence.pieces)))
    taken = bytearray(len(translation))
    found: list[Found] = []
    missing: list[int] = []
    for pattern, numbers in sorted(by_pattern.items(), key=lambda one: -len(one[0])):
        matches = [one for one in re.finditer(pattern, translation) if not any(taken[slice(*one.span())])]
        if len(matches) != len(numbers):
            missing += numbers
            continue
        for match, number in zip(matches, numbers, strict=True):
            taken[slice(*match.span())] = b"\1" * len(match[0])
            found.append(Found(match.start(), match.end(), number))
    return sorted(found, key=lambda one: one.start), sorted(missing)


def intact(sentence: Sentence, translation: str) -> bool:
    """Whether a translation has the tags and placeholders of a strict sentence, and no others."""
    source = sentence.source
    marks = Counter(item.raw for item in sentence.items if isinstance(item, Mark))
    marks.update(piece.raw for piece in sentence.pieces if piece.kind in _PLACEHOLDERS)
    return _placeholders_and_tags(source) == _placeholders_and_tags(translation) and all(
        translation.count(raw) == source.count(raw) for raw in marks
    )


def _placeholders_and_tags(text: str) -> Counter[str]:
    """Return the placeholders and tags of a text."""
    found = Counter(text[start:end] for start, end, kind in find_pieces(text) if kind in _PLACEHOLDERS)
    found.update(match[0] for match in TAG.finditer(text))
    return found


def _pattern(piece: ProtectedPiece) -> str:
    """Return a regular expression for a piece in a translation."""
    pattern = re.escape(piece.text)
    if piece.kind == "number":
        parts = re.findall(r"\d+|[.,]|[^\d.,\s]+", piece.text)
        written = ["[.,\u00a0\u202f]" if part in ".," else re.escape(part) for part in parts]
        pattern = written[0]
        for last, part, source in zip(parts, written[1:], parts[1:], strict=False):
            joined = source in ".," or last in ".,"
            pattern += part if joined or source.isdigit() == last.isdigit() else rf"\s?{part}"
    before = r"(?<!\w)" if piece.text[:1].isalnum() else ""
    after = r"(?!\w)" if piece.text[-1:].isalnum() else ""
    return before + pattern + after


_HEAD = re.compile(
    r"\{\s{0,9}[\w.]{1,80}\s{0,9},\s{0,9}(plural|selectordinal|select|choice)\s{0,9},\s{0,9}(?:offset\s{0,9}:\s{0,9}\d{1,9}\s{1,9})?"
)
_SELECTOR = re.compile(r"\s*+(?:=\d{1,9}|[\w-]{1,80})\s*+\{")
_LIMIT = re.compile(r"\s*+-?(?:\d{1,9}(?:\.\d{1,9})?|∞)\s*+[#<≤]")  # of a choice, whose last message ends with it
_END = re.compile(r"\s*+\}")
MOST_DEPTH = 8


@dataclass(frozen=True)
class Argument:
    """A plural, select or choice argument: its range in the text, and those of its sub-messages."""

    start: int
    end: int
    messages: tuple[tuple[int, int], ...]


def find_arguments(text: str) -> list[Argument]:
    """Return the outermost plural, select and choice arguments of a text; what isn't well-formed isn't one."""
    found: list[Argument] = []
    position = 0
    while (match := _HEAD.search(text, position)) is not None:
        argument = _argument(text, match)
        if argument is None:
            position = match.end()
        else:
            found.append(argument)
            position = argument.end
    return found


def _argument(text: str, head: re.Match[str]) -> Argument | None:
    messages: list[tuple[int, int]] = []
    position = head.end()
    choice = head[1] == "choice"
    while (selector := (_LIMIT if choice else _SELECTOR).match(text, position)) is not None:
        end = _end_of_message(text, selector.end(), choice)
        if end is None:
            return None
        messages.append((selector.end(), end))
        position = end if choice and text[end] == "}" else end + 1
    closing = _END.match(text, position)
    if closing is None or not messages:
        return None
    return Argument(head.start(), closing.end(), tuple(messages))


def _end_of_message(text: str, position: int, choice: bool) -> int | None:
    """Return the position of the brace that closes a message, by ICU's rules for apostrophes; None without one.

    The messages of a choice are separated by `|`.
    """
    depth, quoted = 1, False
    deepest = 2 * MOST_DEPTH
    while position < len(text):
        character = text[position]
        if character == "'":
            following = text[position + 1 : position + 2]
            if following == "'":
                position += 1
            elif quoted:
                quoted = False
            elif following in ("{", "}", "#", "|"):
                quoted = following != ""
        elif choice and not quoted and depth == 1 and character == "|":
            return position
        elif not quoted and character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return position
            if depth > deepest:
                return None
        position += 1
    return None
