"""A test set, the form in which a model reads and writes it, and both kinds of BLEU that are counted on it.

`given`: the model's text is the text of the files. `stanford`: the files are plain text, while the model knows
Stanford's form of WMT 2014: tokenized, hyphens inside words written `##AT##-##AT##`, quotes as entities. `plain`:
model and files have plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headwise.errors import DataError
from headwise.evaluation.translation import score_translations
from headwise.experiments.harness.compounds import from_stanford, split_compounds, to_stanford
from headwise.text.reading.pairs import pair_files, read_pairs
from headwise.text.tokens.moses import plain_punctuation, tokenize


@dataclass(frozen=True)
class TestSet:
    """Where a test set lies; `corpus` is its name for `headwise data get`, empty where the scale makes it itself."""

    __test__ = False  # it is no test of pytest's

    source: Path
    target: Path
    languages: tuple[str, str] = ("en", "de")
    form: Literal["given", "stanford", "plain"] = "given"
    compounds: bool = False  # whether the paper's BLEU splits compounds at hyphens here
    corpus: str = ""

    def check(self) -> None:
        """Raise `DataError` saying how to get it where it isn't there."""
        for file in (self.source, self.target):
            if not file.exists():
                raise DataError(f"{file}: there is no such file; `headwise data get {self.corpus}` brings it")

    def read(self) -> tuple[list[str], list[str]]:
        """Return the lines of both files; raises `DataError` as reading does."""
        pairs = list(read_pairs(pair_files(self.source, self.target)))
        sources = [pair.source.decode("utf-8", "replace") for pair in pairs]
        return sources, [pair.target.decode("utf-8", "replace") for pair in pairs]

    def pairs(self) -> tuple[list[str], list[str]]:
        """Return sources and references in the model's form."""
        sides = self.read()
        if self.form != "stanford":
            return sides
        source, target = (
            [to_stanford(line, language) for line in side]
            for side, language in zip(sides, self.languages, strict=True)
        )
        return source, target

    def scores(self, hypotheses: Sequence[str]) -> dict[str, Any]:
        """Score translations in the model's form.

        `bleu` and `chrf` are sacreBLEU's on plain text against the file's own references. `tokenized_bleu` is BLEU as
        the paper counted it: on text tokenized as Moses does, compounds split where it says so; given text is taken
        as it is.
        """
        references, language = self.read()[1], self.languages[1]
        if self.form == "given":
            return score_translations(hypotheses, references).to_json()
        if self.form == "stanford":
            hypotheses = [from_stanford(line, language) for line in hypotheses]
        plain = score_translations(hypotheses, references).to_json()
        sides = ([self._as_the_paper(line) for line in side] for side in (hypotheses, references))
        return plain | {"tokenized_bleu": score_translations(*sides).tokenized_bleu.to_json()}

    def _as_the_paper(self, line: str) -> str:
        words = tokenize(plain_punctuation(line), self.languages[1], escape=True)
        return split_compounds(words) if self.compounds else words
