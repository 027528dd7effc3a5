"""Markdown (.md): the text of paragraphs, headings, items of lists and cells of tables.

markdown-it says where the blocks are (https://spec.commonmark.org/0.31.2/, with tables); what is inside is found in the
source, from which all else is copied: code, HTML, front matter, definitions of links, markers and indentation.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby

from headwise.characters import has_letters_or_digits
from headwise.documents.blocks import Block, BlockItem, TextRun, code_piece, source_of
from headwise.documents.preparation import ParsedText
from headwise.documents.readers.document_file import DocumentFile, check_texts, split_lines
from headwise.documents.readers.values import Value, decode, file_of
from headwise.documents.rules import BLOCKS, NEVER
from headwise.documents.sentence import Mark, ProtectedPiece
from headwise.documents.tokens import MOST_DEPTH
from headwise.errors import DataError
from headwise.extras import optional_module

_MOST_BYTES = 2**20  # of a file: its blocks are found by a parser in Python
_SEPARATOR = "separator"  # the kind of a tag that separates sentences, such as <br>
_NEEDLESS = "'\".,;:!?%=/-"  # inside a line they need no backslash, which Pandoc writes
_NUMBER = re.compile(r"\A(\d{1,9})([.)])(?=\s|\Z)")  # at the beginning, of a list's item
_LONGEST = 50_000  # characters of a paragraph
_FRONT = re.compile(
    r"(?:---[ \t]*\r?\n(?:(?!(?:---|\.\.\.)[ \t]*\r?\n).*\n){0,1000}(?:---|\.\.\.)"
    r"|\+\+\+[ \t]*\r?\n(?:(?!\+\+\+).*\n){0,1000}\+\+\+)[ \t]*\r?\n"
)
# What CommonMark takes for text at the beginning of a line, and other programs for the mark of a block.
_MARKER = re.compile(
    r"[ \t]*(?:(?P<line>\[![\w-]{1,40}\][-+]?|\[(?:toc|TOC)\]"  # GitHub's > [!NOTE]
    r"|:{3,}[ \t]*[\w-]*[ \t]*(?:[\[{].*)?"  # ::: tip
    r"|(?:!!!|\?\?\?\+?)[ \t].*|\{[%:].*\}[ \t]*$|\{\{[<%].*[%>]\}\}[ \t]*$)"  # MkDocs; Jekyll, kramdown; Hugo
    r"|\[\^[^\s\[\]]{1,80}\]:|\[[ xX]\](?=\s)|:(?=[ \t]))"  # a footnote, a task, a definition
)
_TO = r"(?:\([^()\n]{0,1000}\)|\[[^\[\]\n]{0,200}\])"
_BADGE = re.compile(rf"\[?!\[[^\[\]\n]{{0,200}}\]{_TO}(?:\]{_TO})?")  # a picture, perhaps with a link
_BADGES = re.compile(rf"(?:[ \t]*+{_BADGE.pattern})++[ \t\\]*+")
# Of a heading, such as {#name}.
_LAST = re.compile(r"(?<![ \t])[ \t]++(?:\{[ \t]*[#.:][^{}]{0,200}\}|<!--.{0,500}?-->)[ \t]*+$")
_INLINE = re.compile(
    r"(?P<name>(?<![\w./\\-])[\w./-]{0,80}"  # a name with escapes, such as snake\_case or \*.txt
    r"(?:\\_|\\\*(?=[./])|(?<=[./-])\\\*|(?<=\w)\\[*\[&#$|+@~^<>](?=\w))(?:[\w./-]|\\[_*]){0,80}(?<![./-]))"
    r"|(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<reference>&#?\w{1,31};)"
    r"|(?P<code>(?:\{[\w:.+-]{1,80}\})?(?P<ticks>(?<!`)`{1,9}(?!`)).{1,50000}?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<address><[a-zA-Z][\w.+-]{1,31}:[^\s<>]{0,1000}>|\[\^[\w-]{1,80}\]|!?\[\[[^\[\]]{1,200}\]\]"
    r"|<!--.{0,500}?-->|\{%.{1,500}?%\}|\{[ \t]*[#.:][^{}]{0,200}\}|(?<![\w:]):[\w+]{1,40}(?:-\w{1,40})+:(?!\w))"
    r"|<(?P<end>/?)(?P<tag>[a-zA-Z][\w-]{0,30})(?:\s[^<>]{0,1000})?/?>"
    r"|(?P<open>!?\[)"
    r"|(?P<close>\](?:\((?:[^()\\<>]|\\.|<[^<>]{0,500}>|\([^()]{0,500}\)){0,1000}\)|\[[^\[\]]{0,200}\])?"
    r"(?:(?<=[)\]])\{[^{}]{0,200}\})?)"  # attributes
    r"|(?P<emphasis>\*{1,3}|_{1,3}|~~)",
    re.DOTALL,
)


def read_markdown(content: bytes) -> DocumentFile:
    """Read a file; raises `DataError` for one beyond the bounds."""
    if len(content) > _MOST_BYTES:
        raise DataError(f"file: expected Markdown of at most {_MOST_BYTES:,} bytes, found more")
    text, encode = decode(content)
    lines = split_lines(text)
    front = _FRONT.match(text)
    first = 0 if front is None else len(split_lines(front[0]))
    parser = optional_module("markdown_it", ".md").MarkdownIt("commonmark").enable("table").disable("inline")
    known: dict[str, Mapping[str, object]] = {}
    tokens = parser.parse("\n" * first + "".join(lines[first:]), known)
    starts = [0, *accumulate(map(len, lines))]
    values: list[Value] = []
    position = 0
    for token in tokens:
        if token.type != "inline" or not token.map or len(token.content) > _LONGEST:
            continue
        spans = _spans(text, token.content.split("\n"), starts, token.map[0], position)
        for part in _groups(text, spans):
            values += _value(text, part, known.get("references", {}))
            check_texts(values)
        # Cells of a row are on one line: after one that isn't found, the next could be found inside it.
        position = spans[-1][1] if spans else starts[min(token.map[1], len(starts) - 1)]
    return file_of(text, values, encode)


def _spans(text: str, parts: Sequence[str], starts: Sequence[int], line: int, position: int) -> list[tuple[int, int]]:
    """Return where the lines of a block's content are; none where a line isn't as it stands in the source."""
    found: list[tuple[int, int]] = []
    for number, part in enumerate(parts, start=line):
        if number + 1 >= len(starts):
            return []
        line_start = max(starts[number], position)
        start = text.find(part, line_start, starts[number + 1])
        if start < 0 and "|" in part:  # of a cell, where the source has a backslash before it
            part = part.replace("|", "\\|")
            start = text.find(part, line_start, starts[number + 1])
        if start < 0:
            return []
        position = start + len(part)
        found.append((start, position))
    return found


def _groups(text: str, spans: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Return the lines in groups, which hard line breaks and the marks of other programs separate.

    Of a line of pictures, as at the beginning of many a README, each is a group.
    """
    groups: list[list[tuple[int, int]]] = [[]]
    for start, end in spans:
        marker = _MARKER.match(text[start:end])
        if marker is not None:
            groups.append([])
            start += marker.end()
        if _BADGES.fullmatch(text, start, end):
            groups += [*([badge.span()] for badge in _BADGE.finditer(text, start, end)), []]
            continue
        source = text[start:end]
        last = _LAST.search(source)
        broken = source.endswith(("  ", "\\"))
        kept = source[: last.start()] if last else source.rstrip(" \\") if broken else source
        groups[-1].append((start, start + len(kept)))
        groups += [[]] if broken or last or (marker and marker["line"]) else []
    return [group for group in groups if group]


def _value(text: str, spans: Sequence[tuple[int, int]], references: Mapping[str, object]) -> list[Value]:
    """Return the text of some lines, between which a line end with the marks around it is a space."""
    written = ""
    units: list[str] = []
    for number, (start, end) in enumerate(spans):
        if number:
            start = end - len(text[start:end].lstrip())
            written += " "
            units.append(text[spans[number - 1][1] : start])
        written += text[start:end]
        units += text[start:end]
    if not has_letters_or_digits(written):
        return []
    blocks: list[str | Block] = []
    for separate, group in groupby(_items(TextRun(written, units), references), _separates):
        items = list(group)
        blocks.append(source_of(items) if separate else Block(items, markup=False))
    parsed = ParsedText(tuple(blocks), "punctuation", protect=True)
    # "May 5" is "5. Mai", and no item of a list; "# 1. Introduction" is none, either.
    write = str if _NUMBER.match(written) else lambda found: _NUMBER.sub(r"\1\\\2", found)
    return [Value(spans[0][0], spans[-1][1], parsed, len(written), write)]


def _separates(item: BlockItem) -> bool:
    return isinstance(item, ProtectedPiece) and item.kind == _SEPARATOR


def _items(whole: TextRun, references: Mapping[str, object]) -> list[BlockItem]:
    """Return a text with its emphasis, links and tags as elements, and its code and escapes as pieces."""
    items: list[BlockItem] = []
    opened: list[tuple[int, str]] = []  # the item of what isn't closed yet, and its marker
    position = elements = 0
    for match in _INLINE.finditer(whole.text):
        start, end = match.span()
        run = whole[start:end]
        raw = run.raw
        if start > position:
            items.append(whole[position:start])
        position = end
        marker, opens, closes = _role(whole.text, match)
        place = next((n for n in range(len(opened) - 1, -1, -1) if opened[n][1] == marker), None)
        if match["tag"] and match["tag"].lower() in BLOCKS - NEVER and not opened:
            items.append(ProtectedPiece(raw, raw, _SEPARATOR))
        elif match["name"]:
            items.append(ProtectedPiece(match[0].replace("\\", ""), raw))
        elif match["escape"] and start and match[0][1] in _NEEDLESS:
            items.append(TextRun(match[0][1], [raw]))
        elif match["code"]:
            ticks = match["ticks"]
            items.append(code_piece(match[0].partition(ticks)[2].removesuffix(ticks).strip(), raw))
        elif match["escape"] or match["address"]:
            items.append(ProtectedPiece(match[0], raw, hidden=True))
        elif match["reference"]:
            meant = html.unescape(match[0])
            joins = has_letters_or_digits(meant) or meant == match[0] or len(meant) != 1
            sources = [raw, *[""] * (len(meant) - 1)]
            items.append(TextRun(meant, sources) if joins else ProtectedPiece(meant, raw))
        elif closes and place is not None:
            index = opened[place][0]
            del opened[place:]
            opening = source_of([items[index]])
            inner = " ".join(source_of(items[index + 1 :]).upper().split())
            label = " ".join(match[0][2:].partition("]")[0].upper().split()) or inner
            if match[0][:2] in ("]", "][") and label not in references:  # brackets of the text
                items.append(run)
            elif match[0] == "]" or (match[0] == "][]" and inner in references) or marker[1:] in NEVER:
                # the text names the link, or isn't text
                link = opening + source_of(items[index + 1 :]) + raw
                items[index:] = [ProtectedPiece(link, link, hidden=True)]
            else:
                elements += 1
                items[index] = Mark("open", opening, elements)
                items.append(Mark("close", raw, elements))
        else:
            if opens and len(opened) < MOST_DEPTH:
                opened.append((len(items), marker))
            items.append(run)
    return _joined([*items, whole[position:]])


def _joined(items: Sequence[BlockItem]) -> list[BlockItem]:
    """Return items with tags without a partner as pieces, and neighbouring texts as one: addresses may have markers."""
    kept = [
        ProtectedPiece(one.text, one.raw, hidden=True)
        if isinstance(one, TextRun) and re.fullmatch(r"<[^<>]+>", one.text)
        else one
        for one in items
    ]
    found: list[BlockItem] = []
    for is_text, group in groupby(kept, lambda one: isinstance(one, TextRun)):
        if not is_text:
            found += group
            continue
        runs = [one for one in group if isinstance(one, TextRun)]
        joined = TextRun("".join(one.text for one in runs), [each for one in runs for each in one.sources])
        found += [joined] if joined.text else []
    return found


def _role(text: str, match: re.Match[str]) -> tuple[str, bool, bool]:
    """Return the marker of what may open or close an element, and whether it may do either."""
    if match["tag"]:
        return f"<{match['tag'].lower()}", not match["end"], bool(match["end"])
    if match["emphasis"]:
        before, after = text[max(match.start() - 1, 0) : match.start()], text[match.end() : match.end() + 1]
        word = match[0][0] == "_"
        opens = after.strip() != "" and not (word and before.isalnum())
        return match[0], opens, before.strip() != "" and not (word and after.isalnum())
    return "[", bool(match["open"]), bool(match["close"])
