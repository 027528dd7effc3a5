"""How a chunk of a text is translated and written, in this process or in another."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.engine.corpus.columns import Columns
from headwise.engine.corpus.rows import TextFile, TextRow
from headwise.engine.corpus.runs import Runs
from headwise.engine.outputs import Translation
from headwise.engine.sentences import EncodedSentences, LongLineWarning
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
        counts: how many of them were bad, by the fields of `Manifest`.
        remarks: remarks on the lines.
        long: warnings of lines that were cut.
        failure: why the rows after these can't be translated.
    """

    data: bytes
    lines: int
    counts: Mapping[str, int]
    remarks: Sequence[Remark] = ()
    long: Sequence[LongLineWarning] = ()
    failure: HeadwiseError | None = None


@dataclass(frozen=True)
class TextWork:
    """Translation of the rows of a text, with what is written of each.

    Attributes:
        runs: the runs that translate.
        source: the text, with its rule for bad lines.
        output: the file, whose suffix names the compression.
        columns: what is written of a translation, where the output isn't JSON objects.
        target_field: where it is, the field of the translation; None for text.
        glossary: terms to place.
        split: whether lines are translated sentence by sentence.
        long_lines: what becomes of lines that the model can't read whole: the rule of bad lines, or `cut`.
    """

    runs: Runs
    source: TextFile
    output: Path
    columns: Columns
    target_field: str | None = None
    glossary: Glossary | None = None
    split: bool = False
    long_lines: str = "cut"

    def translate(self, translator: Translator, rows: Sequence[TextRow]) -> TranslatedChunk:
        """Translate the rows; where one is too long and the rule is to stop, only those before it."""
        texts = ["" if row.problem and self.source.rule == "empty" else row.text for row in rows]
        counts = Counter(row.problem for row in rows if row.problem)
        encoded, long = self._encoded(translator, rows, texts)
        failure = None
        if long and self.long_lines == "stop":
            failure = DataError(
                f"{self.source.path} line {long[0].line}: expected at most {long[0].most} subwords, found "
                f"{long[0].length} (--on-bad-line replace or empty goes on)"
            )
            rows = rows[: long[0].line - rows[0].number]
            encoded, long = self._encoded(translator, rows, texts[: len(rows)])
        places = [each.line - rows[0].number for each in long]
        counts["too_long"] += sum(rows[place].problem != "too_long" for place in places)
        if long and self.long_lines == "empty":
            for place in places:
                texts[place] = ""
            encoded, _ = self._encoded(translator, rows, texts)
        translations = translator.search(encoded, alignments=self.columns.alignments)
        lines = [
            line for row, translation in zip(rows, translations, strict=True) for line in self._lines(row, translation)
        ]
        return TranslatedChunk(
            compressed("".join(f"{one_line(line)}\n" for line in lines).encode(), self.output),
            len(rows),
            {name: count for name, count in counts.items() if count},
            [
                Remark(row.number, len(row.text.split()), translation.unknown, translation.warnings)
                for row, translation in zip(rows, translations, strict=True)
            ],
            long if self.long_lines == "cut" else [],
            failure,
        )

    def _encoded(
        self, translator: Translator, rows: Sequence[TextRow], texts: Sequence[str]
    ) -> tuple[EncodedSentences, list[LongLineWarning]]:
        """Return the texts of rows as they are searched, and a warning for each that the model can't read whole."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", LongLineWarning)
            encoded = translator.encode(
                texts,
                self.runs.options(),
                prefixes=[row.prefix or "" for row in rows] if rows and rows[0].prefix is not None else None,
                glossary=self.glossary,
                split=self.split,
                first_line=rows[0].number if rows else 1,
            )
        return encoded, [each.message for each in caught if isinstance(each.message, LongLineWarning)]

    def _lines(self, row: TextRow, translation: Translation) -> list[str]:
        if self.target_field is None:
            return self.columns.lines(row.number, translation)
        fields = {self.source.field: row.text} if row.fields is None else row.fields
        return [json_line({**fields, self.target_field: translation.text})]
