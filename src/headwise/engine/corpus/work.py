"""How a chunk of a text is translated and written, in this process or in another."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.engine.corpus.columns import Columns
from headwise.engine.corpus.rows import TextFile, TextRow
from headwise.engine.corpus.runs import Runs
from headwise.engine.options import SearchOptions
from headwise.engine.outputs import Translation
from headwise.engine.sentences import LongLineWarning
from headwise.engine.translator import Translator
from headwise.errors import DataError, HeadwiseError
from headwise.text.reading.compression import compressed
from headwise.text.reading.glossary import Glossary
from headwise.text.reading.lines import json_line, one_line


@dataclass(frozen=True)
class Remark:
    """The number of words of a line, the unknown ones, and sentences about its translation."""

    number: int
    words: int
    unknown: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class TranslatedChunk:
    """The output of a chunk of lines.

    Attributes:
        data: the bytes to append to the file.
        lines: the number of lines of the source.
        counts: how many of them were unusual, by the fields of `FileState`.
        remarks: remarks on the lines.
        long: warnings of lines that were cut.
        failure: why the rows after these can't be translated.
    """

    data: bytes
    lines: int
    counts: Mapping[str, int]
    remarks: Sequence[Remark] = ()
    long: Sequence[str] = ()
    failure: HeadwiseError | None = None


@dataclass(frozen=True)
class TextWork:
    """Translation of the rows of a text, with what is written of each.

    Attributes:
        runs: the runs that translate.
        source: the text, with its rule for bad lines.
        output: the file, whose suffix names the compression.
        options: search options.
        columns: what is written of a translation, where the output isn't JSON objects.
        target_field: where it is, the field of the translation; None for text.
        glossary: terms to place.
        split: whether lines are translated sentence by sentence.
        long_lines: what becomes of lines that the model can't read whole: the rule of bad lines, or `cut`.
    """

    runs: Runs
    source: TextFile
    output: Path
    options: SearchOptions
    columns: Columns
    target_field: str | None = None
    glossary: Glossary | None = None
    split: bool = False
    long_lines: str = "cut"

    def elsewhere(self) -> TextWork:
        """Return the same work for processes with another working directory."""
        return dataclasses.replace(self, runs=self.runs.elsewhere())

    def translate(self, translator: Translator, rows: Sequence[TextRow]) -> TranslatedChunk:
        """Translate the rows; where one is too long and the rule is to stop, only those before it."""
        counts = Counter(row.problem for row in rows if row.problem)
        texts, failure = [], None
        for row in rows:
            text = "" if row.problem and self.source.rule == "empty" else row.text
            counts["empty"] += not row.problem and not text.strip()
            if not self.split and (length := self._excess(translator, text)):
                counts["too_long"] += row.problem != "too_long"
                if self.long_lines == "stop":
                    most = translator.engine.max_length - 1
                    failure = DataError(
                        f"{self.source.path}: line {row.number}: expected at most {most} subwords, found {length}"
                        " (--on-bad-line replace or empty goes on)"
                    )
                    rows = rows[: len(texts)]
                    break
                text = "" if self.long_lines == "empty" else text
            texts.append(text)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", LongLineWarning)
            translations = self._translations(translator, rows, texts)
        lines = [
            line
            for row, translation in zip(rows, translations, strict=True)
            for line in self._lines(row, translation)
        ]
        return TranslatedChunk(
            compressed("".join(f"{one_line(line)}\n" for line in lines).encode(), self.output),
            len(rows),
            {name: count for name, count in counts.items() if count},
            [
                Remark(row.number, len(row.text.split()), translation.unknown, translation.warnings)
                for row, translation in zip(rows, translations, strict=True)
            ],
            [str(each.message) for each in caught] if self.long_lines == "cut" else [],
            failure,
        )

    def _translations(
        self, translator: Translator, rows: Sequence[TextRow], texts: Sequence[str]
    ) -> list[Translation]:
        if not rows:
            return []
        prefixes = [row.prefix or "" for row in rows] if rows[0].prefix is not None else None
        return translator.translate(
            texts,
            self.options,
            prefixes=prefixes,
            glossary=self.glossary,
            split=self.split,
            alignments=self.columns.alignments,
            first_line=rows[0].number,
        )

    def _excess(self, translator: Translator, text: str) -> int:
        """Return the number of subwords of a text that the model can't read whole, else 0."""
        length = len(translator.subwords.encode_source(one_line(text).strip()))
        return length if length > translator.engine.max_length - 1 else 0

    def _lines(self, row: TextRow, translation: Translation) -> list[str]:
        if self.target_field is None:
            return self.columns.lines(row.number, translation)
        fields = {self.source.field: row.text} if row.fields is None else row.fields
        return [json_line({**fields, self.target_field: translation.text})]
