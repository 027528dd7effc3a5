"""SubRip subtitles (.srt): numbered cues with their times, and text with a few tags."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Sequence

from headwise.documents.preparation import read
from headwise.documents.readers.document_file import DocumentFile, check_texts, split_lines
from headwise.documents.readers.values import Value, decode, file_of
from headwise.documents.rules import TagRules
from headwise.documents.tokens import SUBTITLE_TAG
from headwise.errors import DataError

_TIME = r"\d{1,4}:\d{2}:\d{2}[,.]\d{1,3}"
_TIMES = re.compile(rf"\s*{_TIME}\s+-->\s+{_TIME}(?:\s.*)?", re.ASCII)
_SPEAKER = re.compile(rf"\s*+(?:{SUBTITLE_TAG.pattern})*+\s*+[-–—‐](?!\d)\s*")


def read_subtitles(content: bytes) -> DocumentFile:
    """Read a file; raises `DataError` with the line where something else is found, and for one beyond the bounds."""
    text, encode = decode(content)
    lines = split_lines(text)
    starts = [0, *itertools.accumulate(map(len, lines))]
    values = [_value(lines[cue.start : cue.stop], starts[cue.start]) for cue in _cues(lines)]
    return file_of(text, values, encode)


def _cues(lines: Sequence[str]) -> list[range]:
    """Return the lines that are translated together: those of a cue, or of each of its speakers (a dash)."""
    cues: list[range] = []
    position = 0
    while position < len(lines):
        text = lines[position].lstrip("\ufeff").strip()
        if not text:
            position += 1
            continue
        if not (text.isascii() and text.isdigit()):
            raise DataError(f"line {position + 1}: expected the number of a cue, found other text")
        if not _has_times(lines, position + 1):
            raise DataError(f"line {position + 2}: expected times such as 00:00:01,000 --> 00:00:02,000, found none")
        start = end = position + 2
        while end < len(lines) and lines[end].strip():
            if lines[end].strip().isdigit() and _has_times(lines, end + 1):
                break  # the next cue, without an empty line before it
            end += 1
        speakers = [line for line in range(start, end) if line == start or _SPEAKER.match(lines[line])]
        cues += [range(first, last) for first, last in itertools.pairwise([*speakers, end])]
        check_texts(cues)
        position = end
    return cues


def _has_times(lines: Sequence[str], number: int) -> bool:
    return number < len(lines) and _TIMES.fullmatch(lines[number].rstrip("\r\n")) is not None


def _value(lines: Sequence[str], start: int) -> Value:
    """Return the text of lines, without the dash of a speaker and tags before it; it gets as many lines if possible."""
    match = _SPEAKER.match(lines[0])
    dash = match[0].strip() + " " * match[0].endswith(" ") if match else ""
    text = " ".join(line.strip() for line in lines)[len(dash) :]

    def write(translation: str) -> str:
        translation = dash + " ".join(translation.split())
        if not translation:  # an empty line would end the cue before its next speaker
            return ""
        parts = wrapped(translation, len(lines))
        ends = [line[len(line.rstrip("\r\n")) :] for line in lines]
        return "".join(part + end for part, end in zip(parts, ends, strict=False))

    parsed = read(text, "punctuation", TagRules("subtitles"))
    return Value(start, start + sum(map(len, lines)), parsed, len(text), write)


def wrapped(text: str, count: int) -> list[str]:
    """Return a text on at most `count` lines of about the same length, broken at spaces outside tags."""
    tags = [match.span() for match in SUBTITLE_TAG.finditer(text)]
    starts = [start for start, _ in tags]
    spaces = [place for place, character in enumerate(text) if character == " "]
    spaces = [place for place in spaces if (tag := bisect_right(starts, place)) == 0 or place >= tags[tag - 1][1]]
    lines: list[str] = []
    start = first = 0  # of the rest, and of its spaces
    for left in range(count, 1, -1):
        if first == len(spaces):
            break
        length = (len(text) - start) / left
        after = bisect_right(spaces, start + length, first)
        nearest = min(spaces[max(after - 1, first) : after + 1], key=lambda place: abs(place - start - length))
        lines.append(text[start:nearest])
        start, first = nearest + 1, bisect_right(spaces, nearest)
    return [*lines, text[start:]]
