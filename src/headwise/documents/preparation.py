"""From a text or a document to the sentences that are translated, with their tags and protected pieces, and back."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from headwise.characters import has_letters
from headwise.config.languages import is_latin
from headwise.documents.blocks import (
    VERBATIM,
    Block,
    BlockItem,
    TextRun,
    code_piece,
    every_block,
    parse,
    source_of,
    stand_in,
    tagged,
)
from headwise.documents.emphasis import emphasized
from headwise.documents.formulas import with_formulas
from headwise.documents.pieces import SEPARATING, find_pieces, has_words
from headwise.documents.protected import MOST_DEPTH, find_arguments
from headwise.documents.rules import TagRules
from headwise.documents.segments import Mode, Segments, segment
from headwise.documents.sentence import Mark, ProtectedPiece, Range, Sentence
from headwise.documents.tokens import check_length

_STANDS = re.compile("\0[0-9a-f]{16}\0")  # for an ICU argument
_SIGN = re.compile(r"[+/|=:.,&*–—→>-]{1,3}")  # between codes
_MASK = "x"  # a letter, which ends no sentence
_NOTE_MASK = "”"  # behind a full stop, of the sentence before it, as the number of a note


@dataclass(frozen=True)
class PreparedDocument:
    """A text's sentences, and what stands before, between and after them: one more than there are sentences.

    `messages` are the texts inside ICU arguments, by the source that stands for each in a sentence.
    """

    sentences: tuple[Sentence, ...]
    between: tuple[str, ...]
    messages: Mapping[str, IcuMessage] = field(default_factory=dict)

    def join(self, translations: Sequence[str]) -> str:
        """Return the text with translations in place of `all_sentences`."""
        count = len(self.inner_sentences)
        sources = tuple(sentence.text for sentence in self.sentences)
        text = Segments(sources, self.between).join(translations[count:])
        return put_messages(text, self.translated_messages(translations[:count]))

    def join_ranks(self, translations: Sequence[Sequence[str]]) -> list[str]:
        """Return the texts with the translations of each rank, best first, without doubles.

        A sentence with fewer translations than another repeats its last.
        """
        ranks = max(map(len, translations), default=1)
        texts = [self.join([one[min(rank, len(one) - 1)] for one in translations]) for rank in range(ranks)]
        return list(dict.fromkeys(texts))

    def translated_messages(self, translations: Sequence[str]) -> dict[str, str]:
        """Return the ICU arguments by what stands for them, with translations in place of `inner_sentences`."""
        position = 0
        translated: dict[str, str] = {}
        for mark, message in self.messages.items():
            parts = [message.literals[0]]
            for part, literal in zip(message.parts, message.literals[1:], strict=True):
                count = len(part.all_sentences)
                parts += [part.join(translations[position : position + count]), literal]
                position += count
            translated[mark] = "".join(parts)
        return translated

    @property
    def inner_sentences(self) -> list[Sentence]:
        """The sentences of the messages."""
        parts = [part for message in self.messages.values() for part in message.parts]
        return [sentence for part in parts for sentence in part.all_sentences]

    @property
    def all_sentences(self) -> list[Sentence]:
        """The sentences of the messages, then the text's own."""
        return [*self.inner_sentences, *self.sentences]


def put_messages(text: str, messages: Mapping[str, str]) -> str:
    """Return a text with ICU arguments and elements in place of what stands for them, in one of these, too."""

    def message(match: re.Match[str]) -> str:
        found = messages.get(match[0])
        return match[0] if found is None else put_messages(found, messages)

    return _STANDS.sub(message, text) if messages else text


@dataclass(frozen=True)
class IcuMessage:
    """An ICU argument, or an element such as a note: its texts, and the source before, between and after them."""

    parts: tuple[PreparedDocument, ...]
    literals: tuple[str, ...]


@dataclass(frozen=True)
class ParsedText:
    """A text that is parsed, but not yet split into sentences: that needs its language.

    Of a `strict` one, such as a string of a program, the placeholders are checked after the translation.
    """

    blocks: tuple[str | Block, ...]
    mode: Mode
    protect: bool
    strict: bool = False

    @property
    def text(self) -> str:
        """The text without tags."""
        return "\n".join(block.text for block in every_block(self.blocks))

    def prepare(self, language: str, *, foreign: bool = True, numbers: Callable[[str], str] = str) -> PreparedDocument:
        """Split it into sentences by the rules of its language, an empty code if nobody tells which.

        With `foreign`, words in other scripts stay as they are if its language is written in Latin letters. `numbers`
        writes what has no words, such as a cell of a table, and changes characters one by one.
        """
        rules = _Rules(language, self.mode, self.protect, foreign and is_latin(language), self.strict, numbers)
        return _joined([_block(block, rules) for block in self.blocks])


@dataclass(frozen=True)
class _Rules:
    """How a text becomes sentences.

    Attributes:
        language: the code of its language.
        mode: where it is split.
        protect: whether pieces are found that must not change.
        foreign: whether words in other scripts are such pieces.
        strict: whether the placeholders are checked after the translation.
        numbers: writes what has no words.
        depth: how many ICU messages it is inside of.
    """

    language: str
    mode: Mode
    protect: bool
    foreign: bool
    strict: bool
    numbers: Callable[[str], str]
    depth: int = 0


def read(text: str, mode: Mode = "all", rules: TagRules | None = None, *, protect: bool = True) -> ParsedText:
    """Parse a text: a document if there are `rules`; with `protect`, find the pieces that must not change.

    Raises `DataError` as `headwise.documents.blocks.parse`.
    """
    if rules is not None:
        return ParsedText(tuple(parse(text, rules)), mode, protect)
    check_length(len(text))
    arguments = protect and bool(find_arguments(text))
    items: list[BlockItem] = emphasized(text) if protect and not arguments else [TextRun(text, text)]
    protect = arguments or (protect and next(find_pieces(text, foreign=True), None) is not None)
    return ParsedText((Block(items, lines=True, markup=False),), mode, protect)


def _joined(parts: Sequence[PreparedDocument]) -> PreparedDocument:
    if len(parts) == 1:
        return parts[0]
    sentences: list[Sentence] = []
    between = [""]
    messages: dict[str, IcuMessage] = {}
    for part in parts:
        between[-1] += part.between[0]
        between += part.between[1:]
        sentences += part.sentences
        messages.update(part.messages)
    return PreparedDocument(tuple(sentences), tuple(between), messages)


def _block(block: str | Block, rules: _Rules) -> PreparedDocument:
    parts = tagged(block) if isinstance(block, Block) and block.tags else [block]
    return _joined([_part(part, rules) for part in parts])


def _part(block: str | Block, rules: _Rules) -> PreparedDocument:
    if isinstance(block, str):
        return PreparedDocument((), (block,))
    messages = {
        stands: IcuMessage((_joined([_block(one, replace(rules, depth=0)) for one in parts]),), ("", ""))
        for stands, parts in block.nested.items()
    }
    if not has_words(block.text):
        return PreparedDocument((), (_written(block.items, rules.numbers),), messages)
    if rules.protect:
        if rules.depth < MOST_DEPTH:
            block, found = _without_messages(block, rules)
            messages |= found
        items: list[BlockItem] = []
        for item in with_formulas(_with_joined_codes(block.items)):
            items += _protected(item, rules) if isinstance(item, TextRun) else [item]
        block = replace(block, items=items)
    if not messages and all(isinstance(item, TextRun) for item in block.items) and not block.markup:
        segments = segment(block.text, rules.language, rules.mode)  # nothing to place or to keep
        sentences, between = [Sentence((one,)) for one in segments.sentences], map(rules.numbers, segments.between)
    else:
        mode: Mode = "all" if block.lines and block.markup else rules.mode
        sentences, between = block.split(_ranges(block, rules.language, mode))
    strict = tuple(replace(one, strict=rules.strict) for one in sentences)
    return PreparedDocument(strict, tuple(between), messages)


def _with_joined_codes(items: Sequence[BlockItem]) -> list[BlockItem]:
    """Return the items of a block with codes that are joined by a sign, as `Ctrl`+`C`, as one."""
    found: list[BlockItem] = []
    for item in items:
        first, sign = found[-2:] if len(found) > 1 else (None, None)
        if (
            isinstance(first, ProtectedPiece)
            and isinstance(item, ProtectedPiece)
            and first.kind == item.kind == VERBATIM
            and isinstance(sign, TextRun)
            and _SIGN.fullmatch(sign.text)
        ):
            codes = f"{first.text.strip('`')}{sign.text}{item.text.strip('`')}"
            found[-2:] = [code_piece(codes, source_of([first, sign, item]))]
            continue
        found.append(item)
    return found


def _written(items: Sequence[BlockItem], numbers: Callable[[str], str]) -> str:
    """Return the source of items without words, each character as `numbers` has it."""
    written = iter(numbers("".join(item.text for item in items if not isinstance(item, Mark))))
    sources: list[str] = []
    for item in items:
        if isinstance(item, TextRun):
            characters = zip(item.text, item.sources, written, strict=False)
            sources += [source if new == old else new for old, source, new in characters]
        else:
            sources.append(item.raw)
            if not isinstance(item, Mark):
                written = islice(written, len(item.text), None)
    return "".join(sources)


def _ranges(block: Block, language: str, mode: Mode) -> list[Range]:
    """Return where the sentences of a block are: those with letters outside pieces."""
    text = block.text
    masked, plain = list(text), list(text)
    position = 0
    for item in block.items:
        length = 0 if isinstance(item, Mark) else len(item.text)
        if isinstance(item, ProtectedPiece):
            plain[position : position + length] = " " * length
            if item.kind in SEPARATING:
                masked[position : position + length] = _MASK * length
            elif item.kind == "note":
                masked[position : position + length] = _NOTE_MASK * length
        position += length
    segments = segment("".join(masked), language, mode)
    ranges: list[Range] = []
    position = 0
    for sentence, before in zip(segments.sentences, segments.between, strict=False):
        position += len(before)
        if has_letters("".join(plain[position : position + len(sentence)])):
            ranges.append((position, position + len(sentence)))
        position += len(sentence)
    return ranges


def _protected(run: TextRun, rules: _Rules) -> list[TextRun | ProtectedPiece]:
    """Return a run with its pieces; inside an ICU message, `#` is one."""
    items: list[TextRun | ProtectedPiece] = []
    position = 0
    every = list(find_pieces(run.text, foreign=rules.foreign))
    if rules.depth:
        every += [(at, at + 1, "format") for at, character in enumerate(run.text) if character == "#"]
        every.sort(key=lambda one: (one[0], -one[1]))
    for start, end, kind in every:
        if start < position:
            continue  # inside the one before
        while end < len(run.sources) and not run.sources[end]:  # of a reference to two characters
            end += 1
        piece = run[start:end]
        raw = rules.numbers(piece.text) if kind == "number" and piece.raw == piece.text else piece.raw
        items += [run[position:start], ProtectedPiece(piece.text, raw, kind, hidden=kind == "emoji")]
        position = end
    items.append(run[position:])
    return [item for item in items if item.text]


def _without_messages(block: Block, rules: _Rules) -> tuple[Block, dict[str, IcuMessage]]:
    """Return a block with a piece in place of each ICU argument, and their messages by the pieces' sources."""
    text = "".join(item.text for item in block.items if not isinstance(item, Mark))
    arguments = find_arguments(text)
    if not arguments:
        return block, {}
    edges = [edge for one in arguments for edge in (one.start, *chain.from_iterable(one.messages), one.end)]
    parts = iter(_cut(block.items, edges))
    items = next(parts)
    messages: dict[str, IcuMessage] = {}
    for argument in arguments:
        literals, inner = [source_of(next(parts))], []
        for _ in argument.messages:
            part = replace(block, items=next(parts), nested={})
            inner.append(_block(part, replace(rules, depth=rules.depth + 1)))
            literals.append(source_of(next(parts)))
        stands = stand_in()
        messages[stands] = IcuMessage(tuple(inner), tuple(literals))
        piece = ProtectedPiece(text[argument.start : argument.end], stands, "icu", hidden=True)
        items += [piece, *next(parts)]
    return replace(block, items=items), messages


def _cut(items: Sequence[BlockItem], edges: Sequence[int]) -> list[list[BlockItem]]:
    """Return the items before, between and after positions of their text.

    A mark at an edge belongs to the part with an even number: the text around arguments, or a message inside one.
    """
    ends = [*edges, sys.maxsize]
    parts: list[list[BlockItem]] = [[] for _ in ends]
    number = position = 0
    for item in items:
        if isinstance(item, Mark):
            while ends[number] < position or (ends[number] == position and number % 2):
                number += 1
            parts[number].append(item)
            continue
        start, position = position, position + len(item.text)
        begin = start
        while begin < position:
            while ends[number] <= begin:
                number += 1
            end = min(position, ends[number]) if isinstance(item, TextRun) else position
            parts[number].append(item[begin - start : end - start] if isinstance(item, TextRun) else item)
            begin = end
    return parts
