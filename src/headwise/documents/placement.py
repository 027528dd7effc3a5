"""Where the tags of a sentence go in its translation.

The weights of a word alignment say how much of each target word comes from inside an element. The element gets the
interval of target words with the largest sum of (that share − 1/2), and at least one word; one that begins and ends
with words gets no punctuation before its first or behind its last. An element's children get
intervals inside its own, disjoint ones, so that the tags are always balanced and every element stays in its parent.
What has no words (an image, a piece that was taken out) goes between the words to which its neighbours are aligned.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headwise.characters import has_letters_or_digits
from headwise.documents.kept_words import KEPT, enclosed, with_kept_words
from headwise.documents.sentence import Found, Item, Mark, ProtectedPiece, Range, Sentence, Weights, words
from headwise.documents.tokens import escaped

_SHARE = 0.5
_HARDLY = 1e-3
MOST_WEIGHTS = 1_000_000  # beyond it, and with very many tags, the diagonal is used
_MOST_STEPS = 2_000_000
_FOLLOWS = re.compile(r"[.,;!?…)\]}»”’]|[:%](?![\w({])")  # without a space before it, unlike :name and %(name)s
# No tag goes into a contraction (isn't), or between the digits of a number (1.200, 10:30).
_WHOLE = re.compile(r"(?<![^\W\d_])[^\W\d_]++['’](?:t|s|re|ll|ve|d|m)(?!\w)|(?<!\w)\d++(?:[.,:\u00a0\u202f]\d++)++")
_CERTAIN = 1000.0  # the factor of words that are known to come from a piece


@dataclass(frozen=True)
class _Insertion:
    """A tag or a piece, or a space before or after that, and where in the translation it goes."""

    offset: int
    kind: Literal["before", "open", "point", "close", "after"]
    raw: str
    element: int = 0


@dataclass
class _Node:
    """An element or a point: its tags, its place in the source and the words that it gets in the target.

    `start` and `end` count source words. Of an element that begins before the sentence or ends after it, `opening` or
    `closing` is None. `spaces` are those around it, as of a mark, where it has no words.
    """

    start: int
    end: int
    opening: Mark | None
    closing: Mark | None
    glued: bool
    spaces: tuple[bool | None, bool | None] = (None, None)
    children: list[_Node] = field(default_factory=list)
    first: int = 0  # target words
    last: int = 0

    @property
    def point(self) -> bool:
        """Whether it isn't an element."""
        return self.opening is not None and self.opening.kind == "point"

    @property
    def cut(self) -> bool:
        """Whether it is an element that begins before the sentence or ends after it."""
        return not self.point and (self.opening is None or self.closing is None)

    def bars(self, place: int) -> bool:
        """Whether what stands at a place between target words would be inside it."""
        return (self.opening is None or self.first < place) and (
            place < self.last or (self.closing is None and place > self.first)
        )


def source_words(sentence: Sentence) -> list[Range]:
    """Return the ranges of the words of a sentence's text; a piece is one word."""
    return words(sentence.text, sentence.piece_ranges())


def target_words(translation: str, found: Sequence[Found]) -> list[Range]:
    """Return the ranges of the words of a translation; a piece is one word, as is a contraction (isn't) or a number."""
    pieces = [(one.start, one.end) for one in found]
    whole = [match.span() for match in _WHOLE.finditer(translation)]
    kept = [(a, b) for a, b in whole if not any(start < b and a < end for start, end in pieces)]
    return words(translation, sorted([*pieces, *kept]))


def diagonal(target: int, source: int) -> Weights:
    """Return the weights of an alignment along the diagonal, shape (target, source), for want of a better one."""
    weights = np.zeros((target, source), dtype=np.float32)
    for row in range(target):
        weights[row, row * source // target] = 1.0
    return weights


def placed(sentence: Sentence, translation: str, found: Sequence[Found] = (), weights: Weights | None = None) -> str:
    """Return a translation with the sentence's marks and the sources of its pieces.

    `found` says where pieces are in the translation, in order. `weights` are those of the alignment, shape (target
    words, source words), with words as `target_words` and `source_words` find them; without them the diagonal is used.
    """
    write = escaped if sentence.markup else str
    if not (found or sentence.has_marks):
        return write(translation)
    kept, places = with_kept_words(sentence, translation, target_words(translation, found), found, write)
    insertions = _insertions(kept, translation, places, weights)
    if kept is not sentence:
        if _enclosing(kept, places, insertions) == enclosed(kept):
            sentence, found = kept, places
        else:  # a word would leave its element
            insertions = _insertions(sentence, translation, found, weights)
    # What stands in place of a range of the translation; tags before a piece come first.
    replaced = [(one.offset, 0, one.offset, one.raw) for one in _outside(insertions)]
    pieces = sentence.pieces
    for one in found:
        number = pieces[one.piece].kind == "number"  # stands as the translation has it
        raw = write(translation[one.start : one.end]) if number else pieces[one.piece].raw
        replaced.append((one.start, 1, one.end, raw))
    parts, position = [], 0
    for start, _, end, raw in sorted(replaced, key=lambda one: one[:2]):
        parts += [write(translation[position:start]), raw]
        position = end
    return "".join([*parts, write(translation[position:])])


def _insertions(
    sentence: Sentence, translation: str, found: Sequence[Found], weights: Weights | None
) -> list[_Insertion]:
    """Return what is inserted for the marks of a sentence, in order."""
    source = source_words(sentence)
    target = target_words(translation, found)
    insertions: list[_Insertion] = []
    if sentence.has_marks:
        root = _tree(sentence, source)
        root.first, root.last = 0, len(target)
        if len(source) * len(target) > MOST_WEIGHTS:
            _spread(root)
        else:
            weights = diagonal(len(target), len(source)) if weights is None else weights
            weights = _with_pieces(weights, source, target, sentence, found)
            here = [sentence.text[start:end] for start, end in source]
            there = [translation[start:end] for start, end in target]
            _Placement(weights, here, there).place(root)
        _insert(root, target, translation, (0, len(translation)), insertions)
    return insertions


def _lettered(words: Sequence[str]) -> NDArray[np.bool_]:
    """Return whether each word has a letter or a digit."""
    return np.array([has_letters_or_digits(word) for word in words], dtype=bool)


def _inside_abbreviations(words: Sequence[str], lettered: NDArray[np.bool_]) -> set[int]:
    """Return the places in `z. B.`: before full stops with words behind them, and between two with one between them.

    The last word of a sentence, as in `e.g. or.`, isn't one between them unless it is a single letter; its full stop
    is the abbreviation's then.
    """
    last = int(max(np.flatnonzero(lettered), default=0))
    before = {n for n in range(last) if words[n] == "."}
    between = {
        n for n in range(1, last + 1) if words[n - 1 : n + 2 : 2] == [".", "."] and (n < last or len(words[n]) == 1)
    }
    return before | between | ({last + 1} if last in between else set())


def _enclosing(sentence: Sentence, found: Sequence[Found], insertions: Sequence[_Insertion]) -> dict[int, set[int]]:
    """Return the elements around each kept word in the translation, by its number among the pieces."""
    pieces = sentence.pieces
    around: dict[int, set[int]] = {}
    opened: set[int] = set()
    place = 0
    for one in found:
        while place < len(insertions) and insertions[place].offset <= one.start:
            if insertions[place].kind in ("open", "close"):
                opened ^= {insertions[place].element}
            place += 1
        if pieces[one.piece].kind == KEPT:
            around[one.piece] = opened - {0}
    return around


def _outside(insertions: Sequence[_Insertion]) -> list[_Insertion]:
    """Return insertions in order; the spaces around a piece at the edge of an element are outside of it."""
    found: list[_Insertion] = []
    for one in insertions:
        place = len(found)
        if one.kind == "before":
            while place and found[place - 1].offset == one.offset and found[place - 1].kind == "open":
                place -= 1
        elif one.kind == "close" and found and found[-1].offset == one.offset and found[-1].kind == "after":
            place -= 1
        found.insert(place, one)
    return found


def _with_pieces(
    weights: Weights, source: list[Range], target: list[Range], sentence: Sentence, found: Sequence[Found]
) -> Weights:
    """Return the weights where the words that are known to be pieces come from these with certainty."""
    weights = weights.copy()
    by_start = {start: word for word, (start, _) in enumerate(source)}
    rows = {start: word for word, (start, _) in enumerate(target)}
    ranges = sentence.piece_ranges()
    known = [
        (row, column)
        for one in found
        if (row := rows.get(one.start)) is not None and (column := by_start.get(ranges[one.piece][0])) is not None
    ]
    for row, column in known:
        weights[row], weights[:, column] = 0, 0  # no other word comes from the piece
    for row, column in known:
        weights[row, column] = _CERTAIN
    return weights


def _tree(sentence: Sentence, source: list[Range]) -> _Node:
    """Return the elements of a sentence as a tree; the root is the sentence."""
    starts, ends = [start for start, _ in source], [end for _, end in source]
    text, position = sentence.text, 0
    root = _Node(0, len(source), None, None, False)
    stack = [root]

    def word_at() -> int:
        return bisect_right(ends, position)

    for number, item in enumerate(sentence.items):
        if isinstance(item, str | ProtectedPiece):
            position += len(item if isinstance(item, str) else item.text)
            continue
        spaces = item.spaces or _around(sentence.items, number, text[max(position - 1, 0) : position + 1])
        glued = item.spaces[0] is not True if item.spaces else position > 0 and not text[position - 1].isspace()
        node = _Node(word_at(), word_at(), None, None, glued, spaces)
        if item.kind == "point":
            node.opening = item
            stack[-1].children.append(node)
        elif item.kind == "open":
            node.opening, node.end = item, len(source)
            stack[-1].children.append(node)
            stack.append(node)
        elif len(stack) > 1:
            node = stack.pop()
            node.closing, node.end = item, bisect_left(starts, position)
            node.end = max(node.end, node.start)
            node.spaces = node.spaces[0], spaces[1]
        else:  # it began before the sentence: it contains all so far
            node.start, node.end, node.closing = 0, bisect_left(starts, position), item
            node.children, root.children = root.children, [node]
    return root


def _around(items: Sequence[Item], number: int, beside: str) -> tuple[bool | None, bool | None]:
    """Return the spaces around a mark that stands between two: `beside` are the characters before and after it.

    Of several marks between them, the first has the space before, and the last the one behind.
    """
    if len(beside) < 2 or not beside.isspace():
        return None, None
    before, after = items[number - 1], items[number + 1]
    return None if isinstance(before, Mark) else True, None if isinstance(after, Mark) else True


class _Placement:
    """Places the nodes of one sentence, by the weights of its alignment, shape (target words, source words)."""

    def __init__(self, weights: Weights, source: Sequence[str], target: Sequence[str]) -> None:
        self._weights = weights
        self._source, self._target = _lettered(source), _lettered(target)
        self._barred = _inside_abbreviations(target, self._target)
        self._totals = weights.sum(1) + 1e-9
        self._factors = np.where(self._totals > 1.5, _CERTAIN, 1.0)

    def place(self, node: _Node) -> None:
        """Give a node's children, and theirs, their intervals inside the node's."""
        if len(node.children) ** 2 * (node.last - node.first) > _MOST_STEPS:
            _spread(node)
            return
        free = np.ones(node.last - node.first, dtype=bool)
        waiting: list[_Node] = []
        placed: list[_Node] = []
        for child in node.children:
            if child.end == child.start:
                continue
            if child.cut:
                self._take(node, child, free)
                placed.append(child)
            else:
                waiting.append(child)
        while waiting and free.any():
            _, number = max((self._best(node, child, free)[0], -n) for n, child in enumerate(waiting))
            self._take(node, waiting[-number], free)
            placed.append(waiting.pop(-number))
        done = set(map(id, placed))
        for child in node.children:
            if id(child) not in done:
                self._put(node, child, placed)
        order = {id(child): number for number, child in enumerate(node.children)}
        node.children.sort(key=lambda child: (child.first, child.last, order[id(child)]))
        for child in node.children:
            self.place(child)

    def _scores(self, node: _Node, child: _Node) -> NDArray[np.floating]:
        rows = slice(node.first, node.last)
        inside = self._weights[rows, child.start : child.end].sum(1) / self._totals[rows]
        return (inside - _SHARE) * self._factors[rows]

    def _best(self, node: _Node, child: _Node, free: NDArray[np.bool_]) -> tuple[float, int, int]:
        """Return the largest sum of scores of an interval of free words, and the interval: empty if none is free."""
        scores = self._scores(node, child)
        if self._source[child.start] and self._source[child.end - 1]:
            lettered = self._target[node.first : node.last]
            # Between words of the element, punctuation costs hardly anything; alone, it comes after any word.
            most = -_HARDLY if (scores[lettered & free] > 0).any() else -1.0
            scores = np.where(lettered, scores, np.minimum(scores, most))
        if child.closing is None:
            return self._suffix(scores, free)
        best = (-np.inf, 0, 0)
        total, start = 0.0, 0
        for position, score in enumerate(scores):
            if not free[position]:
                total, start = 0.0, position + 1
                continue
            if child.opening is None and start > 0:
                break  # it must contain the first word
            if total < 0 and child.opening is not None:
                total, start = 0.0, position
            total += float(score)
            if total > best[0]:
                best = (total, start, position + 1)
        return best

    @staticmethod
    def _suffix(scores: NDArray[np.floating], free: NDArray[np.bool_]) -> tuple[float, int, int]:
        """Return the best interval that ends with the last word."""
        best, total, length = (-np.inf, len(scores), len(scores)), 0.0, len(scores)
        for position in range(length - 1, -1, -1):
            if not free[position]:
                break
            total += float(scores[position])
            if total > best[0]:
                best = (total, position, length)
        return best

    def _take(self, node: _Node, child: _Node, free: NDArray[np.bool_]) -> None:
        _, start, end = self._best(node, child, free)
        free[start:end] = False
        child.first, child.last = node.first + start, node.first + end

    def _put(self, node: _Node, child: _Node, placed: Sequence[_Node]) -> None:
        """Put a node without words between two words, outside its siblings."""
        if child.cut:
            child.first = child.last = node.first if child.opening is None else node.last
            return
        before, after = child.start - 1, child.start
        best = (-np.inf, node.last)
        length = self._weights.shape[1]
        for place in range(node.first, node.last + 1):
            if any(one.bars(place) for one in placed):
                continue
            score = -_CERTAIN if place in self._barred else 0.0  # unless there is no other place
            for row, column, edge in ((place - 1, before, 0), (place, after, len(self._weights))):
                if 0 <= column < length:
                    if 0 <= row < len(self._weights):
                        score += float(self._weights[row, column] / self._totals[row])
                elif row in (-1, len(self._weights)) and place == edge:
                    score += 1.0
            if score > best[0]:
                best = (score, place)
        child.first = child.last = best[1]


def _spread(node: _Node) -> None:
    """Give a node's children, and theirs, the intervals that they have in the source, in proportion."""
    length = max(1, node.end - node.start)

    def place(word: int) -> int:
        return node.first + (word - node.start) * (node.last - node.first) // length

    for child in node.children:
        child.first, child.last = place(child.start), place(child.end)
        if child.cut:
            child.first = node.first if child.opening is None else child.first
            child.last = node.last if child.closing is None else child.last
        _spread(child)


def _insert(node: _Node, target: list[Range], translation: str, limits: Range, insertions: list[_Insertion]) -> None:
    """Add what is inserted for every mark below a node, in order."""
    position, stop = limits
    for child in node.children:
        if child.last > child.first:
            start, end = target[child.first][0], target[child.last - 1][1]
        else:
            before = target[child.first - 1][1] if child.first else 0
            after = target[child.first][0] if child.first < len(target) else len(translation)
            start = end = before if child.glued else after
        start = position if child.opening is None else min(max(start, position), stop)
        end = stop if child.cut and child.closing is None else min(max(end, start), stop)
        left, right = _spaces(child, translation, start)
        insertions += [_Insertion(start, "before", " ")] * left
        if child.opening is not None:
            opening = child.opening
            insertions.append(_Insertion(start, opening.kind, opening.raw, opening.element))
        _insert(child, target, translation, (start, end), insertions)
        if child.closing is not None:
            insertions.append(_Insertion(end, "close", child.closing.raw, child.closing.element))
        insertions += [_Insertion(end, "after", " ")] * right
        position = end


def _spaces(node: _Node, translation: str, offset: int) -> tuple[bool, bool]:
    """Return whether what has no words needs a space before it and after it, where there is none."""
    if node.end > node.start:
        return False, False
    before, after = translation[offset - 1 : offset] if offset else "", translation[offset : offset + 1]
    first, second = node.spaces
    left = before != "" and not before.isspace() and (first is True or (first is False and before.isalnum()))
    right = after != "" and not after.isspace() and not _FOLLOWS.match(translation, offset)
    return left, right and (second is True or (second is False and after.isalnum()))
