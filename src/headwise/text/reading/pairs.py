"""Reader of parallel text: sentence pairs from files, with cleaning.

Pairs come from two plain-text files with one sentence per line, from a two-column `.tsv`, from a `.jsonl` or
`.parquet` with named fields, or from a translator's `.tmx`, `.xlf` or `.xliff`; each may be compressed (`.gz`, `.zst`).
Everything streams: memory use doesn't grow with the files.

The text is not altered, except that a byte-order mark at the start of a file, line ends (`\\n`, `\\r\\n`) and
surrounding white space are stripped, and that other line-end characters, which end no line here, become spaces (see
`headwise.text.reading.lines`): the two sides stay aligned.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from headwise.config import CleaningConfig, DataConfig
from headwise.data.ragged import MOST_FILES
from headwise.errors import ConfigError, DataError
from headwise.parsing import Malformed, as_object, json_value
from headwise.text.reading.bilingual import SUFFIXES as BILINGUAL
from headwise.text.reading.bilingual import read_bilingual
from headwise.text.reading.compression import suffix
from headwise.text.reading.lines import one_line, open_text, text_lines
from headwise.text.reading.parquet import ParquetText
from headwise.text.reading.records import nested_text

_NO_TEXT = b"\xff"  # placeholder of a line that isn't UTF-8
_BOTH_SIDES = (".tsv", ".jsonl", ".parquet", *BILINGUAL)


@dataclass(frozen=True)
class PairFiles:
    """Files of sentence pairs: two plain-text files, or one with both sides such as a `.tsv` (`target` is None)."""

    source: Path
    target: Path | None

    @property
    def paths(self) -> list[Path]:
        """Return the one or two files."""
        return [self.source] if self.target is None else [self.source, self.target]


class RawPair(NamedTuple):
    """A sentence pair as in the file: undecoded bytes, with the 1-based line number."""

    source: bytes
    target: bytes
    line: int


class Pair(NamedTuple):
    """A cleaned sentence pair, with its 1-based line number."""

    source: str
    target: str
    line: int


@dataclass
class CleaningReport:
    """Counts of the sentence pairs that were read, removed by each rule, and kept."""

    total: int = 0
    kept: int = 0
    not_utf8: int = 0  # either side isn't UTF-8 text (or has a NUL character)
    empty: int = 0
    too_long: int = 0  # more than `max_words` words on either side
    ratio: int = 0  # one side more than `max_ratio` times as many characters as the other
    duplicates: int = 0
    near: int = 0  # near duplicates
    rules: Counter[str] = field(default_factory=Counter)  # pairs that each further rule removes
    limits: CleaningConfig = field(default_factory=CleaningConfig)

    def add(self, other: CleaningReport) -> None:
        """Add the counts of another report."""
        for name in ("total", "kept", "not_utf8", "empty", "too_long", "ratio", "duplicates", "near"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.rules.update(other.rules)

    def __str__(self) -> str:
        """Return all counts on one line."""
        removed = {
            "with an empty side": self.empty,
            f"over {self.limits.max_words} words": self.too_long,
            f"with a length ratio over {self.limits.max_ratio:g}": self.ratio,
            "not UTF-8": self.not_utf8,
            **self.rules,
            **({"duplicates": self.duplicates} if self.limits.drop_duplicates else {}),
            **({"near duplicates": self.near} if self.near else {}),
        }
        listed = ", ".join(f"{count:,} {name}" for name, count in removed.items())
        kept = "" if self.limits.drop_duplicates else ", duplicates kept"
        return f"{self.total:,} pairs read, {self.kept:,} kept; removed: {listed}{kept}"


def training_files(config: DataConfig) -> list[PairFiles]:
    """Pair the files of `data.source` and `data.target`, in order.

    A `.tsv`, `.jsonl`, `.parquet`, `.tmx` or XLIFF file (or one compressed) holds both sides and has no target file.

    Raises:
        ConfigError: the lists don't match or are too long, or there isn't one positive weight for each file (pair).
    """
    if not config.source:
        raise ConfigError("data.source: expected at least one file of training text, found none")
    if len(config.source) > MOST_FILES:
        raise ConfigError(f"data.source: expected at most {MOST_FILES:,} files, found {len(config.source):,}")
    two_sided = [path for path in config.source if is_two_sided(path)]
    one_sided = [path for path in config.source if not is_two_sided(path)]
    if len(one_sided) != len(config.target):
        raise ConfigError(
            f"data.target (--target): expected one file for each plain-text file in data.source (--source) "
            f"({len(one_sided)} beside {len(two_sided)} with both sides), found {len(config.target)}"
        )
    targets = iter(config.target)
    files = [pair_files(path, None if is_two_sided(path) else next(targets)) for path in config.source]
    check_weights(config.weights, len(files), "files (or pairs of files)")
    return files


def check_weights(weights: Sequence[float], count: int, of: str) -> None:
    """Raise `ConfigError` if there are weights, but not a positive one for each of so many files or corpora."""
    if weights and len(weights) != count:
        raise ConfigError(f"data.weights: expected one weight for each of the {count} {of}, found {len(weights)}")
    if not all(weights):  # a configuration of an earlier version may have such
        raise ConfigError(f"data.weights: expected positive numbers, found {list(weights)}")


def development_files(config: DataConfig) -> PairFiles | None:
    """Return the configured development files, or None where the set is split off the training text.

    Raises:
        ConfigError: one of the two plain-text files is missing from the configuration.
    """
    if config.dev_source is None:
        if config.dev_target is not None:
            raise ConfigError(f"data.dev_source: expected the partner of {config.dev_target}, found none")
        return None
    return pair_files(config.dev_source, config.dev_target)


def pair_files(source: str | Path, target: str | Path | None) -> PairFiles:
    """Check that there are two plain-text files, or one file with both sides; raises `ConfigError` otherwise."""
    if is_two_sided(source):
        if target is not None:
            raise ConfigError(f"{source} holds both sides, so no target file goes with it; found {target}")
    elif target is None:
        raise ConfigError(f"{source}: expected a target file beside it (or a .tsv, .jsonl, .tmx or .xlf), found none")
    return PairFiles(Path(source), None if target is None else Path(target))


def read_pairs(files: PairFiles, source_field: str = "source", target_field: str = "target") -> Iterator[RawPair]:
    """Yield every pair of one file (pair), in order and undecoded.

    Raises:
        DataError: a file is missing, a directory, empty, binary, damaged or unreadable; the two files differ in
            length; a `.tsv` line doesn't have two columns; a `.jsonl` line isn't an object with both text fields; a
            `.tmx`, `.xlf` or `.xliff` isn't as `read_bilingual` expects it.
    """
    if files.target is not None:
        yield from _read_two(files.source, files.target)
    elif suffix(files.source) == ".tsv":
        yield from _read_tsv(files.source)
    elif suffix(files.source) == ".parquet":
        yield from _read_parquet(files.source, source_field, target_field)
    elif suffix(files.source) in BILINGUAL:
        for source, target, line in read_bilingual(files.source, source_field, target_field):
            yield RawPair(source.encode(), target.encode(), line)
    else:
        yield from _read_jsonl(files.source, source_field, target_field)


def clean_pairs(pairs: Iterator[RawPair], config: CleaningConfig, report: CleaningReport) -> Iterator[Pair]:
    """Yield the pairs that pass every rule, and count in `report` the pairs that each rule removes.

    Duplicates aren't removed here, as that needs all pairs at once; see `pair_hash`.
    """
    for raw in pairs:
        report.total += 1
        try:
            source = one_line(raw.source.decode("utf-8")).strip()
            target = one_line(raw.target.decode("utf-8")).strip()
        except UnicodeDecodeError:
            report.not_utf8 += 1
            continue
        if "\0" in source or "\0" in target:
            report.not_utf8 += 1
        elif not source or not target:
            report.empty += 1
        elif max(len(source.split()), len(target.split())) > config.max_words:
            report.too_long += 1
        elif max(len(source), len(target)) > config.max_ratio * min(len(source), len(target)):
            report.ratio += 1
        else:
            report.kept += 1
            yield Pair(source, target, raw.line)


def check_cleaning(report: CleaningReport, *files: object) -> None:
    """Raise `DataError` where no pair of the files was kept, or where most pairs aren't UTF-8 text."""
    names = " and ".join(map(str, files))
    if report.not_utf8 * 2 > report.total:
        raise DataError(
            f"{names}: expected UTF-8 text, found {report.not_utf8:,} of {report.total:,} pairs that aren't; "
            f"convert the text first (for instance with iconv)"
        )
    if not report.kept:
        raise DataError(f"{names}: cleaning left nothing to learn from: {report}")


def pair_hash(source: str, target: str) -> int:
    """Return a 64-bit hash of both texts, to find duplicates without storing the text."""
    digest = hashlib.blake2b(f"{source}\n{target}".encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def is_two_sided(path: str | Path) -> bool:
    """Whether a file has both sides by its suffix."""
    return suffix(path) in _BOTH_SIDES


def has_fields(path: str | Path) -> bool:
    """Whether `data.source_field` and `data.target_field` say where the sides of a file are."""
    return is_two_sided(path) and suffix(path) != ".tsv"


def _read_two(source: Path, target: Path) -> Iterator[RawPair]:
    with open_text(source) as source_file, open_text(target) as target_file:
        sources, targets = text_lines(source, source_file), text_lines(target, target_file)
        number = 0
        for left in sources:
            right = next(targets, None)
            if right is None:
                count = number + 1 + sum(1 for _ in sources)
                raise length_mismatch(source, count, target, number)
            number += 1
            yield RawPair(left, right, number)
        extra = sum(1 for _ in targets)
        if extra:
            raise length_mismatch(source, number, target, number + extra)


def length_mismatch(source: Path | str, source_lines: int, target: Path | str, target_lines: int) -> DataError:
    """Return the error of two files with different numbers of lines."""
    return DataError(
        f"expected two files with the same number of lines, found {source_lines:,} in {source} "
        f"and {target_lines:,} in {target}"
    )


def _read_tsv(path: Path) -> Iterator[RawPair]:
    with open_text(path) as file:
        for number, line in enumerate(text_lines(path, file), start=1):
            columns = line.split(b"\t")
            if len(columns) != 2:
                raise DataError(f"{path} line {number}: expected 2 columns separated by a tab, found {len(columns)}")
            yield RawPair(columns[0], columns[1], number)


def _read_parquet(path: Path, source_field: str, target_field: str) -> Iterator[RawPair]:
    rows = ParquetText(path).tuples([source_field, target_field])
    for number, (source, target) in enumerate(rows, start=1):
        left, right = ((text or "").encode("utf-8", "surrogateescape") for text in (source, target))
        yield RawPair(left, right, number)


def _read_jsonl(path: Path, source_field: str, target_field: str) -> Iterator[RawPair]:
    with open_text(path) as file:
        for number, line in enumerate(text_lines(path, file), start=1):
            try:
                record = json_value(line)
            except Malformed as problem:
                if problem.kind == "unicode":
                    yield RawPair(_NO_TEXT, _NO_TEXT, number)  # counted as not UTF-8
                    continue
                problem.line = None
                raise DataError(problem.sentence(f"{path} line {number}", "a JSON object")) from None
            place = f"{path} line {number}"
            fields = as_object(record, place)
            source, target = (nested_text(fields, name, place).encode() for name in (source_field, target_field))
            yield RawPair(source, target, number)
