"""Pieces of text that must not change: where they are in a sentence, and whether its translation has them.

An ICU message such as `{count, plural, one {# dog} other {# dogs}}` has texts to translate, and keywords that aren't.
See https://unicode-org.github.io/icu/userguide/format_parse/messages/.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from headwise.documents.placement import Found
from headwise.documents.sentence import Mark, ProtectedPiece, Sentence

_UNITS = (
    "°C|°F|°|K|%|‰|[kcmµμn]?m[²³23]?|[kKMGT]?B|[KMGT]iB|[kmµμ]?g|t|lbs?|oz|[mcd]?[lL]|[mµμn]?s|min|h|[kMG]?Hz|[km]?V|[km]?A|"
    "[kMG]?W|[kM]?Wh|[kM]?J|kcal|[km]?Pa|px|pt|dpi|km/h|m/s|mph|kbps|[MG]bit/s|ft|€|\\$|£|¥|EUR|USD|GBP|CHF"
)
_NUMBER = r"\d++(?:[.,]\d++)*+"
_EMOJI = (
    r"[0-9#*]\ufe0f?\u20e3|[\U0001f1e6-\U0001f1ff]{2}|"
    r"[\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u2600-\u27bf\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55"
    r"\U0001f000-\U0001f1e5\U0001f200-\U0001faff]"
)
_KINDS = {
    "url": r"(?<![\w@])(?:(?:https?|ftp)://|www\.)[^\s<>\"“”„{}|\\^`]++",
    "email": r"(?<![\w.+%-])[\w.+%-]++@[\w-]++(?:\.[\w-]++)++",
    "placeholder": r"\$\{[^{}\n]{1,80}\}|%\{[^{}\s]{1,80}\}|\{\{[^{}\n]{1,80}\}\}|"
    r"\{[\w.$\[\]]{0,80}(?:![rsa])?(?::[^{}\s]{0,20})?\}|"
    r"\{\s{0,3}[\w.]{1,80}\s{0,3},\s{0,3}(?:number|date|time|spellout|ordinal|duration)\s{0,3}(?:,[^{}]{0,80})?\}",
    "format": r"(?<![\d%])%(?:\(\w{1,80}\)|\d{1,3}\$)?[-+0#]{0,4}(?:\d{1,4}|\*)?(?:\.(?:\d{1,4}|\*))?"
    r"(?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGaAcsSp@](?!\w)|%%",
    "number": rf"(?<![\w.,])(?:{_NUMBER}[ \u00a0\u202f]?(?:{_UNITS})(?!\w)|[$€£¥]\s?{_NUMBER})",
    "emoji": rf"(?:{_EMOJI})[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]?(?:\u200d(?:{_EMOJI})[\ufe0f\U0001f3fb-\U0001f3ff]?)*",
}
_ANY = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))
_AFTER_ADDRESS = ".,;:!?'\"…»”’*_~"
_BRACKETS = {")": "(", "]": "["}
_MOST_SOUGHT = 200  # different pieces of a sentence: the time to find them is the product with its length
_SEPARATES = frozenset(
    {"url", "email", "placeholder", "format", "markup", "icu"}
)  # what a sentence can't end in

_PLACEHOLDERS = frozenset({"placeholder", "format", "icu"})


def find_pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the start, end and kind of the pieces of a text that must not change, in order.

    Kinds: `url`, `email`, `placeholder` ({name}, ${x}, {{x}}, %{x}), `format` (%s, %(name)d), `number` (with a unit or
    currency) and `emoji`.
    """
    for match in _ANY.finditer(text):
        kind = match.lastgroup
        assert kind is not None
        end = _end_of_address(match[0]) + match.start() if kind == "url" else match.end()
        yield match.start(), end, kind


def separates(kind: str) -> bool:
    """Whether a piece of this kind may have characters that look like the end of a sentence."""
    return kind in _SEPARATES


def _end_of_address(address: str) -> int:
    """Return the length of an address without the punctuation of the sentence around it."""
    end = len(address)
    counts = Counter(character for character in address if character in "()[]")
    while end:
        last = address[end - 1]
        unbalanced = last in _BRACKETS and counts[last] > counts[_BRACKETS[last]]
        if last not in _AFTER_ADDRESS and not unbalanced:
            break
        counts[last] -= 1
        end -= 1
    return end


def locate(sentence: Sentence, translation: str) -> tuple[list[Found], list[int]]:
    """Return where the sentence's pieces are in its translation, in order, and the numbers of those that aren't.

    A piece is there if it occurs as often as in the sentence. Of a number, spaces and the decimal mark may differ.
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
        matches = [
            match
            for match in re.finditer(pattern, translation)
            if not any(taken[match.start() : match.end()])
        ]
        if len(matches) != len(numbers):
            missing += numbers
            continue
        for match, number in zip(matches, numbers, strict=True):
            taken[match.start() : match.end()] = b"\1" * (match.end() - match.start())
            found.append(Found(match.start(), match.end(), number))
    return sorted(found, key=lambda one: one.start), sorted(missing)


def intact(sentence: Sentence, translation: str) -> bool:
    """Whether a translation has the tags and placeholders of a strict sentence, and no others."""
    source = sentence.source
    marks = Counter(item.raw for item in sentence.items if isinstance(item, Mark))
    marks.update(piece.raw for piece in sentence.pieces if piece.kind in _PLACEHOLDERS)
    return _placeholders(source) == _placeholders(translation) and all(
        translation.count(raw) == source.count(raw) for raw in marks
    )


def _placeholders(text: str) -> Counter[str]:
    return Counter(text[start:end] for start, end, kind in find_pieces(text) if kind in _PLACEHOLDERS)


def _pattern(piece: ProtectedPiece) -> str:
    """Return a regular expression for a piece in a translation."""
    pattern = re.escape(piece.text)
    if piece.kind == "number":
        parts = re.findall(r"\d+|[.,]|[^\d.,\s]+", piece.text)
        written = ["[.,]" if part in ".," else re.escape(part) for part in parts]
        pattern = written[0]
        for last, part, source in zip(parts, written[1:], parts[1:], strict=False):
            joined = part == "[.,]" or last in ".,"
            pattern += part if joined or source.isdigit() == last.isdigit() else rf"\s?{part}"
    before = r"(?<!\w)" if piece.text[:1].isalnum() else ""
    after = r"(?!\w)" if piece.text[-1:].isalnum() else ""
    return before + pattern + after


_HEAD = re.compile(
    r"\{\s{0,9}[\w.]{1,80}\s{0,9},\s{0,9}(plural|selectordinal|select)\s{0,9},\s{0,9}(?:offset\s{0,9}:\s{0,9}\d{1,9}\s{1,9})?"
)
_SELECTOR = re.compile(r"\s*+(?:=\d{1,9}|[\w-]{1,80})\s*+\{")
_END = re.compile(r"\s*+\}")
MOST_DEPTH = 8


@dataclass(frozen=True)
class Argument:
    """A plural or select argument: its range in the text, and those of its sub-messages.

    `counted` says whether `#` in a sub-message stands for the number.
    """

    start: int
    end: int
    messages: tuple[tuple[int, int], ...]
    counted: bool


def find_arguments(text: str) -> list[Argument]:
    """Return the outermost plural and select arguments of a text; what isn't well-formed isn't one."""
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
    while (selector := _SELECTOR.match(text, position)) is not None:
        end = _end_of_message(text, selector.end())
        if end is None:
            return None
        messages.append((selector.end(), end))
        position = end + 1
    closing = _END.match(text, position)
    if closing is None or not messages:
        return None
    return Argument(head.start(), closing.end(), tuple(messages), head[1] != "select")


def _end_of_message(text: str, position: int) -> int | None:
    """Return the position of the brace that closes a message, by ICU's rules for apostrophes; None without one."""
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
        elif not quoted and character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return position
            if depth > deepest:
                return None
        position += 1
    return None
