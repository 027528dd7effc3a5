"""Reader of parallel text in the files of translators: TMX 1.4, XLIFF 1.2 or 2.1 and TBX, plain or compressed.

The file streams through expat, which keeps no tree. Inline codes are left out with the native source in them; what they
enclose is text. A unit without a translation is a pair with an empty side, which cleaning counts. Terms that a TBX file
calls deprecated or superseded are left out.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from html.entities import html5
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from headwise.config.languages import find_language
from headwise.errors import ConfigError, DataError
from headwise.files import read_errors
from headwise.text.reading.compression import open_binary

SUFFIXES = (".tmx", ".xlf", ".xliff")
_CHUNK = 1 << 16  # bytes that expat gets at once
# Encodings of several bytes a letter, which expat doesn't know.
_DECLARED = re.compile(
    rb"""<\?xml\s[^<>]{0,200}?\bencoding\s*=\s*["'](shift_jis|euc-(?:jp|kr)|gb(?:k|2312|18030)|big5)["']""",
    re.IGNORECASE,
)
_MOST_DEPTH = 256
_MOST_TERMS = 1_000  # of a concept in a language
_LONGEST = 1 << 20  # characters of a segment, and bytes of a tag
_NATIVE = {"bpt", "ept", "ph", "it", "ut"}  # inline codes whose content is source of another format
_UNITS = frozenset({"tu", "trans-unit", "segment", "termEntry", "conceptEntry"})
_LANGUAGES = ("tuv", "langSet", "langSec")  # elements of a unit that name the language of the texts in them
_STATUS = "administrativeStatus"  # of a TBX term: an element, or the type of a `termNote`, behind it
_FORBIDDEN = ("deprecatedTerm", "supersededTerm")
_KINDS = ("tmx", "xliff")
_GLOSSARIES = ("tbx", "martif")  # TBX as ISO 30042 of 2019 and of 2008 names it


class Unit(NamedTuple):
    """The texts of a unit by language or, in XLIFF, side, and the line where it ends; `first` is the source's.

    There are several texts of a language in TBX alone.
    """

    texts: Mapping[str, tuple[str, ...]]
    line: int
    first: str


def read_units(path: Path, kinds: Sequence[str] = _KINDS) -> Iterator[Unit]:
    """Yield the units of a file, in order; `kinds` are the names that its first element may have.

    Raises `DataError` for another file, for XML that isn't well-formed, for a document type that declares
    anything, and for what is nested too deeply or too long.
    """
    with open_binary(path) as file, read_errors(path):
        chunk = file.read(_CHUNK)
        encoding = _DECLARED.match(chunk)
        reader = _Reader(path, kinds, None if encoding is None else encoding[1].decode())
        while chunk:
            yield from reader.feed(chunk)
            chunk = file.read(_CHUNK)
        yield from reader.feed(b"")


def read_bilingual(path: Path, source: str, target: str) -> Iterator[tuple[str, str, int]]:
    """Yield the pairs of a file, with the line where each ends.

    `source` and `target` are languages of TMX, or `source` and `target`: the language that the file calls its source,
    and the other one. Of XLIFF they are the two sides. Raises `DataError` as `read_units`, and for a unit that doesn't
    tell which texts are the two; `ConfigError` for languages of XLIFF.
    """
    for unit in read_units(path):
        if unit.first == "source" and not {source, target} <= {"source", "target"}:
            raise ConfigError(
                f"{path}: expected the sides source and target of XLIFF in data.source_field and data.target_field, "
                f"found {source} and {target}"
            )
        yield _text(unit, source, path), _text(unit, target, path), unit.line


def read_terms(
    path: Path, source: str | None, target: str | None
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], int]]:
    """Yield the terms of each concept of a TBX file in two languages, with the line where it ends.

    A language that is None is the file's first, or its other one. Raises `DataError` as `read_bilingual`.
    """
    for unit in read_units(path, _GLOSSARIES):
        terms, translations = (_texts(unit, each, path) for each in (source or "source", target or "target"))
        yield terms, translations, unit.line


def _text(unit: Unit, wanted: str, path: Path) -> str:
    """Return the text of a language or side of a unit; empty where it has none."""
    return next(iter(_texts(unit, wanted, path)), "")


def _texts(unit: Unit, wanted: str, path: Path) -> tuple[str, ...]:
    if wanted == "source":
        return unit.texts.get(unit.first, ())
    if wanted != "target" or "target" in unit.texts:
        number = find_language(list(unit.texts), wanted)
        return () if number is None else list(unit.texts.values())[number]
    others = [code for code in unit.texts if code != unit.first]
    if len(others) > 1:
        raise DataError(
            f"{path} line {unit.line}: expected two languages, found {', '.join(unit.texts)}; name two of them in "
            "data.source_field and data.target_field"
        )
    return unit.texts[others[0]] if others else ()


class _Reader:
    """Collects units from the events of expat."""

    def __init__(self, path: Path, kinds: Sequence[str], encoding: str | None) -> None:
        """`encoding` is that of the file if expat doesn't know it."""
        self._path, self._kinds = path, kinds
        self._decoder = None if encoding is None else codecs.getincrementaldecoder(encoding)()
        self._parser = parser = expat.ParserCreate(None if encoding is None else "utf-8")
        parser.UseForeignDTD(True)
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._open
        parser.EndElementHandler = self._close
        parser.CharacterDataHandler = self._characters
        # HTML's names for characters are known, in documents that don't declare them, too.
        parser.SkippedEntityHandler = lambda name, _: self._characters(html5.get(f"{name};", ""))
        parser.StartDoctypeDeclHandler = self._document_type
        self._units: list[Unit] = []
        self._stack: list[str] = []
        self._fed = 0
        self._language = self._first = ""
        self._variants: dict[str, tuple[str, ...]] | None = None  # of the unit that is open
        self._text: list[str] | None = None  # of the segment that is open
        self._length = self._ignored = 0
        self._place = 0  # the depth of the segment
        self._code = ""

    def feed(self, chunk: bytes) -> list[Unit]:
        """Return the units that end in a chunk; an empty one ends the file."""
        last = not chunk
        try:
            chunk = chunk if self._decoder is None else self._decoder.decode(chunk, last).encode()
            self._parser.Parse(chunk, last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise self._error(f"expected well-formed XML, found {reason}", error.lineno) from None
        except (LookupError, ValueError) as error:  # of an encoding
            raise self._error(f"expected text in a known encoding that it names, found {error}") from None
        self._fed += len(chunk)
        if self._fed - max(self._parser.CurrentByteIndex, 0) > _LONGEST:
            raise self._error(f"expected tags of at most {_LONGEST:,} bytes, found a longer one")
        units, self._units = self._units, []
        return units

    def _error(self, sentence: str, line: int | None = None) -> DataError:
        return DataError(f"{self._path} line {line or self._parser.CurrentLineNumber}: {sentence}")

    def _document_type(self, name: str, system: str | None, public: str | None, internal: bool) -> None:
        if internal:
            raise self._error("expected a document without entity declarations or others in its type, found some")

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        if not self._stack and local not in self._kinds:
            raise self._error(f"expected an element {' or '.join(self._kinds)}, found {local[:60]}")
        self._stack.append(local)
        if len(self._stack) > _MOST_DEPTH:
            raise self._error(f"expected elements nested at most {_MOST_DEPTH} deep, found more")
        parent = self._stack[-2] if len(self._stack) > 1 else ""
        if self._text is not None:
            self._ignored += bool(self._ignored) or local in _NATIVE
        elif local == "header":
            self._language = attributes.get("srclang", "")
        elif self._variants is None and local in _UNITS:
            self._variants = {}
            sides = local in ("trans-unit", "segment")
            self._first = "source" if sides else attributes.get("srclang", self._language)
        elif self._variants is not None and local in _LANGUAGES and parent in _UNITS:
            self._code = attributes.get("xml:lang", attributes.get("lang", ""))
        elif self._variants is not None and (
            (local == "seg" and parent == "tuv")
            or (
                (local in ("term", _STATUS) or (local == "termNote" and attributes.get("type") == _STATUS))
                and not {*_LANGUAGES}.isdisjoint(self._stack)
            )
            or (local in ("source", "target") and parent in ("trans-unit", "segment"))
        ):
            self._text, self._length, self._place = [], 0, len(self._stack)
            self._code = local if local in ("source", "target") else self._code

    def _close(self, name: str) -> None:
        local = self._stack.pop()
        if self._text is not None:
            self._ignored -= self._ignored > 0
            if len(self._stack) < self._place and self._variants is not None:
                found = "".join(self._text)
                texts = self._variants.get(self._code)
                if local in ("termNote", _STATUS):
                    if texts and found.strip().startswith(_FORBIDDEN):
                        self._variants[self._code] = texts[:-1]
                elif local == "term" and texts is not None:
                    if len(texts) == _MOST_TERMS:
                        raise self._error(f"expected at most {_MOST_TERMS:,} terms of a concept, found more")
                    self._variants[self._code] = (*texts, found)
                else:
                    self._variants.setdefault(self._code, (found,))
                self._text, self._ignored = None, 0
        elif self._variants is not None and local in _UNITS and not _UNITS & set(self._stack):
            codes = list(self._variants)
            number = find_language(codes, self._first)
            if number is not None:
                first = codes[number]
            else:  # srclang is *all*, or another one than the unit has
                first = self._first if self._first == "source" else next(iter(codes), "")
            self._units.append(Unit(self._variants, self._parser.CurrentLineNumber, first))
            self._variants = None

    def _characters(self, text: str) -> None:
        if self._text is None or self._ignored:
            return
        self._length += len(text)
        if self._length > _LONGEST:
            raise self._error(f"expected segments of at most {_LONGEST:,} characters, found a longer one")
        self._text.append(text)
