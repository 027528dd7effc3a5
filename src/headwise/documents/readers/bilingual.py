"""Bilingual files: XLIFF 1.2 and 2.1, and TMX 1.4, whose units without a translation get one.

    XLIFF 1.2  file > … trans-unit > source, seg-source, target
    XLIFF 2.1  file > … unit > segment > source, target
    TMX        body > tu > tuv > seg

A unit with a translation stays as it is. See https://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html,
https://docs.oasis-open.org/xliff/xliff-core/v2.1/xliff-core-v2.1.html and https://www.gala-global.org/tmx-14b.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from headwise.config.languages import base_code, find_language
from headwise.documents.blocks import Block, TextRun, parse
from headwise.documents.codes import BREAK, SEGMENT, code_tokens, local_name
from headwise.documents.preparation import ParsedText
from headwise.documents.readers.document_file import Confidence, DocumentFile, check_texts, decode_markup
from headwise.documents.readers.values import UTF16, Value, decode, file_of, find_key, marked, plain_value
from headwise.documents.rules import TagRules
from headwise.documents.sentence import Mark
from headwise.documents.tokens import Token, decoded, end_of_element, escaped, raw_of, xml_tokens
from headwise.errors import DataError

_RULES = TagRules("codes", splitting=frozenset({BREAK}))
_SEGMENTED = TagRules("codes", splitting=frozenset({BREAK, SEGMENT}))
_STATE = re.compile(r"""\s+state(?:-qualifier)?\s*=\s*(?:"[^"]*"|'[^']*')""")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_ITS = "http://www.w3.org/2005/11/its"
_BY_MACHINE = ' state="needs-review-translation" state-qualifier="leveraged-mt"'  # of XLIFF 1.2


@dataclass(frozen=True)
class _Element:
    """An element of the file: its name, its tokens from `start` to `end`, and its attributes."""

    name: str
    start: int
    end: int
    attributes: Mapping[str, str]


@dataclass(frozen=True)
class _Context:
    """What the elements around a unit say."""

    translated: bool = True
    preserve: bool = False

    def inside(self, token: Token) -> _Context:
        """Return what holds inside an element."""
        return _Context(
            {"no": False, "yes": True}.get(token.attributes.get("translate", ""), self.translated),
            {"default": False, "preserve": True}.get(token.attributes.get("xml:space", ""), self.preserve),
        )


def read_bilingual(content: bytes, target: str = "", source: str = "") -> DocumentFile:
    """Read a file of units to translate into the language `target`, which is named where the file doesn't name it.

    Of TMX, the texts in the language `source` are translated, by default those in the file's own source language.

    Raises `DataError` for what isn't XLIFF or TMX, for XLIFF between other languages, for XML that isn't well-formed,
    and for what is beyond the bounds.
    """
    text, encode = decode(content) if content[:2] in UTF16 else decode_markup(content)
    tokens = xml_tokens(text)
    root = next((token for token in tokens if token.name), None)
    kind = "" if root is None else local_name(root.name)
    if root is None or kind not in ("xliff", "tmx"):
        raise DataError(f"file: expected an element xliff or tmx, found {kind or 'none'}")
    segments = root.attributes.get("version", "")[:1] == "2"
    unit = "tu" if kind == "tmx" else "segment" if segments else "trans-unit"
    file = _File(tokens, unit, target or "und", source)
    if kind == "xliff":
        file.check_languages()
    values: list[Value] = []
    for number, context in file.units():
        value = file.memory(number) if kind == "tmx" else file.segment(number, context)
        values += [] if value is None else [value]
        check_texts(values)
    values += file.languages() if values and target and kind == "xliff" else []
    return file_of(text, sorted(values, key=lambda value: value.start), encode)


class _File:
    """The tokens of a file, and where its units are."""

    def __init__(self, tokens: Sequence[Token], unit: str, target: str, source: str) -> None:
        self._tokens, self._unit, self._target, self._source = tokens, unit, target, source
        self._offsets = [0, *accumulate(len(token.raw) for token in tokens)]
        self._language = ""  # TMX: of the source

    def units(self) -> Iterator[tuple[_Element, _Context]]:
        """Yield the units, in order, with what holds in them; units inside units are a part of those."""
        stack = [_Context()]
        position = 0
        while position < len(self._tokens):
            token = self._tokens[position]
            local = local_name(token.name)
            if local == "header" and token.name == local:
                self._language = token.attributes.get("srclang", "")
            if token.kind == "open":
                stack.append(stack[-1].inside(token))
                if local == self._unit:
                    end = end_of_element(self._tokens, position)
                    yield _Element(local, position, end, token.attributes), stack.pop()
                    position = end
                    continue
            elif token.kind == "close":
                stack.pop()
            position += 1

    def _has_text(self, target: _Element) -> bool:
        """Whether a target has more than the empty segments that other tools fill in before."""
        return any(
            token.raw.strip() if token.kind == "text" else local_name(token.name) != "mrk"
            for token in self._tokens[target.start + 1 : target.end - 1]
        )

    def segment(self, unit: _Element, context: _Context) -> Value | None:
        """Return what is translated of a unit of XLIFF, and where the translation goes."""
        parts = {part.name: part for part in self._children(unit)}
        source, target = parts.get("source"), parts.get("target")
        if not context.translated or source is None or (target and self._has_text(target)):
            return None
        last = parts.get("seg-source", source)
        rules = _SEGMENTED if last is not source else _RULES
        opening = self._tokens[source.start].raw
        name = f"{opening[1 : opening.find('source')]}target"
        state = _BY_MACHINE if self._unit == "trans-unit" else ""
        if target is None:
            start = end = self._offsets[last.end]
            opening = f"{self._space_before(source)}<{name}{state}>"
        else:
            start, end = self._offsets[target.start], self._offsets[target.end]
            kept = self._tokens[target.start].raw.rstrip("/> \t\r\n")
            opening = f"{_STATE.sub('', kept) if state else kept}{state}>"
        preserve = context.inside(self._tokens[source.start]).preserve
        value = self._value(last, start, end, (opening, f"</{name}>"), rules, preserve)
        if value is None:
            return None
        if self._unit == "trans-unit":
            return replace(value, rate=lambda found, rated: _with_attributes(found, len(opening), rated))
        prefix, number = name.removesuffix("target"), unit.start
        return replace(
            value,
            rate=lambda found, rated: _with_mark(found, len(opening), f"</{name}>", prefix, number, rated),
        )

    def memory(self, unit: _Element) -> Value | None:
        """Return what is translated of a unit of TMX, and where the translation goes."""
        variants = [part for part in self._children(unit) if part.name == "tuv"]
        languages = [one.attributes.get("xml:lang", one.attributes.get("lang", "")) for one in variants]
        wanted = unit.attributes.get("srclang", self._language)
        target = find_language(languages, self._target)
        others = [n for n in range(len(variants)) if n != target]
        if not others or (self._target == "und" and len(others) > 1):
            return None
        found = find_language([languages[n] for n in others], self._source or wanted)
        if found is None and self._source:
            return None
        number = others[found or 0]
        source = self._part(variants[number], "seg")
        if source is None:
            return None
        if target is not None:
            segment = self._part(variants[target], "seg")
            if segment is None or self._inner(segment).strip():
                return None
            start, end = self._offsets[segment.start], self._offsets[segment.end]
            return self._value(source, start, end, ("<seg>", "</seg>"), _RULES, True)
        start = self._offsets[variants[number].end]
        space = self._space_before(variants[number])
        opening = f'{space}<tuv xml:lang="{escaped(self._target)}"><seg>'
        return self._value(source, start, start, (opening, "</seg></tuv>"), _RULES, True)

    def check_languages(self) -> None:
        """Raise `DataError` if XLIFF says that it is between other languages than it is to be translated between."""
        names = ("srcLang", "trgLang") if self._unit == "segment" else ("source-language", "target-language")
        for _, token in self._with_languages():
            for name, wanted in zip(names, (self._source, self._target), strict=True):
                found = token.attributes.get(name, "")
                if found and wanted not in ("", "und") and base_code(found) != base_code(wanted):
                    raise DataError(f"file: expected {name} {wanted}, found {found!r}")

    def languages(self) -> list[Value]:
        """Return the attributes that XLIFF wants for the language of translations, where they are missing."""
        name = "trgLang" if self._unit == "segment" else "target-language"
        places = [
            self._offsets[number] + 1 + len(token.name)
            for number, token in self._with_languages()
            if name not in token.attributes
        ]
        attribute = f' {name}="{escaped(self._target)}"'
        return [Value(place, place, ParsedText((), "none", False), 0, lambda _: attribute) for place in places]

    def _with_languages(self) -> Iterator[tuple[int, Token]]:
        """Yield the start tags of XLIFF's elements that have languages, with their numbers."""
        element = "xliff" if self._unit == "segment" else "file"
        for number, token in enumerate(self._tokens):
            if token.kind == "open" and local_name(token.name) == element:
                yield number, token

    def _value(
        self, part: _Element, start: int, end: int, tags: tuple[str, str], rules: TagRules, preserve: bool
    ) -> Value | None:
        inner = _CDATA.sub(lambda found: escaped(found[1]), self._inner(part))
        before, after = tags
        if "<" not in inner:
            text = decoded(re.sub(r"\r\n?", "\n", inner))[0]  # as XML's parsers read line ends
            text = text if preserve else re.sub(r"[ \t\r\n]+", " ", text)

            def write(found: str) -> str:
                return before + escaped(found).replace("\r", "&#13;") + after

            return plain_value(start, end, text, write) if text.strip() else None
        parsed = ParsedText(tuple(parse(inner, rules)), "punctuation", protect=True, strict=True)
        for block in parsed.blocks:
            if isinstance(block, Block):
                block.lines = preserve
        key = _take_key(parsed.blocks)
        return Value(start, end, parsed, len(inner), lambda found: before + _with_key(found, key) + after)

    def _children(self, parent: _Element) -> list[_Element]:
        found: list[_Element] = []
        position = parent.start + 1
        while position < parent.end - 1:
            token = self._tokens[position]
            end = end_of_element(self._tokens, position) if token.kind == "open" else position + 1
            if token.name:
                found.append(_Element(local_name(token.name), position, end, token.attributes))
            position = end
        return found

    def _space_before(self, element: _Element) -> str:
        before = self._tokens[element.start - 1]
        return before.raw if before.kind == "text" and not before.raw.strip() else ""

    def _part(self, parent: _Element, name: str) -> _Element | None:
        return next((part for part in self._children(parent) if part.name == name), None)

    def _inner(self, part: _Element) -> str:
        return raw_of(self._tokens[part.start + 1 : part.end - 1])


def _take_key(blocks: Sequence[str | Block]) -> tuple[str, str] | None:
    """Take the mark of a key out of a segment with codes, and return its source and its letter, if there is one."""
    whole = [block for block in blocks if isinstance(block, Block)]
    key = find_key(whole[0].text) if len(whole) == 1 else None
    if key is None:
        return None
    position = key.start()
    for item in whole[0].items:
        if isinstance(item, TextRun) and 0 <= position < len(item.text):
            letter, source = whole[0].text[key.start() + 1], item.sources[position]
            item.text = item.text[:position] + item.text[position + 1 :]
            item.sources = [*item.sources[:position], *item.sources[position + 1 :]]
            return source, letter
        position -= 0 if isinstance(item, Mark) else len(item.text)
    return None


def _with_key(translation: str, key: tuple[str, str] | None) -> str:
    """Return a segment with the mark of a key outside its codes and character references."""
    if key is None:
        return translation
    taken: list[range] = []
    position = 0
    for token in code_tokens(translation):
        if token.kind != "text":
            taken.append(range(position, position + len(token.raw)))
        position += len(token.raw)
    taken += [range(*match.span()) for match in re.finditer(r"&[^;]*;", translation)]
    return marked(translation, *key, taken)


def _confidence(rated: Confidence) -> str:
    """Return the attributes of a machine translation's confidence (Internationalization Tag Set 2.0, section 8.15)."""
    return f' xmlns:its="{_ITS}" its:annotatorsRef="mt-confidence|{rated.measure}" its:mtConfidence="{rated.value:.3f}"'


def _with_attributes(target: str, opening: int, rated: Confidence) -> str:
    """Return an element of XLIFF 1.2, whose start tag has `opening` characters, with a confidence."""
    return f"{target[: opening - 1]}{_confidence(rated)}{target[opening - 1 :]}"


def _with_mark(target: str, opening: int, closing: str, prefix: str, number: int, rated: Confidence) -> str:
    """Return an element of XLIFF 2.1 whose content is in a mark with a confidence, the only place that it has."""
    start, inner = target[:opening], target[opening : -len(closing)]
    mark = f'<{prefix}mrk id="mt{number}" type="its:generic"{_confidence(rated)}>'
    return f"{start}{mark}{inner}</{prefix}mrk>{closing}"
