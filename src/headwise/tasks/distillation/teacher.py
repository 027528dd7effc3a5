"""The teacher of a distillation, and the text that it translates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwise.config import CleaningConfig, Config
from headwise.data.prepared import files_checksum, stamp
from headwise.decoding.options import SearchOptions
from headwise.decoding.translator import Translator
from headwise.errors import CheckpointError, ConfigError
from headwise.text.reading.lines import open_text, text_lines
from headwise.text.reading.pairs import pair_files, read_pairs
from headwise.text.tokens.subwords import Subwords


@dataclass(frozen=True)
class Teacher:
    """A run or an ensemble, and how it translates.

    Attributes:
        runs: run directories; several are an ensemble, whose first run gives the default search options.
        search: search options that differ from those of the first run.
        engine: keyword arguments of `Translator.load`: engine, precision, device, workers.
        language: the language to translate to, a code of an imported vocabulary; None for that which the run names.
    """

    runs: Sequence[Path]
    search: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    language: str | None = None

    def options(self) -> SearchOptions:
        """Return the search options; raises `ConfigError` for one out of range, `CheckpointError` without a run."""
        decoding = Config.of_run(self.runs[0], "translation").decoding
        defaults = {"beam": decoding.beam, "alpha": decoding.alpha, "extra_length": decoding.extra_length}
        return SearchOptions(**{**defaults, **self.search})

    def digest(self) -> str:
        """Return 12 hexadecimal digits that identify the weights, subwords and architecture of all runs.

        Raises `CheckpointError` if a run is missing or isn't trained to its end.
        """
        digest = hashlib.sha256()
        for run in self.runs:
            config = Config.of_run(run, "translation")
            weights = run / "model.safetensors"
            if not weights.is_file():
                raise CheckpointError(
                    f"{weights}: there is no such file; was the teacher trained to its end?"
                )
            parts = [
                files_checksum({"inputs": [stamp(weights)]}),
                self._subwords(run, config).digest(),
                json.dumps(config.model.model_dump(mode="json", exclude_defaults=True), sort_keys=True),
            ]
            digest.update("\n".join(parts).encode())
        return digest.hexdigest()[:12]

    def load(self) -> Translator:
        """Load the runs; raises as `Translator.load` does."""
        return Translator.load(list(self.runs), language=self.language, **self.engine)

    def target_language(self) -> str | None:
        """Return the code of the language that is translated to, if it is known.

        Raises `ConfigError` if the vocabulary has no such language, and as `Subwords.load`.
        """
        run = self.runs[0]
        config = Config.of_run(run, "translation")
        if self.language is None:
            return config.data.languages[1]
        numbering = self._subwords(run, config).numbering
        assert numbering is not None
        codes = numbering.languages_by_code
        return next((code for code, piece in codes.items() if piece == numbering.language), None)

    def _subwords(self, run: Path, config: Config) -> Subwords:
        subwords = Subwords.load(run, config.subwords)
        return subwords if self.language is None else subwords.with_language(self.language)


@dataclass(frozen=True)
class SourceText:
    """The text to translate and, where translations are chosen by them, its references.

    Attributes:
        sources: plain-text files (or `.gz`) with one sentence per line.
        references: a file with as many lines for each of `sources`, or none.
        tokenize: sacreBLEU's tokenizer for the comparison of a translation with its reference.
        max_words: a line of more words isn't translated, because cleaning would remove it (`data.cleaning`).
    """

    sources: Sequence[Path]
    references: Sequence[Path] = ()
    tokenize: str = "13a"
    max_words: int = CleaningConfig().max_words

    def __post_init__(self) -> None:
        """Raise `ConfigError` if there is no file, one holds both sides, or one lacks its references."""
        if not self.sources:
            raise ConfigError("--source: expected at least one file of text to translate, found none")
        for path in (*self.sources, *self.references):
            if path.name.lower().removesuffix(".gz").endswith((".tsv", ".jsonl")):
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
        return request
