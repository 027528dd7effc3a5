"""Emphasis in a plain text, as people type it in chats, notes and posts: *so*, **so**, _so_ and ~so~.

And links of reStructuredText, as Sphinx's catalogues have them: `text <target>`_ and :ref:`text <target>`.
"""

from __future__ import annotations

import re
from itertools import count

from headwise.documents.blocks import BlockItem, TextRun
from headwise.documents.pieces import positions_in_pieces
from headwise.documents.sentence import Mark

# A pair of delimiters around words of a line, neither joined to a word outside nor to a space inside. The names of
# Python, such as __init__, are none.
_EMPHASIS = re.compile(
    r"(?<![\w*~\\])(?P<mark>\*{1,3}|_|~{1,2})(?=[^\W_])(?P<inner>(?:(?!(?P=mark))[^\n]){1,200})(?<=[\w.!?…)])(?P=mark)(?![\w*~])"
    r"|(?<![\w`])(?P<role>(?::[a-z][\w:+.-]{0,40}:)?`)(?=\S)(?P<label>[^`<>\n]{1,200}?)(?P<target>\s<[^<>`\n]{1,300}>`_{0,2})(?![`\w])"
)


def emphasized(text: str) -> list[BlockItem]:
    """Return a text with the delimiters of emphasis as marks, those inside pieces such as addresses excepted."""
    if _EMPHASIS.search(text) is None:
        return [_run(text)]
    return _items(text, 0, positions_in_pieces(text), count(1))


def _items(text: str, offset: int, taken: set[int], elements: count[int]) -> list[BlockItem]:
    """Return the items of a text that begins at `offset` of the whole one."""
    items: list[BlockItem] = []
    position = 0
    for match in _EMPHASIS.finditer(text):
        mark = match["mark"]
        inner = "inner" if mark else "label"
        start, end = match.span(inner)
        if mark and {offset + match.start(), offset + end} & taken:
            continue
        element = next(elements)
        items += [
            _run(text[position : match.start()]),
            Mark("open", mark or match["role"], element),
            *_items(match[inner], offset + start, taken, elements),
            Mark("close", mark or match["target"], element),
        ]
        position = match.end()
    return [*items, _run(text[position:])]


def _run(text: str) -> TextRun:
    return TextRun(text, text)
