"""Test sets: their files, the model's text format, and both kinds of BLEU.

Formats: `given`: the model's text is the text of the files, as it is. `stanford`: the files are plain text, the model's
text has Stanford's WMT 2014 format: tokenized like Moses, quotes as entities, and a hyphen inside a word a token of its
own, `##AT##-##AT##`. `plain`: files and model have plain text.

The paper's German BLEU was computed after splitting hypotheses and references at hyphens in this way ("compound
splitting"), which gives credit for half a compound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headwise.errors import DataError
from headwise.evaluation.translation import bleu, score_translations
from headwise.text.reading.pairs import pair_files, read_pairs
from headwise.text.tokens.moses import detokenize, plain_punctuation, tokenize


@dataclass(frozen=True)
class TestSet:
    """A test set; `corpus` is the name for `headwise data get` of what it is a part of."""

    __test__ = False  # tells pytest that this class isn't a test

    source: Path
    target: Path
    languages: tuple[str, str] = ("en", "de")
    form: Literal["given", "stanford", "plain"] = "given"
    compounds: bool = False  # whether compounds are split at hyphens for the paper's BLEU
    corpus: str = ""

    def check(self) -> None:
        """Raise `DataError`, with the command that brings the test set, if a file is missing."""
        for file in (self.source, self.target):
            if not file.exists():
                raise DataError(f"{file}: there is no such file; {self.brought()}")

    def brought(self) -> str:
        """Return by which command its corpus is brought, for messages."""
        return f"`headwise data get {self.corpus}` brings it"

    def read(self) -> tuple[list[str], list[str]]:
        """Return the lines of both files; raises `DataError` if they can't be read."""
        pairs = list(read_pairs(pair_files(self.source, self.target)))
        sources = [pair.source.decode("utf-8", "replace") for pair in pairs]
        return sources, [pair.target.decode("utf-8", "replace") for pair in pairs]

    def pairs(self) -> tuple[list[str], list[str]]:
        """Return sources and references in the model's format."""
        sides = self.read()
        if self.form != "stanford":
            return sides
        source, target = (
            [to_stanford(line, language) for line in side] for side, language in zip(sides, self.languages, strict=True)
        )
        return source, target

    def scores(self, hypotheses: Sequence[str]) -> dict[str, Any]:
        """Score translations in the model's format.

        `bleu` and `chrf` are sacreBLEU's scores of plain text against the file's references. `tokenized_bleu` is BLEU
        as in the paper: on Moses-tokenized text, with compounds split if `compounds` is set; text of format `given` is
        scored as it is. `by_length` has the latter for fifths of the test set, by words of the source.
        """
        (sources, references), language = self.read(), self.languages[1]
        if self.form == "stanford":
            hypotheses = [from_stanford(line, language) for line in hypotheses]
        result = score_translations(hypotheses, references).to_json()
        if self.form != "given":
            hypotheses = [self._paper_tokenized(line) for line in hypotheses]
            references = [self._paper_tokenized(line) for line in references]
            result["tokenized_bleu"] = bleu(hypotheses, references, tokenize="none").to_json()
        return result | {"by_length": bleu_by_length(sources, hypotheses, references)}

    def _paper_tokenized(self, line: str) -> str:
        words = tokenize(plain_punctuation(line), self.languages[1], escape=True)
        return split_compounds(words) if self.compounds else words


def bleu_by_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], groups: int = 5
) -> dict[str, dict[str, float]]:
    """Return BLEU, without another tokenization, of groups of about equal size by the number of words of the source.

    Keys are the most words of a group's sources; sources of as many words are in the same group.
    """
    words = [len(line.split()) for line in sources]
    ranked = sorted(words)
    limits = sorted({ranked[-(-len(ranked) * number // groups) - 1] for number in range(1, groups + 1)})
    result, shortest = {}, 0
    for longest in limits:
        rows = [row for row, count in enumerate(words) if shortest <= count <= longest]
        score = bleu([hypotheses[row] for row in rows], [references[row] for row in rows], tokenize="none")
        result[str(longest)] = {"sentences": len(rows), "bleu": score.score}
        shortest = longest + 1
    return result


_MARK = "##AT##-##AT##"
_INSIDE = re.compile(r"(\S)-(\S)")
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W_])-(?=[^\W_])")
_SPLIT = re.compile(r" ?##AT##-##AT## ?")


def split_compounds(line: str) -> str:
    """Make every hyphen inside a word a token of its own; text that is already split is unchanged."""
    return _INSIDE.sub(rf"\1 {_MARK} \2", rejoin_compounds(line))


def rejoin_compounds(line: str) -> str:
    """Undo `split_compounds`."""
    return _SPLIT.sub("-", line)


def to_stanford(line: str, language: str) -> str:
    """Convert plain text to Stanford's format; raises `ConfigError` for a language without Moses rules."""
    return _BETWEEN_LETTERS.sub(f" {_MARK} ", tokenize(line, language, escape=True))


def from_stanford(line: str, language: str) -> str:
    """Convert Stanford's format to plain text, as sacreBLEU expects it; raises as `to_stanford` does."""
    return detokenize(rejoin_compounds(line), language)
