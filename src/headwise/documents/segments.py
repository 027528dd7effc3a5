"""From a text to sentences and back: what lies between sentences is kept as it is.

Line ends, indentation, the spaces of columns, list markers and lines without letters are never translated. Sentence
ends are found by sentencex, the splitter of Wikimedia's translation tools, by the rules of each language; where it
splits behind an abbreviation or a German ordinal number, the parts are joined again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

from headwise.characters import UNSPACED, has_letters, join_texts
from headwise.documents.list_markers import markers_end
from headwise.extras import optional_module

Mode = Literal["all", "punctuation", "none"]

_UNTOLD = "en"  # whose rules split a text of which nobody tells the language

_LINE_ENDS = re.compile(r"([\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+)")
_COLUMNS = re.compile(r"([ ]*\t[ \t]*|[ ]{4,})")  # what a tab or several spaces align
_NUMBER = re.compile(r"\s*\d{1,3}(?:\.\d{1,3})*\.?\s+")  # a list if several lines begin so, else "1. Mai"
# What sentencex ends a sentence behind although it goes on: abbreviations of what follows; those that may be the last
# word, too, before a number; an hour's "p.m." before its zone; and German ordinal numbers, as in "im 19. Jahrhundert".
_OPEN = re.compile(
    r"(?<!\w)(?:[Aa]bb|[Aa]pp?rox|[Bb]spw|[Cc]h|[Cc]hap|[Ee]nv|[Ee]qs?|[Ee]x[ck]l|[Ii]n[ck]l|Kap|[Vv]ols?|[Zz]zgl)\.\s+\Z"
)
# Max is a name, too.
_BEFORE_NUMBER = re.compile(r"(?:(?<!\w)(?:ed|est|m[aá]x|m[ií]n|[Nn]r|pp|[Qq]ty|[Tt]el)|\AM[aá]x|\AM[ií]n)\.\s+\Z")
_HOUR = re.compile(r"\b[ap]\.\s?m\.\s+\Z", re.IGNORECASE)
_ZONE = re.compile(r"(?:[ECMP][SD]?T|AK[SD]T|HST|GMT|UTC|BST|CES?T|IST|JST|AE[SD]T)\b")
_ORDINAL = re.compile(
    r"\b(?:d(?:er|ie|as|e[mns])|(?:dies|jed|jen|[mds]?ein|ihr|unse?r|eur)e?[mnrs]?|[ai]m|zu[mr]|vom|beim)\s\d{1,3}\.\s+\Z",
    re.IGNORECASE,
)
# A sentence goes on behind a full stop without a space, as in .NET, "@/./+ only" and "the net.Socket object", but for
# prose with a short word behind it, as in "It rained.We left".
_PROSE = re.compile(r"(?:\s|\A[^\W\d_a-z])[^\W\d_A-Z]+[.!?…]+\Z")
_BEGINS = re.compile(r"[^\W\d_][^\W\d_A-Z]{0,3}(?:['’][^\W\d_]+)?(?:\s|\Z)")
_NEXT = re.compile(r"(?:Er|Sie|Es|Ich|Wir|Ihr|Der|Die|Das|Dann|Danach|Am|Im|In|Und|Aber)\b")  # sentence
# Between a capital and a full stop, sentencex panics at white space of several bytes, such as a no-break space.
_BEFORE_STOP = re.compile(r"([A-Z]\s*)[^\S\x00-\x7f](?=\.)")
# What sentencex gets at once, up to the end of a sentence or of a word: its time may grow with the square of a text.
_AT_ONCE = re.compile(r".{1,5000}(?:\Z|(?<=[.!?…]\s))|.{1,5000}(?<=\s)|.{1,5000}", re.DOTALL)


@dataclass(frozen=True)
class Segments:
    """The sentences of a text, and what stands before, between and after them: one more than there are sentences."""

    sentences: tuple[str, ...]
    between: tuple[str, ...]

    def join(self, translations: Sequence[str]) -> str:
        """Return the text with translations in place of the sentences.

        Where sentences follow each other without a space, as in Japanese, their translations are separated by one if
        their script has spaces.
        """
        joined = self.between[0]
        for number, translation in enumerate(translations):
            if number and not self.between[number]:
                joined = join_texts([joined, translation])
            else:
                joined += translation
            if number + 1 < len(translations):
                joined += self.between[number + 1]
        return joined + (self.between[-1] if translations else "")


def segment(text: str, language: str, mode: Mode = "all") -> Segments:
    """Split a text at line ends and sentence ends, at sentence ends only, or not at all."""
    sentences: list[str] = []
    between = [""]
    for part, is_marker in _parts(text, language, mode):
        core = part.strip()
        if is_marker or not has_letters(core):
            between[-1] += part
            continue
        start = part.index(core)
        between[-1] += part[:start]
        sentences.append(core)
        between.append(part[start + len(core) :])
    return Segments(tuple(sentences), tuple(between))


def _parts(text: str, language: str, mode: Mode) -> list[tuple[str, bool]]:
    """Return consecutive parts of the text with at most one sentence each, and whether it is the marker of a list."""
    if mode != "all":
        return [(part, False) for part in ([text] if mode == "none" else _sentences(text, language))]
    lines = _LINE_ENDS.split(text)
    numbered = sum(_NUMBER.match(line) is not None for line in lines) > 1
    parts: list[tuple[str, bool]] = []
    for line in lines:
        end = markers_end(line, language)
        if not end and numbered and (number := _NUMBER.match(line)) is not None:
            end = number.end()
        parts.append((line[:end], True))
        parts += [(part, False) for cell in _COLUMNS.split(line[end:]) for part in _sentences(cell, language)]
    return parts


def sentences_of(line: str, language: str | None) -> list[str]:
    """Return the sentences of a line without the white space between them; what has no letter goes with one before."""
    sentences: list[str] = []
    for part in _sentences(line, language or ""):
        if sentences and not has_letters(part):
            sentences[-1] += part
        else:
            sentences.append(part)
    return [sentence.strip() for sentence in sentences]


def _sentences(text: str, language: str) -> list[str]:
    if not text.strip():
        return [text]
    split_sentences = optional_module("sentencex", "documents").segment
    language = (language or _UNTOLD).partition("-")[0].lower()
    split = _BEFORE_STOP.sub(r"\1 ", text)
    parts = [part for found in _AT_ONCE.finditer(split) for part in split_sentences(language, found[0])]
    if "".join(parts) != split:
        return [text]
    parts = [text[first:last] for first, last in pairwise([0, *accumulate(map(len, parts))])]
    ends = [n for n in range(1, len(parts)) if not _continues(parts[n - 1], parts[n], language)]
    return ["".join(parts[first:last]) for first, last in pairwise([0, *ends, len(parts)])]


def _continues(before: str, part: str, language: str) -> bool:
    """Whether a sentence goes on in the next part."""
    if before[-1] in ".!?…" and re.match(r"[!-~]|[^\W\d_]", part) and not UNSPACED.match(part):
        return _PROSE.search(before) is None or _BEGINS.match(part) is None
    if _ZONE.match(part) and _HOUR.search(before):
        return True
    if language == "de" and _ORDINAL.search(before):
        return _NEXT.match(part) is None
    return _OPEN.search(before) is not None or (not part[:1].isupper() and _BEFORE_NUMBER.search(before) is not None)
