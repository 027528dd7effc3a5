"""ICU messages: `{count, plural, one {# dog} other {# dogs}}` has texts to translate, and keywords that aren't.

See https://unicode-org.github.io/icu/userguide/format_parse/messages/.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
