"""Blocks of a document: the texts between tags that separate sentences, and all that lies between them.

    source → tokens → blocks → sentences → translations → source

Nothing but sentences is written anew: what lies between and around them is copied.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwise.documents.codes import code_tokens, range_tokens
from headwise.documents.protected import TAG, find_arguments
from headwise.documents.rules import BLOCKS, NEVER, TagRules
from headwise.documents.sentence import Item, Mark, ProtectedPiece, Range, Sentence
from headwise.documents.tokens import (
    MOST_DEPTH,
    PLACEHOLDER,
    VOID,
    Token,
    check_depth,
    check_length,
    decoded,
    html_tokens,
    raw_of,
    subtitle_tokens,
    xml_tokens,
)

# What finds the tokens, by the kind of the source; raises `DataError` as `parse`.
TOKENS = {
    "html": html_tokens,
    "xml": xml_tokens,
    "subtitles": subtitle_tokens,
    "codes": code_tokens,
    "odf": range_tokens,
}
VERBATIM = "verbatim"  # the kind of the pieces that are code
_CODES = frozenset({"code", "kbd", "samp", "var"})
_LONGEST_CODE = 200  # characters
_KEPT = "xliff:g"  # around what the model reads, but mustn't change, in Android's strings
_MOST_NESTED = 8  # notes inside each other; further ones are inside sentences as other elements are
_MOST_UNOPENED = 64  # end tags of a block for elements that began before it
# Elements whose end tags may be left out, and the elements that end them then.
_ENDED_BY = {
    "p": BLOCKS - {"br", "button", "canvas", "audio", "video", "picture", "select"},
    "li": frozenset({"li"}),
    "dt": frozenset({"dt", "dd"}),
    "dd": frozenset({"dt", "dd"}),
    "option": frozenset({"option", "optgroup"}),
    "tr": frozenset({"tr", "tbody", "tfoot"}),
    "td": frozenset({"td", "th", "tr", "tbody", "tfoot"}),
    "th": frozenset({"td", "th", "tr", "tbody", "tfoot"}),
}


@dataclass
class TextRun:
    """Characters and their sources; a slice of it has some of them."""

    text: str
    sources: Sequence[str]

    @property
    def raw(self) -> str:
        """The source of the whole."""
        return "".join(self.sources)

    def __getitem__(self, part: slice) -> TextRun:
        return TextRun(self.text[part], self.sources[part])


BlockItem = TextRun | Mark | ProtectedPiece


def code_piece(code: str, raw: str) -> ProtectedPiece:
    """Return the piece of a code and its source. The model reads it between backticks, unless it is long."""
    readable = 0 < len(code) <= _LONGEST_CODE and "`" not in code and "\n" not in code
    return ProtectedPiece(f"`{code}`" if readable else code or "\ufffc", raw, VERBATIM, hidden=not readable)


def source_of(items: Sequence[BlockItem]) -> str:
    """Return the source of items of a block."""
    return "".join(item.raw for item in items)


@dataclass
class Block:
    """A text with marks and pieces.

    `lines` says whether its line ends separate sentences, as in `<pre>`, `markup` whether it is of a document, and
    `tags` whether it is a string of a program, whose text may have tags. `nested` are the parts of elements inside it
    that have paragraphs of their own, by what stands for each as the source of a mark.
    """

    items: list[BlockItem] = field(default_factory=list)
    lines: bool = False
    markup: bool = True
    tags: bool = False
    nested: dict[str, list[str | Block]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text, every white space character as a space unless lines count."""
        text = "".join(item.text for item in self.items if isinstance(item, TextRun | ProtectedPiece))
        return text if self.lines else "".join(" " if c.isspace() else c for c in text)

    def split(self, ranges: Sequence[Range]) -> tuple[list[Sentence], list[str]]:
        """Return the sentences in ranges of the text, and the sources before, between and after them.

        The ranges are disjoint, in order and without white space at their ends.
        """
        flat = self._flat()
        places = {
            (item.kind, item.element): position for position, item, _ in flat if isinstance(item, Mark) and item.element
        }
        sentences: list[Sentence] = []
        between: list[str] = []
        done = 0
        for start, end in ranges:
            first, last = _inner(flat, places, start, end, done)
            between.append("".join(source for _, _, source in flat[done:first]))
            sentences.append(Sentence(_items(flat[first:last]), self.markup))
            done = last
        between.append("".join(source for _, _, source in flat[done:]))
        return sentences, between

    def _flat(self) -> list[_Unit]:
        """Return the items with their positions; text character by character."""
        flat: list[_Unit] = []
        position = 0
        for item in self.items:
            if isinstance(item, TextRun):
                for character, source in zip(item.text, item.sources, strict=True):
                    flat.append((position, character, source))
                    position += 1
            else:
                flat.append((position, item, item.raw))
                position += len(item.text) if isinstance(item, ProtectedPiece) else 0
        return flat


_Unit = tuple[int, "str | Mark | ProtectedPiece", str]  # position, what it is, its source


def parse(source: str, rules: TagRules) -> list[str | Block]:
    """Return the blocks of a document, and between them what has no text to translate.

    Raises `DataError` for XML that isn't well-formed, and for elements that are nested too deeply.
    """
    return parse_tokens(TOKENS[rules.format](source), rules)


def parse_tokens(
    tokens: Sequence[Token], rules: TagRules, splitters: frozenset[str] | None = None, depth: int = 0
) -> list[str | Block]:
    """Return the blocks of a document as `parse`, or of an element inside as many others.

    `splitters` are the elements that separate sentences, by default those of the rules.
    """
    splitters = rules.splitters(tokens) if splitters is None else splitters
    reader = _Reader(splitters, markup=rules.format != "subtitles")
    position = 0
    while position < len(tokens):
        token = tokens[position]
        opens = token.kind == "open"
        ignored = (opens or token.kind == "point") and token.name and rules.ignored(token)
        nested = opens and token.name in rules.nested and depth < _MOST_NESTED
        whole = opens and (ignored or nested)
        end = _end(tokens, position, rules.format == "html") if whole else position + 1
        if ignored:
            reader.ignored(tokens[position:end])
        elif nested:
            inside = parse_tokens(tokens[position + 1 : end - 1], rules, splitters, depth + 1)
            reader.nested([token.raw, *inside, tokens[end - 1].raw])
        else:
            reader.read(token)
        position = end
    return reader.finish()


def every_block(parts: Sequence[str | Block]) -> Iterator[Block]:
    """Yield the blocks among parts, and those in elements inside them."""
    for part in parts:
        if isinstance(part, Block):
            yield part
            for nested in part.nested.values():
                yield from every_block(nested)


def tagged(block: Block) -> list[str | Block]:
    """Return a string's parts between the tags that separate sentences, in which an element is two marks.

    A tag that is no end of an element becomes a piece. The tags inside an ICU argument belong to its messages.
    """
    parts: list[str | Block] = []
    found: list[BlockItem] = []
    opened: list[tuple[int, str]] = []  # the tags that aren't closed yet: item, name
    elements = 0
    for item in block.items:
        if not isinstance(item, TextRun):
            found.append(item)
            continue
        position = 0
        for start, end in _tags(item.text):
            tag, raw = item.text[start:end], item[start:end].raw
            found.append(item[position:start])
            position = end
            name = tag.strip("</>").split()[0].lower()
            place = next((n for n in reversed(range(len(opened))) if opened[n][1] == name), None)
            if name in BLOCKS:
                parts += [replace(block, items=found), raw]
                found, opened = [], []
            elif tag[1] != "/" or place is None:
                if not tag.startswith("</") and not tag.endswith("/>") and len(opened) < MOST_DEPTH:
                    opened.append((len(found), name))
                found.append(ProtectedPiece(tag, raw, hidden=True))
            else:
                index, elements = opened[place][0], elements + 1
                del opened[place:]
                if name in NEVER or name == _KEPT:
                    whole = source_of(found[index:]) + raw
                    inner = "".join(one.text for one in found[index + 1 :] if isinstance(one, TextRun))
                    seen = name == _KEPT and inner.strip() != ""
                    piece = ProtectedPiece(inner if seen else whole, whole, hidden=not seen)
                    found[index:] = [code_piece(inner.strip(), whole) if name in _CODES else piece]
                else:
                    found[index] = Mark("open", source_of([found[index]]), elements)
                    found.append(Mark("close", raw, elements))
        found.append(item[position:])
    return [*parts, replace(block, items=found)]


def _tags(text: str) -> Iterator[Range]:
    """Yield where the tags of a string are, outside ICU arguments."""
    messages = iter([*find_arguments(text), None])
    message = next(messages)
    for match in TAG.finditer(text):
        while message is not None and message.end <= match.start():
            message = next(messages)
        if message is None or match.end() <= message.start:
            yield match.span()


def stand_in() -> str:
    """Return what stands for a part of a document in the source around it, until both are translated."""
    return f"\0{secrets.token_hex(8)}\0"


class _Reader:
    """Collects tokens to blocks."""

    def __init__(self, splitters: frozenset[str], *, markup: bool) -> None:
        self._splitters, self._markup = splitters, markup
        self._parts: list[str | Block] = []
        self._block = Block(markup=markup)
        self._tags: list[tuple[int, str]] = []  # the open elements of the block: item, name
        self._elements = self._unopened = self._preformatted = self._characters = 0

    def read(self, token: Token) -> None:
        """Add a token that isn't ignored."""
        if token.kind == "text":
            self._characters += len(token.raw)
            check_length(self._characters)
            self._block.items.append(TextRun(*(decoded(token.raw) if self._markup else (token.raw, token.raw))))
        elif token.name in self._splitters:
            self._separate(token.raw)
            if token.name == "pre":
                self._preformatted = max(0, self._preformatted + (1 if token.kind == "open" else -1))
                self._block.lines = self._preformatted > 0
        elif token.kind == "point":
            seen = token.name in ("img", "input", "embed")
            self._block.items.append(
                ProtectedPiece("\ufffc", token.raw, hidden=True) if seen else Mark("point", token.raw)
            )
        elif token.kind == "open":
            self._tags.append((len(self._block.items), token.name))
            check_depth(len(self._tags), "html")
            self._block.items.append(Mark("open", token.raw))
        else:
            self._close(token)

    def ignored(self, tokens: Sequence[Token]) -> None:
        """Add an element that isn't translated."""
        raw = raw_of(tokens)
        text = "".join(decoded(token.raw)[0] for token in tokens if token.kind == "text")
        text = " ".join(text.split())
        if tokens[0].name in self._splitters:
            self._separate(raw)
        elif text and tokens[0].name in _CODES:
            self._block.items.append(code_piece(text, raw))
        elif text or tokens[0].name == PLACEHOLDER:
            # It must stay outside its siblings and in its parent, wherever the model would put its text.
            self._block.items.append(ProtectedPiece(text or "\ufffc", raw, hidden=True))
        else:
            self._block.items.append(Mark("point", raw))

    def nested(self, parts: list[str | Block]) -> None:
        """Add an element inside a sentence that has paragraphs of its own."""
        stands = stand_in()
        self._block.nested[stands] = parts
        self._block.items.append(Mark("point", stands))

    def finish(self) -> list[str | Block]:
        """Return the parts."""
        self._separate("")
        return self._parts

    def _close(self, token: Token) -> None:
        """Add an end tag; the elements inside that aren't closed, and end tags without a beginning, become points."""
        items = self._block.items
        if not any(name == token.name for _, name in self._tags):
            self._unopened += 1
            inside = self._tags or self._unopened > _MOST_UNOPENED
            items.append(Mark("point" if inside else "close", token.raw))
            return
        while self._tags:
            place, name = self._tags.pop()
            mark = items[place]
            if name == token.name:
                self._elements += 1
                items[place] = Mark("open", mark.raw, self._elements)  # type: ignore[union-attr]
                items.append(Mark("close", token.raw, self._elements))
                return
            items[place] = Mark("point", mark.raw)  # type: ignore[union-attr]

    def _separate(self, raw: str) -> None:
        if self._block.items:
            self._parts.append(self._block)
        if raw:
            self._parts.append(raw)
        self._block, self._tags = Block([], self._block.lines, self._markup), []
        self._unopened = self._characters = 0


def _end(tokens: Sequence[Token], start: int, html: bool) -> int:
    """Return the number of the token after the element that begins at one."""
    root = tokens[start].name
    stack = [root]
    for number in range(start + 1, len(tokens)):
        token = tokens[number]
        if token.kind == "open":
            if html and len(stack) == 1 and token.name in _ENDED_BY.get(root, ()):
                return number
            stack.append(token.name)
            check_depth(len(stack), "html")
        elif token.kind == "close":
            if token.name in stack:
                while stack.pop() != token.name:
                    pass
                if not stack:
                    return number + 1
            elif root in _ENDED_BY and token.name not in VOID:
                return number
    return len(tokens)


def _inner(
    flat: Sequence[_Unit], places: Mapping[tuple[str, int], int], start: int, end: int, first: int
) -> tuple[int, int]:
    """Return the units of a sentence: its characters, and the tags at its ends whose other tag is further inside.

    `places` are the positions of the tags of elements; the sentence doesn't begin before the unit `first`.
    """
    while flat[first][0] < start or isinstance(flat[first][1], Mark):
        position, item, _ = flat[first]
        opens = position == start and isinstance(item, Mark) and item.kind == "open" and item.element > 0
        if opens and start < places["close", item.element] < end:  # type: ignore[union-attr]
            break
        first += 1
    last = first
    while last < len(flat) and flat[last][0] < end:
        last += 1
    extended = last
    while extended < len(flat) and flat[extended][0] == end and isinstance(flat[extended][1], Mark):
        item = flat[extended][1]
        extended += 1
        closes = isinstance(item, Mark) and item.kind == "close" and item.element > 0
        if closes and start < places["open", item.element] < end:  # type: ignore[union-attr]
            last = extended
    return first, last


def _items(units: Sequence[_Unit]) -> tuple[Item, ...]:
    """Return units as the items of a sentence: characters joined, white space as single spaces."""
    items: list[Item] = []
    for _, item, _ in units:
        if not isinstance(item, str):
            items.append(item)
            continue
        item = " " if item.isspace() else item
        if items and isinstance(items[-1], str):
            if item != " " or not items[-1].endswith(" "):
                items[-1] += item
        else:
            items.append(item)
    return tuple(items)
