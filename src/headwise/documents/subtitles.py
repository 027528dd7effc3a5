"""SubRip subtitles (.srt): numbered cues with their times, and text with a few tags."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.documents.preparation import read
from headwise.documents.reading import DocumentFile, check_texts, split_lines
from headwise.documents.rules import TagRules
from headwise.documents.tokens import SUBTITLE_TAG
from headwise.documents.values import decode
from headwise.errors import DataError

_TIME = r"\d{1,4}:\d{2}:\d{2}[,.]\d{1,3}"
_TIMES = re.compile(rf"\s*{_TIME}\s+-->\s+{_TIME}(?:\s.*)?", re.ASCII)
_SPEAKER = re.compile(rf"\s*(?:{SUBTITLE_TAG.pattern})*\s*[-–—‐](?!\d)\s*")


@dataclass(frozen=True)
class Subtitles:
    """A file: its lines with their ends, and of each cue the numbers of the lines that are translated together."""

    lines: tuple[str, ...]
    cues: tuple[range, ...]

    @property
    def texts(self) -> list[str]:
        """The text of each cue, on one line, without the dash of a speaker and tags before it."""
        return [
            " ".join(self.lines[line].strip() for line in cue)[len(self._dash(cue)) :] for cue in self.cues
        ]

    def _dash(self, cue: range) -> str:
        match = _SPEAKER.match(self.lines[cue.start])
        return match[0].strip() + " " * match[0].endswith(" ") if match else ""

    def write(self, translations: Sequence[str]) -> str:
        """Return the file with translations of the texts, each on as many lines as before where that is possible."""
        lines = list(self.lines)
        for cue, translation in zip(self.cues, translations, strict=True):
            parts = wrapped(self._dash(cue) + " ".join(translation.split()), len(cue))
            for number, line in enumerate(cue):
                end = self.lines[line][len(self.lines[line].rstrip("\r\n")) :]
                lines[line] = f"{parts[number]}{end}" if number < len(parts) else ""
        return "".join(lines)


def read_subtitles(content: bytes) -> DocumentFile:
    """Read a file; raises `DataError` as `parse_subtitles`, and for one beyond the bounds."""
    text, encode = decode(content)
    subtitles = parse_subtitles(text)
    texts = subtitles.texts
    parsed = [read(one, "punctuation", TagRules("subtitles")) for one in texts]
    return DocumentFile(parsed, sum(map(len, texts)), lambda found: encode(subtitles.write(found)))


def parse_subtitles(source: str) -> Subtitles:
    """Parse a file; raises `DataError` with the line where something else is found."""
    lines = split_lines(source)
    cues: list[range] = []
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
        check_texts(cues)
        position = end
    return Subtitles(tuple(lines), tuple(cues))


def _cues(lines: Sequence[str], start: int, end: int) -> list[range]:
    """Return the texts of a cue: one, or one for each line that begins with the dash of a speaker."""
    starts = [line for line in range(start, end) if line == start or _SPEAKER.match(lines[line])]
    return [range(first, last) for first, last in itertools.pairwise([*starts, end]) if first < last]


def wrapped(text: str, count: int) -> list[str]:
    """Return a text on at most `count` lines of about the same length, broken at spaces outside tags."""
    tags = [match.span() for match in SUBTITLE_TAG.finditer(text)]
    starts = [start for start, _ in tags]
    spaces = [place for place, character in enumerate(text) if character == " "]
    spaces = [
        place for place in spaces if (tag := bisect_right(starts, place)) == 0 or place >= tags[tag - 1][1]
    ]
    lines: list[str] = []
    start = first = 0  # of the rest, and of its spaces
    for left in range(count, 1, -1):
        if first == len(spaces):
            break
        length = (len(text) - start) / left
        after = bisect_right(spaces, start + length, first)
        nearest = min(
            spaces[max(after - 1, first) : after + 1], key=lambda place: abs(place - start - length)
        )
        lines.append(text[start:nearest])
        start, first = nearest + 1, bisect_right(spaces, nearest)
    return [*lines, text[start:]]
