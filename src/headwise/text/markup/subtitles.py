"""SubRip subtitles (.srt): numbered cues with their times, and text with a few tags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.errors import DataError
from headwise.text.markup.tokens import Token

_TIME = r"\d{1,4}:\d{2}:\d{2}[,.]\d{1,3}"
_TIMES = re.compile(rf"\s*{_TIME}\s+-->\s+{_TIME}(?:\s.*)?", re.ASCII)
_TAG = re.compile(r"<(/?)([a-zA-Z]{1,10})((?:\s[^<>\n]{0,200})?)>|\{\\[^{}\n]{1,100}\}")
_SPEAKER = re.compile(r"\s*[-–—‐]")


@dataclass(frozen=True)
class Cue:
    """A cue's text: the numbers of its lines among those of the file, which are translated together."""

    lines: range


@dataclass(frozen=True)
class Subtitles:
    """A file: its lines with their ends, and the cues."""

    lines: tuple[str, ...]
    cues: tuple[Cue, ...]

    @property
    def texts(self) -> list[str]:
        """The text of each cue, on one line."""
        return [" ".join(self.lines[line].strip() for line in cue.lines) for cue in self.cues]

    def write(self, translations: Sequence[str]) -> str:
        """Return the file with translations of the texts, each on as many lines as before where that is possible."""
        lines = list(self.lines)
        for cue, translation in zip(self.cues, translations, strict=True):
            parts = wrapped(" ".join(translation.split()), len(cue.lines))
            for number, line in enumerate(cue.lines):
                end = self.lines[line][len(self.lines[line].rstrip("\r\n")) :]
                lines[line] = f"{parts[number]}{end}" if number < len(parts) else ""
        return "".join(lines)


def parse_subtitles(source: str) -> Subtitles:
    """Parse a file; raises `DataError` with the line where something else is found."""
    lines = source.splitlines(keepends=True) if "\r" not in source else re.findall(r"[^\n]*\n|[^\n]+", source)
    cues: list[Cue] = []
    position = 0
    while position < len(lines):
        text = lines[position].lstrip("\ufeff").strip()
        if not text:
            position += 1
            continue
        if not (text.isascii() and text.isdigit()):
            raise DataError(f"line {position + 1}: expected the number of a cue, found other text")
        if position + 1 >= len(lines) or not _TIMES.fullmatch(lines[position + 1].rstrip("\r\n")):
            raise DataError(
                f"line {position + 2}: expected times such as 00:00:01,000 --> 00:00:02,000, found none"
            )
        start = end = position + 2
        while end < len(lines) and lines[end].strip():
            end += 1
        cues += _cues(lines, start, end)
        position = end
    return Subtitles(tuple(lines), tuple(cues))


def _cues(lines: Sequence[str], start: int, end: int) -> list[Cue]:
    """Return the texts of a cue: one, or one for each line that begins with the dash of a speaker."""
    starts = [line for line in range(start, end) if line == start or _SPEAKER.match(lines[line])]
    return [
        Cue(range(first, last))
        for first, last in zip(starts, [*starts, end][1:], strict=True)
        if first < last
    ]


def subtitle_tokens(source: str) -> list[Token]:
    """Return the tokens of a cue's text: tags, positions in braces, and text without references."""
    tokens: list[Token] = []
    position = 0
    for match in _TAG.finditer(source):
        if match.start() > position:
            tokens.append(Token("text", source[position : match.start()]))
        kind = "point" if match[2] is None else "close" if match[1] else "open"
        tokens.append(Token(kind, match[0], (match[2] or "").lower()))
        position = match.end()
    if position < len(source):
        tokens.append(Token("text", source[position:]))
    return tokens


def wrapped(text: str, count: int) -> list[str]:
    """Return a text on at most `count` lines of about the same length, broken at spaces outside tags."""
    lines: list[str] = []
    for left in range(count, 1, -1):
        tags = [match.span() for match in _TAG.finditer(text)]
        spaces = [
            place
            for place, character in enumerate(text)
            if character == " " and not any(start < place < end for start, end in tags)
        ]
        if not spaces:
            break
        place = min(spaces, key=lambda space: abs(space - len(text) / left))
        lines.append(text[:place])
        text = text[place + 1 :]
    return [*lines, text]
