"""Strings of a file: where each is, and how its translation is written there; all else is copied.

A string of an interface may have a mark before the letter that chooses it from the keyboard (`&File`, `_File`). It is
taken out for the translation, and put before the same letter of it, if it has one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html.entities import html5

from headwise.characters import UNSPACED
from headwise.documents.blocks import Block, BlockItem, TextRun
from headwise.documents.pieces import find_pieces
from headwise.documents.preparation import ParsedText, read
from headwise.documents.protected import TAG, find_arguments
from headwise.documents.readers.document_file import Confidence, DocumentFile, check_size, check_texts, read_text
from headwise.documents.sentence import ProtectedPiece
from headwise.documents.tokens import decoded
from headwise.errors import DataError

_LONGEST = 100  # characters of a string with the mark of a key
_MARK = re.compile(
    r"(?:(?<![\w&])&(?=[^\W_])|(?<=[^\W\d_])&(?=[a-z]))(?!#?\w{1,31};)"
    r"|(?<!\w)_(?=[^\W_])|(?<=[A-Za-z])_(?=[a-z])"
)
_REFERENCE = re.compile(r"&(#[0-9]{1,9};|#[xX][0-9a-fA-F]{1,8};|[a-zA-Z][a-zA-Z0-9]{0,31};)")
_UNITS = re.compile(rf"{_REFERENCE.pattern}|.", re.DOTALL)
_END = re.compile(r"\s*(?:\.\.\.|…|[:：])?\s*$")
UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True)
class Value:
    """A string of a file.

    Attributes:
        start: where its source begins in the text of the file.
        end: where it ends.
        text: what is translated.
        characters: how many count.
        write: returns the source of a translation.
        rate: adds a model's estimate to that source, where the format has a place for it.
    """

    start: int
    end: int
    text: ParsedText
    characters: int
    write: Callable[[str], str]
    rate: Callable[[str, Confidence], str] | None = None


def plain_value(start: int, end: int, text: str, write: Callable[[str], str]) -> Value:
    """Return a string, perhaps with tags, and perhaps with the mark of a key."""
    key = find_key(text)
    if key is None:
        return Value(start, end, _strict(text), len(text), write)
    plain = text[: key.start()] + text[key.end() :]
    mark, letter = key[0], text[key.end()]
    return Value(start, end, _strict(plain), len(text), lambda found: write(with_key(found, mark, letter)))


def pieces_value(
    start: int,
    end: int,
    runs: Sequence[tuple[str, str | None]],
    pieces: re.Pattern[str],
    write: Callable[[str], str],
) -> Value:
    """Return a string in which a pattern finds more pieces that must not change.

    `runs` are its parts with the source of each; None is that of the part itself.
    """
    text = "".join(part for part, _ in runs)
    run = TextRun(text, [one for part, source in runs for one in ([source] if source else part)])
    items: list[BlockItem] = []
    position = 0
    for match in pieces.finditer(text):
        raw = run[match.start() : match.end()].raw
        items += [run[position : match.start()], ProtectedPiece(match[0], raw, "placeholder")]
        position = match.end()
    items.append(run[position:])
    kept = [item for item in items if not isinstance(item, TextRun) or item.text]
    block = Block(kept, lines=True, markup=False, tags=True)
    parsed = ParsedText((block,), "all", protect=True, strict=True)
    return Value(start, end, parsed, len(text), write)


def _strict(text: str) -> ParsedText:
    parsed = replace(read(text), strict=True)
    references = _REFERENCE.findall(text)
    if references and all(name[:1] == "#" or name in html5 for name in references):
        # A text of HTML: the model reads the characters, and & and < of its translation become references.
        parsed = replace(parsed, blocks=(Block([TextRun(*decoded(text, _UNITS))], lines=True),), protect=True)
    for block in parsed.blocks:
        if isinstance(block, Block):
            block.tags = True
    return parsed


def _kept(text: str) -> list[range]:
    """Return where the pieces and tags of a string are."""
    return [range(start, end) for start, end, _ in find_pieces(text)] + [
        range(*match.span()) for match in TAG.finditer(text)
    ]


def find_key(text: str) -> re.Match[str] | None:
    """Return the one mark of a key in a text, before its letter."""
    if len(text) > _LONGEST or text.count("&") + text.count("_") != 1:
        return None
    match = _MARK.search(text)
    if match is None or find_arguments(text):
        return None
    inside_word = match.start() > 0 and match[0] == "_" and text[match.start() - 1].isalnum()
    if inside_word and not text[text.rfind(" ", 0, match.start()) + 1].isupper():  # a name such as file_size
        return None
    return None if any(match.start() in one for one in _kept(text)) else match


def with_key(text: str, mark: str, letter: str) -> str:
    """Return a translation with the mark of a key: before the letter, at the beginning of a word if there is one.

    Where it isn't, the mark stands before the first letter; behind a text of a script without spaces, in parentheses
    with the letter.
    """
    text = text.replace(mark, mark * 2)
    return marked(text, mark, letter, _kept(text))


def marked(text: str, mark: str, letter: str, taken: Sequence[range]) -> str:
    """Return a text with the mark of a key as `with_key`, but outside of what is `taken`."""
    places = [
        place for place, character in enumerate(text) if character.isalpha() and not any(place in one for one in taken)
    ]
    if not places or UNSPACED.match(text[places[0]]):
        end = _END.search(text)
        assert end is not None
        return f"{text[: end.start()]}({mark}{letter.upper()}){text[end.start() :]}"
    same = [place for place in places if text[place].casefold() == letter.casefold()]
    first = [place for place in same if place == 0 or not text[place - 1].isalnum()]
    place = [*first, *same, *places][0]
    return text[:place] + mark + text[place:]


def decode(content: bytes, other: str | None = None) -> tuple[str, Callable[[str], bytes]]:
    """Return a text in UTF-8, or in UTF-16 with a byte order mark, and what encodes it; raises `DataError`.

    `other` is the encoding of what isn't UTF-8.
    """
    check_size(content)
    name = UTF16.get(content[:2])
    if name is None:
        try:
            content.decode("utf-8")
        except UnicodeDecodeError:
            if other is not None:
                return content.decode(other), lambda text: text.encode(other)
        mark, text = read_text(content)
        return text, lambda text: (mark + text).encode()
    try:
        return content[2:].decode(name), lambda text: content[:2] + text.encode(name)
    except UnicodeDecodeError as error:
        raise DataError(f"file: expected text in UTF-16, found another byte at {error.start:,}") from None


def file_of(text: str, values: Sequence[Value], encode: Callable[[str], bytes]) -> DocumentFile:
    """Return a file of strings, which are in order; raises `DataError` for more than a file may have."""
    check_texts(values)

    def write(translations: Sequence[str], estimates: Sequence[Confidence | None] | None = None) -> bytes:
        parts, position = [], 0
        rates = [None] * len(values) if estimates is None else estimates
        for value, translation, estimate in zip(values, translations, rates, strict=True):
            written = value.write(translation)
            rated = written if value.rate is None or estimate is None else value.rate(written, estimate)
            parts += [text[position : value.start], rated]
            position = value.end
        return encode("".join([*parts, text[position:]]))

    rated = write if any(value.rate for value in values) else None
    characters = sum(value.characters for value in values)
    return DocumentFile([value.text for value in values], characters, write, rated)
