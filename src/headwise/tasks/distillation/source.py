"""The text that a teacher translates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.config import CleaningConfig
from headwise.data.prepared import files_checksum, stamp
from headwise.errors import ConfigError
from headwise.text.reading.compression import plain_name
from headwise.text.reading.lines import open_text, text_lines
from headwise.text.reading.pairs import pair_files, read_pairs


@dataclass(frozen=True)
class SourceText:
    """The text to translate and, where translations are chosen by them, its references.

    Attributes:
        sources: plain-text files (or `.gz`) with one sentence per line.
        references: a file with as many lines for each of `sources`, or none.
        tokenize: sacreBLEU's tokenizer for the comparison of a translation with its reference.
        max_words: a line of more words isn't translated, because cleaning would remove it (`data.cleaning`).
        tag: a word that is put before every translation, or nothing.
    """

    sources: Sequence[Path]
    references: Sequence[Path] = ()
    tokenize: str = "13a"
    max_words: int = CleaningConfig().max_words
    tag: str = ""

    def __post_init__(self) -> None:
        """Raise `ConfigError` if there is no file, one holds both sides, or one lacks its references."""
        if not self.sources:
            raise ConfigError("--source: expected at least one file of text to translate, found none")
        for path in (*self.sources, *self.references):
            if plain_name(path).lower().endswith((".tsv", ".jsonl")):
                raise ConfigError(
                    f"{path}: expected plain text or .gz, one sentence per line, found another format"
                )
        if self.references and len(self.references) != len(self.sources):
            raise ConfigError(
                f"--target: expected one file for each of the {len(self.sources)} of --source, "
                f"found {len(self.references)}"
            )

    def lines(self, index: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield the undecoded lines of source file `index`, each with its reference, empty if there are none.

        Raises `DataError` for a file that is missing, empty, binary or damaged, or doesn't match its references.
        """
        source = self.sources[index]
        if self.references:
            for pair in read_pairs(pair_files(source, self.references[index])):
                yield pair.source, pair.target
            return
        with open_text(source) as file:
            for line in text_lines(source, file):
                yield line, b""

    def request(self) -> dict[str, Any]:
        """Return what translations depend on: checksums of the files, and options; raises `DataError`."""
        request: dict[str, Any] = {
            "source text": files_checksum({"inputs": [stamp(path) for path in self.sources]}),
            "max_words": self.max_words,
        }
        if self.references:
            request["references"] = files_checksum({"inputs": [stamp(path) for path in self.references]})
            request["tokenize"] = self.tokenize
        if self.tag:
            request["tag"] = self.tag
        return request
