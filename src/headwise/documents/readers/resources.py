"""Files of strings by name, which programs show: .json, .properties, .strings, .ftl and Android's; only values change.

.json        every string that is a value; of Chrome's messages, `message` alone; of ARB, no key that begins with @
.properties  https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/Properties.html
.strings     https://developer.apple.com/library/archive/documentation/Cocoa/Conceptual/LoadingResources/Strings/Strings.html
.ftl         https://projectfluent.org/fluent/guide/, where every variant of a selector is a string
.xml         https://developer.android.com/guide/topics/resources/string-resource
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from headwise.characters import has_letters
from headwise.documents.protected import TAG
from headwise.documents.readers.document_file import DocumentFile, decode_markup, read_whole
from headwise.documents.readers.values import Value, decode, file_of, pieces_value, plain_value
from headwise.documents.tokens import end_of_element, raw_of, xml_tokens
from headwise.errors import DataError
from headwise.parsing import Malformed, json_value

_JSON = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]', re.DOTALL)
_CHROME = re.compile(r"\$\w{1,80}\$|\$[1-9]")
# What a program reads, not a person: index.html, java.util.List, ./img, application/json, #ff00aa, and dd.MM.yyyy.
_NO_TEXT = re.compile(
    r"(?=[\w@~./+-]++(?<!\.)\Z).*?\w{2}\.\w{2}.*+|(?:\.{1,2}|~)?/[\w@~./+-]+|application/[\w.+-]+|#[0-9a-fA-F]{3,8}"
    r"|(?=.*(?:yy|YY|MM|dd|DD|HH|hh|mm))(?:([yYMdDHhmsSELaAZQ])\1{0,4}o?(?:\W+|\Z))+"
)


@dataclass
class _Frame:
    """An object or list of JSON that is open: the key of the next value in it, and whether it is translated."""

    kind: str
    translated: bool
    key: str = ""


def json_values(text: str) -> list[Value]:
    """Return the strings of a file of JSON; raises `DataError` for one that isn't well-formed."""
    try:
        whole = json_value(text.encode())
    except Malformed as problem:
        raise DataError(problem.sentence("file", "JSON")) from None
    chrome = isinstance(whole, dict) and all(
        isinstance(one, dict)
        and isinstance(one.get("message"), str)
        and one.keys() <= {"message", "description", "placeholders"}
        for one in whole.values()
    )
    escaped = text.isascii() and "\\u" in text
    found: list[Value] = []

    def write(text: str) -> str:
        return json.dumps(text, ensure_ascii=escaped)[1:-1]

    stack: list[_Frame] = [_Frame("", True)]
    for match in _JSON.finditer(text):
        frame, token = stack[-1], match[0]
        if token in "{[":
            stack.append(_Frame(token, frame.translated and not frame.key.startswith("@")))
        elif token in "}]":
            stack.pop()
        elif token in ",:":
            frame.key = "" if token == "," and frame.kind == "{" else frame.key
        elif frame.kind == "{" and not frame.key:
            frame.key = json.loads(token) or " "
        elif frame.translated and not frame.key.startswith("@"):
            if not chrome:
                found += _value(match.start() + 1, match.end() - 1, json.loads(token), write)
            elif len(stack) == 3 and frame.key == "message":
                place = match.start() + 1, match.end() - 1
                found.append(pieces_value(*place, [(json.loads(token), None)], _CHROME, write))
    return found


def _value(start: int, end: int, text: str, write: Callable[[str], str]) -> list[Value]:
    is_text = has_letters(text) and _NO_TEXT.fullmatch(text) is None
    return [plain_value(start, end, text, write)] if is_text else []


_PROPERTY = re.compile(
    r"(?:\A|(?<=[\r\n]))[ \t\f]*+(?![#!])(?:[^ \t\f\r\n=:\\]|\\(?:\r\n|[\r\n])[ \t\f]*+|\\.)++"  # the key
    r"[ \t\f]*+(?:[=:][ \t\f]*+)?((?:[^\\\r\n]|\\(?:\r\n|.))*+)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(\r\n|[\r\n])[ \t\f]*+|(.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = str.maketrans({"\\": "\\\\", **{meaning: f"\\{letter}" for letter, meaning in _CONTROLS.items()}})
# Of Java's MessageFormat: an argument; an apostrophe, or braces between quotes; and these while the text is translated.
_ARGUMENT = re.compile(r"\{\d")
_QUOTED = re.compile(r"''|'([{}](?:[^']|'')*+)'")
_QUOTE = "\ue000"
_QUOTATION = re.compile(f"{_QUOTE}(?:[^{_QUOTE}]|{_QUOTE}{_QUOTE})++{_QUOTE}")


def read_properties(content: bytes) -> DocumentFile:
    """Read a file of Java's properties, in UTF-8 or Latin-1; what is ASCII stays so."""
    text, encode = decode(content, "latin-1")
    plain = content.isascii() or encode("é") == b"\xe9"
    values: list[Value] = []
    for match in _PROPERTY.finditer(text):
        meant = _unescaped(match[1])
        message = _ARGUMENT.search(meant) is not None and not {"'", _QUOTE} & set(_QUOTED.sub("", meant))
        readable = _QUOTED.sub(_readable, meant) if message else meant

        def write(found: str, message: bool = message) -> str:
            found = found.replace("'", "''").replace(_QUOTE, "'") if message else found
            return _property(found, plain)

        if message and _QUOTE in readable and has_letters(readable):
            values.append(pieces_value(*match.span(1), [(readable, None)], _QUOTATION, write))
        else:
            values += _value(*match.span(1), readable, write)
    return file_of(text, values, encode)


def _readable(quoted: re.Match[str]) -> str:
    """Return an apostrophe, or a quotation with marks of its own, which no translation has."""
    return quoted[0].replace("'", _QUOTE) if quoted[1] else "'"


def _unescaped(source: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return "" if match[2] else _CONTROLS.get(match[3], match[3])

    return _joined_halves(_ESCAPE.sub(meaning, source))


def _property(text: str, plain: bool) -> str:
    written = text.translate(_WRITTEN)
    written = f"\\{written}" if written.startswith(" ") else written
    if not plain:
        return written
    units = memoryview(written.encode("utf-16-le")).cast("H")
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04X}" for unit in units)


_STRING = r'"(?:[^"\\]|\\.)*+'
_ENTRY = re.compile(
    rf'/\*(?:.*?\*/|.*)|//[^\n]*+|(?:{_STRING}"|[\w.-]++)\s*+=\s*+"((?:[^"\\]|\\.)*+)"\s*+;|{_STRING}"?|[\w.-]++',
    re.DOTALL,
)
_APPLE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|(.))", re.DOTALL)
_APPLE_WRITTEN = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def apple_values(text: str) -> list[Value]:
    """Return the strings of a file of Apple's; raises `DataError` where there is none but other text."""
    found: list[Value] = []
    entries = 0
    for match in _ENTRY.finditer(text):
        if match[1] is None:
            continue
        entries += 1
        meant = _meaning(match[1])
        found += _value(match.start(1), match.end(1), meant, lambda text: text.translate(_APPLE_WRITTEN))
    if not entries and text.strip() and not text.lstrip().startswith("/"):
        raise DataError('file: expected strings such as "name" = "text";, found none')
    return found


def _meaning(source: str) -> str:
    """Return what Apple's and Android's escapes mean; two may be the halves of a character."""
    meant = _APPLE.sub(lambda one: chr(int(one[1], 16)) if one[1] else _CONTROLS.get(one[2], one[2]), source)
    return _joined_halves(meant)


def _joined_halves(text: str) -> str:
    """Return a text with surrogates joined to characters; a half alone is U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_RESOURCES = re.compile(r"(?:[^<]++|<\?|<!--(?:(?!-->).)*+-->)*+<resources[\s>]", re.DOTALL)
_WHOLE = re.compile(r'\s*+(?:<!\[CDATA\[(.*)\]\]>|"((?:[^"\\<]|\\.|<[^<>]*+>)*+)")\s*+', re.DOTALL)
# Android takes white space off the ends, and XML has no other control characters than these.
_TO_ESCAPE = re.compile(rf"{TAG.pattern}|[\\'\"\x00-\x1f<]|&(?!#?\w{{1,31}};)|\A[@? ]|[ ]\Z")
_ANDROID_WRITTEN = {"\n": "\\n", "\t": "\\t", "<": "&lt;", "&": "&amp;"}


def read_xml(content: bytes) -> DocumentFile:
    """Read XML: Android's strings, or a document; raises `DataError` as `decode_markup` and `xml_tokens`."""
    text, encode = decode_markup(content)
    if _RESOURCES.match(text) is None:
        return read_whole(content, "xml")
    return file_of(text, android_values(text), encode)


def android_values(text: str) -> list[Value]:
    """Return the strings of Android's, of arrays and plurals, too, but for those that aren't translatable."""
    found: list[Value] = []
    tokens = xml_tokens(text)
    opened = [("", True)]  # the name of an element, and whether it is translated
    number = offset = 0
    while number < len(tokens):
        token, end = tokens[number], number + 1
        if token.kind == "open":
            translated = opened[-1][1] and token.attributes.get("translatable") != "false"
            item = token.name == "item" and opened[-1][0] in ("string-array", "plurals")
            if item or token.name == "string":
                end = end_of_element(tokens, number)
                inner = raw_of(tokens[number + 1 : end - 1])
                found += _android(offset + len(token.raw), inner) if translated else []
            else:
                opened.append((token.name, translated))
        elif token.kind == "close":
            opened.pop()
        offset += len(raw_of(tokens[number:end]))
        number = end
    return found


def _android(start: int, inner: str) -> list[Value]:
    """Return a string, whose white space is a space outside quotation marks; references to others are none."""
    whole = _WHOLE.fullmatch(inner)
    if whole is not None:
        start, inner = start + whole.start(whole.lastindex or 0), whole[whole.lastindex or 0]
    elif "<!" in inner:  # comments and sections inside
        return []
    core = inner.strip()
    start += inner.index(core)
    text = _meaning(core if whole else re.sub(r"\s+", " ", core))
    if core.startswith(("@", "?")):
        return []
    section = whole is not None and whole[1] is not None
    quoted = whole is not None and not section

    def escape(match: re.Match[str]) -> str:
        one = match[0]
        if len(one) > 1 or (section and one in "<&") or (quoted and one == " "):
            return one
        if one <= " " and one not in _ANDROID_WRITTEN:
            return f"\\u{ord(one):04x}"
        return _ANDROID_WRITTEN.get(one, f"\\{one}")

    return _value(start, start + len(core), text, lambda found: _TO_ESCAPE.sub(escape, found))


_SYMBOL = re.compile(r"-brand|[ ]*\.(?:\w*key|style)\b")  # what is no text: names of products, keys
_FLUENT = re.compile(r"(?:-?[a-zA-Z][\w-]*+|[ ]++\.[a-zA-Z][\w-]*+)[ ]*+=[ ]*+")
_PLACEABLE = re.compile(r'\{(?:[^{}"]|"(?:[^"\\\n]|\\.)*+"|\{[^{}]*+\})*+\}')
_PARAGRAPH = re.compile(rf"(?:{_PLACEABLE.pattern}|\S)(?:{_PLACEABLE.pattern}|[^\n]|\n(?![^\S\n]*+\n))*+")
_VARIANT = re.compile(r"\s*+\*?\[[ ]*+[\w.-]++[ ]*+\]")
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*+"')
_MOST_DEPTH = 8  # selectors inside each other


def fluent_values(text: str) -> list[Value]:
    """Return the texts of messages, terms, attributes and variants of a file of Fluent's; what is none is copied."""
    found: list[Value] = []
    start: int | None = None
    position = depth = 0
    term = False  # whose attributes are no text: only selectors read them
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        head = _FLUENT.match(line) if depth == 0 else None
        continued = depth > 0 or line[0] in " \r\n" or line[:1] == "}"
        if start is not None and (head is not None or not continued):
            found += _pattern(text, start, position, 0)
            start = None
        if head is not None:
            attribute = line[0] == " "
            term = term if attribute else line[0] == "-"
            start = None if (term and attribute) or _SYMBOL.match(line) else position + head.end()
        if start is not None:
            bare = _LITERAL.sub("", line)
            depth = max(0, depth + bare.count("{") - bare.count("}"))
        position += len(line)
    return found + ([] if start is None else _pattern(text, start, position, 0))


def _pattern(text: str, start: int, end: int, depth: int) -> list[Value]:
    """Return the texts of a pattern: between selectors, and in their variants."""
    found: list[Value] = []
    position = begin = start
    while (position := text.find("{", position, end)) >= 0:
        close, arrow, variants = _placeable(text, position, end)
        if arrow and depth < _MOST_DEPTH:
            found += _text(text, begin, position)
            for first, last in variants:
                found += _pattern(text, first, last, depth + 1)
            begin = close
        elif arrow or _PLACEABLE.fullmatch(text, position, close) is None:
            return []
        position = close
    return found + _text(text, begin, end)


def _placeable(text: str, start: int, end: int) -> tuple[int, bool, list[tuple[int, int]]]:
    """Return where a placeable ends, whether it is a selector, and where its variants' patterns are."""
    depth, position, arrow = 0, start, False
    starts: list[tuple[int, int]] = []  # of variants, and of their patterns
    while position < end:
        character = text[position]
        if character == '"' and (literal := _LITERAL.match(text, position, end)) is not None and not starts:
            position = literal.end()
            continue
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            break
        if depth == 1 and text.startswith("->", position) and not starts:
            arrow = True
        if depth == 1 and arrow and character == "\n":
            head = _VARIANT.match(text, position, end)
            if head is not None:
                starts.append((position, head.end()))
                position = head.end()
                continue
        position += 1
    lasts = [*(first for first, _ in starts), position][1:]
    return min(position + 1, end), arrow, [(one[1], last) for one, last in zip(starts, lasts, strict=True)]


def _text(text: str, start: int, end: int) -> list[Value]:
    """Return the paragraphs of a part of a pattern, whose line ends are spaces, without the white space around them."""
    found: list[Value] = []
    for paragraph in _PARAGRAPH.finditer(text[start:end]):
        core = paragraph[0].rstrip()
        if has_letters(_PLACEABLE.sub("", core)):
            parts = re.findall(r"(?<![ ])[ ]*+\r?\n\s*+|[^\n]", core)
            runs = [(" " if "\n" in part else part, part) for part in parts]
            first = start + paragraph.start()
            found.append(pieces_value(first, first + len(core), runs, _PLACEABLE, _fluent))
    return found


def _fluent(text: str) -> str:
    """Return a translation, whose placeables stay; other braces are written as literals."""
    parts, position = [], 0
    for match in [*_PLACEABLE.finditer(text), None]:
        plain = text[position : len(text) if match is None else match.start()]
        parts.append(re.sub(r"[{}]", lambda brace: f'{{"{brace[0]}"}}', plain))
        parts.append("" if match is None else match[0])
        position = 0 if match is None else match.end()
    written = "".join(parts)
    return f'{{""}}{written}' if written[:1] in (".", "[", "*") else written


def _read_resource(content: bytes, find: Callable[[str], list[Value]]) -> DocumentFile:
    """Read a file whose strings `find` returns; raises `DataError` as that, and for one beyond the bounds."""
    text, encode = decode(content)
    return file_of(text, find(text), encode)


read_json = partial(_read_resource, find=json_values)
read_apple = partial(_read_resource, find=apple_values)
read_fluent = partial(_read_resource, find=fluent_values)
