"""The dictionary of a run: translations of words that a model hardly knows, or easily loses, and abbreviations.

It is the file `dictionary.tsv.xz` of a run directory, if there is one. The columns of each line are a word in the
source language and its translations in the target language, in all their forms, of which any one will do. Of an
abbreviation, the second column is what it stands for in the source language, behind an equals sign; a # before or
behind the abbreviation is a number there. `examples/dictionary.py` makes such files.
"""

from __future__ import annotations

import functools
import lzma
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from headwise.errors import CheckpointError
from headwise.parsing import read_bounded
from headwise.text.reading.abbreviations import Abbreviations
from headwise.text.reading.glossary import LONGEST, MOST_FORMS, Entry, Match

FILE = "dictionary.tsv.xz"
WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")  # letters, with hyphens and apostrophes between them
_STANDS_FOR = "= "
_LINE = re.compile(
    rf"[^\t]{{1,{LONGEST}}}\t(?:= [^\t]{{1,{LONGEST}}}|(?!= )[^\t]{{1,{LONGEST}}}(?:\t[^\t]{{1,{LONGEST}}})*)"
)
_MOST_BYTES = 1 << 24  # unpacked
_MOST_MEMORY = 1 << 27  # bytes that unpacking may take


class Dictionary:
    """A dictionary; it is read when it is first needed."""

    def __init__(self, file: Path) -> None:
        """Name the file."""
        self._file = file

    @classmethod
    def of_run(cls, run: Path) -> Dictionary | None:
        """Return that of a run; None if it has none."""
        return cls(run / FILE) if (run / FILE).is_file() else None

    def find(self, text: str) -> list[Match]:
        """Return the words of a text that are in the dictionary; the first word may have its capital from there.

        A translation may begin with a capital, too. Raises `CheckpointError` for a damaged file.
        """
        counts = Counter[str]()
        for number, word in enumerate(WORD.findall(text)):
            if number == 0 and word not in self._translations:
                word = word[:1].lower() + word[1:]
            if word in self._translations:
                counts[word] += 1
        return [Match(Entry(word, self._forms(word)), count) for word, count in counts.items()]

    def _forms(self, word: str) -> tuple[str, ...]:
        forms = self._translations[word].split("\t")
        return tuple(dict.fromkeys([*forms, *(form[:1].upper() + form[1:] for form in forms)]))[:MOST_FORMS]

    @property
    def abbreviations(self) -> Abbreviations:
        """The abbreviations; raises `CheckpointError` for a damaged file."""
        return self._content[1]

    @property
    def _translations(self) -> Mapping[str, str]:
        """The translations of each word, with tabs between them."""
        return self._content[0]

    @functools.cached_property
    def _content(self) -> tuple[Mapping[str, str], Abbreviations]:
        packed = read_bounded(self._file, _MOST_BYTES, CheckpointError, "a dictionary, packed by xz,")
        unpacker = lzma.LZMADecompressor(memlimit=_MOST_MEMORY)
        try:
            content = unpacker.decompress(packed, _MOST_BYTES)
            lines = content.decode("utf-8").removesuffix("\n").split("\n")
        except (lzma.LZMAError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{self._file}: expected lines in UTF-8, packed by xz, found {error}") from None
        if not unpacker.eof:
            raise CheckpointError(
                f"{self._file}: expected at most {_MOST_BYTES:,} bytes, found a larger file or a part of one"
            )
        for number, line in enumerate(lines, start=1):
            if _LINE.fullmatch(line) is None:
                raise CheckpointError(
                    f"{self._file} line {number}: expected a word, a tab and its translations, found {line[:40]!r}"
                )
        translations: dict[str, str] = {}
        stand_for: dict[str, str] = {}
        for line in lines:
            word, others = line.split("\t", 1)
            if others.startswith(_STANDS_FOR):
                stand_for[word] = others.removeprefix(_STANDS_FOR)
            else:
                translations[word] = others
        return translations, Abbreviations(stand_for)
