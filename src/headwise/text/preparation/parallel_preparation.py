"""Preparation of parallel text: read, clean, split off a development set, learn subwords, encode, and store.

`prepare` opens the prepared folder where neither the files nor the configuration changed, and builds it otherwise. The
stages, each a pass over the text: read and clean into one table of UTF-8 rows per side; select the rows for training
and development; learn subwords; encode; write the rows within the length limit; write the manifest. The text is
streamed, so that a corpus may be larger than memory (about 30 bytes per pair are held in memory).
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.config import CleaningConfig, DataConfig, SubwordConfig
from headwise.data.hashing import mix_hashes
from headwise.data.prepared import alone, find_prepared, replaced, stamp, with_checksums, write_manifest
from headwise.data.ragged import Ragged, RaggedWriter, gather, save_array
from headwise.errors import DataError
from headwise.text.preparation.parallel import SIDES, TRAIN_TEXT, PreparedData
from headwise.text.reading.pairs import (
    CleaningReport,
    PairFiles,
    check_cleaning,
    clean_pairs,
    development_files,
    pair_hash,
    read_pairs,
    training_files,
)
from headwise.text.tokens import encoding
from headwise.text.tokens.extension import extend
from headwise.text.tokens.subwords import UNK, Subwords

_FORMAT = 1
_BLOCK = 1 << 16  # rows processed per step
_SAMPLE = 2_000_000  # maximum number of pairs that subwords are learned from
_DEV_SHARE = 20  # at most one pair in 20 is split off for development
_LENIENT = CleaningConfig(max_words=1 << 30, max_ratio=1e9)  # development text is not filtered by length


@dataclass
class _Text:
    """Cleaned parallel text: one table per side, with the file index and line number of each row."""

    path: Path
    names: list[str]  # of the source files
    lines: NDArray[np.int64]
    files: NDArray[np.uint16]
    hashes: NDArray[np.uint64]
    report: CleaningReport

    def table(self, side: str) -> Ragged:
        return Ragged(self.side_path(side), np.uint8)

    def side_path(self, side: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{side}")


@dataclass(frozen=True)
class _Sources:
    """Input files and the options for reading them."""

    training: list[PairFiles]
    development: PairFiles | None
    fields: tuple[str, str]  # of a .jsonl line
    cleaning: CleaningConfig
    dev_pairs: int  # split off where there are no development files
    new_files: int  # number of training files that aren't replayed; 0: all
    workers: int

    @classmethod
    def of(cls, config: DataConfig) -> _Sources:
        """Read the files and options from the configuration; raises `ConfigError`."""
        development = development_files(config)
        return cls(
            training_files(config),
            development,
            (config.source_field, config.target_field),
            config.cleaning,
            0 if development else config.dev_pairs,
            config.dev_files,
            config.workers,
        )

    def request(self) -> dict[str, Any]:
        """Return the part of the request that describes the input, as JSON values; raises `DataError`."""
        development = [self.development] if self.development else []
        paths = [path for files in [*self.training, *development] for path in files.paths]
        return {
            "training": [[str(path) for path in files.paths] for files in self.training],
            "development": [str(path) for path in self.development.paths] if self.development else None,
            "inputs": [stamp(path) for path in paths],
            "fields": list(self.fields),
            "cleaning": self.cleaning.model_dump(),
            "dev_pairs": self.dev_pairs,
            **({"dev_files": self.new_files} if self.new_files else {}),
        }


def prepare(
    config: DataConfig,
    subword_config: SubwordConfig,
    directory: str | Path,
    *,
    seed: int = 1,
    max_length: int = 512,
    subwords: Subwords | None = None,
    add_subwords: int = 0,
    expected: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> PreparedData:
    """Prepare the folder, or reuse it where neither files nor options have changed.

    Args:
        config: the files, the cleaning rules and the number of worker processes.
        subword_config: how subwords are learned (ignored for the model where `subwords` is given).
        directory: the prepared folder; if it exists and doesn't match, it is replaced.
        seed: seed of the development split.
        max_length: maximum length of a sentence in subwords, EOS included; longer pairs are dropped and counted.
        subwords: a given subword model, instead of a learned one.
        add_subwords: number of subwords, at most, that are learned and added to the given ones; from the files that the
            development set is split off, as replayed text has none that are new.
        expected: `checksum` of the text that the run began with; with other text, nothing is replaced.
        say: callback for a progress message at each stage of preparation.

    Raises:
        CheckpointError: the text isn't the `expected` one.
        ConfigError: the lists of files don't match, or the vocabulary doesn't fit the text.
        DataError: a file is missing, empty, binary, malformed, or differs in length from the other side; or
            `directory` holds something else.
        TrainingError: the folder can't be written.
    """
    started = time.perf_counter()
    directory = Path(directory)
    sources = _Sources.of(config)
    request = {
        "format": _FORMAT,
        **sources.request(),
        "subword_config": subword_config.model_dump(exclude={"copy_from"}),
        "given_subwords": subwords.digest() if subwords else None,
        **({"add_subwords": add_subwords} if add_subwords else {}),
        "seed": seed,
        "max_length": max_length,
    }
    with alone(directory):
        prepared = find_prepared(directory, request, PreparedData.open, expected)
        if prepared is None:
            with replaced(directory, request, expected) as folder:
                _build(folder, request, sources, subword_config, subwords, say)
    seconds = time.perf_counter() - started
    if prepared is not None:
        return dataclasses.replace(prepared, seconds=seconds)
    return PreparedData.open(directory, seconds=seconds, reused=False)


def _build(
    folder: Path,
    request: dict[str, Any],
    sources: _Sources,
    subword_config: SubwordConfig,
    subwords: Subwords | None,
    say: Callable[[str], None],
) -> None:
    """Build the prepared data in `folder`, reporting each stage through `say`.

    Raises `ConfigError`, `DataError` and `TrainingError` as `prepare` does.
    """
    say("reading and cleaning the text")
    request = with_checksums(request)
    text = _read(sources.training, sources.fields, sources.cleaning, folder / TRAIN_TEXT)
    train_rows, report = _drop_duplicates(text, sources.cleaning)
    if sources.development is None:
        dev_text = text
        train_rows, dev_rows, sentences = _split(text, train_rows, sources, request["seed"])
    else:
        dev_text = _read([sources.development], sources.fields, _LENIENT, folder / "dev-text")
        dev_rows = np.arange(len(dev_text.lines))
        overlap = int(np.isin(text.hashes[train_rows], dev_text.hashes).sum())
        sentences = [f"development set: {len(dev_rows):,} pairs from {' and '.join(request['development'])}"]
        if overlap:
            sentences.append(f"{overlap:,} training pairs also stand in the development set")
    report += sentences
    if subwords is None:
        say(f"learning {subword_config.size:,} subwords")
        subwords = _learn(text, train_rows, subword_config, folder, request["seed"])
    else:
        if most := request.get("add_subwords", 0):
            say(f"learning at most {most:,} further subwords")
            subwords, sentence = _extend(text, train_rows, subwords, most, sources.new_files)
            report.append(sentence)
        subwords.save(folder)
    say(f"encoding {len(train_rows):,} pairs")
    kept_train = _encode(
        folder, "train", text, train_rows, subwords, request["max_length"], sources.workers, report
    )
    save_array(folder / "train.rows", kept_train)
    if not len(kept_train):
        raise DataError(f"every training pair is longer than {request['max_length']} subwords")
    kept_dev = _encode(folder, "dev", dev_text, dev_rows, subwords, request["max_length"], 1, report)
    _write_texts(folder, "dev", dev_text, kept_dev)
    _remove_texts(folder, keep_training=subword_config.dropout > 0)
    names = {"train": text.names, "dev": dev_text.names}
    write_manifest(folder, request, report, subwords=subwords.digest(), names=names)


def _read(sources: list[PairFiles], fields: tuple[str, str], rules: CleaningConfig, path: Path) -> _Text:
    """Read the files and clean them by `rules` into one table per side."""
    total_report = CleaningReport(limits=rules)
    lines, files, hashes = [], [], []
    text_paths = [path.with_name(f"{path.name}.{side}") for side in SIDES]
    with (
        RaggedWriter(text_paths[0], np.uint8) as source_writer,
        RaggedWriter(text_paths[1], np.uint8) as target_writer,
    ):
        for index, source in enumerate(sources):
            report = CleaningReport(limits=rules)
            pairs = clean_pairs(read_pairs(source, *fields), rules, report)
            while block := list(itertools.islice(pairs, _BLOCK)):
                source_writer.append_texts([pair.source for pair in block])
                target_writer.append_texts([pair.target for pair in block])
                lines.append(np.array([pair.line for pair in block], np.int64))
                files.append(np.full(len(block), index, np.uint16))
                hashes.append(np.array([pair_hash(p.source, p.target) for p in block], np.uint64))
            check_cleaning(report, source)
            total_report.add(report)
    names = [str(source.source) for source in sources]
    return _Text(
        path, names, np.concatenate(lines), np.concatenate(files), np.concatenate(hashes), report=total_report
    )


def _drop_duplicates(text: _Text, rules: CleaningConfig) -> tuple[NDArray[np.int64], list[str]]:
    """Return the rows to train on, all or the first of each set of duplicates, and the cleaning report."""
    rows = np.arange(len(text.lines))
    if rules.drop_duplicates:
        rows = np.sort(np.unique(text.hashes, return_index=True)[1])
        text.report.duplicates = len(text.lines) - len(rows)
        text.report.kept -= text.report.duplicates
    return rows, [str(text.report)]


def _split(
    text: _Text, rows: NDArray[np.int64], sources: _Sources, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """Split off the development set: the pairs with the smallest hashes under `seed`, so duplicates stay together."""
    requested = sources.dev_pairs
    if not requested:
        return rows, rows[:0], ["no development set: data.dev_pairs is 0"]
    hashes = mix_hashes(text.hashes[rows], seed)
    candidates = np.arange(len(rows))
    if sources.new_files:
        candidates = np.flatnonzero(text.files[rows] < sources.new_files)
    distinct, first = np.unique(hashes[candidates], return_index=True)
    if len(distinct) < 2:
        raise DataError(
            f"expected at least 2 different pairs, one of them for the development set, found {len(distinct)}"
        )
    count = max(1, min(requested, len(distinct) // _DEV_SHARE))
    held_out = np.isin(hashes, distinct[:count])
    dev_rows = rows[np.sort(candidates[first[:count]])]
    origin = "training text" if not sources.new_files else " and ".join(text.names[: sources.new_files])
    sentence = f"development set: {count:,} pairs split off the {origin} (seed {seed})"
    if count < requested:
        sentence += f", 1 in {_DEV_SHARE}, rather than the {requested:,} that data.dev_pairs asks for"
    if duplicates := int(held_out.sum()) - count:
        sentence += f"; {duplicates:,} training pairs equal to one of them left out"
    return rows[~held_out], dev_rows, [sentence]


def _learn(text: _Text, rows: NDArray[np.int64], config: SubwordConfig, folder: Path, seed: int) -> Subwords:
    """Learn subwords from the training text, or from a sample of at most `_SAMPLE` pairs."""
    if len(rows) > _SAMPLE:
        rows = np.sort(np.random.default_rng(seed).choice(rows, _SAMPLE, replace=False))
    sides = [_sentences(text.table(side), rows) for side in SIDES]
    return Subwords.train(sides[0], sides[1], config, folder)


def _extend(
    text: _Text, rows: NDArray[np.int64], subwords: Subwords, most: int, new_files: int
) -> tuple[Subwords, str]:
    """Add subwords of the new files' text; return the result, and a sentence with their number."""
    if new_files:
        rows = rows[text.files[rows] < new_files]
    sides = [_sentences(text.table(side), rows[:_SAMPLE]) for side in SIDES]
    grown = extend(subwords, sides[0], sides[1], most)
    added = [grown.source_size - subwords.source_size]
    sizes = [grown.source_size]
    if not subwords.joint:
        added.append(grown.target_size - subwords.target_size)
        sizes.append(grown.target_size)
    listed = (" and ".join(f"{number:,}" for number in numbers) for numbers in (added, sizes))
    return grown, "subwords: {} added that the new text needs, {} in all".format(*listed)


def _sentences(table: Ragged, rows: NDArray[np.int64]) -> Iterator[str]:
    for start in range(0, len(rows), _BLOCK):
        yield from table.texts(rows[start : start + _BLOCK])


def _encode(
    folder: Path,
    name: str,
    text: _Text,
    rows: NDArray[np.int64],
    subwords: Subwords,
    longest: int,
    workers: int,
    report: list[str],
) -> NDArray[np.int64]:
    """Encode rows and write those of at most `longest` subwords as store `name`; returns the rows written."""
    save_array(folder / "rows", rows)
    jobs = [
        encoding.EncodingJob(str(text.side_path(side)), str(folder / "rows"), str(folder), side,
                     str(folder / f"{name}.{side}.part"), 0, len(rows))
        for side in SIDES
    ]  # fmt: skip
    parts = encoding.encode(jobs, workers)
    types = [encoding.id_type(size) for size in (subwords.source_size, subwords.target_size)]
    masks, unknown = [], 0
    with (
        RaggedWriter(folder / f"{name}.source", types[0]) as source_writer,
        RaggedWriter(folder / f"{name}.target", types[1]) as target_writer,
    ):
        for source_part, target_part in zip(*parts, strict=True):
            source, target = encoding.open_part(source_part), encoding.open_part(target_part)
            mask = (source.lengths <= longest) & (target.lengths < longest)
            masks.append(mask)
            fitting = np.flatnonzero(mask)
            for start in range(0, len(fitting), _BLOCK):
                for table, writer in ((source, source_writer), (target, target_writer)):
                    values, lengths = gather(table, fitting[start : start + _BLOCK])
                    unknown += int(np.count_nonzero(values == UNK))
                    writer.append(values, lengths)
    for part in itertools.chain.from_iterable(parts):
        encoding.remove_part(part)
    kept = rows[np.concatenate(masks)] if masks else rows
    save_array(folder / f"{name}.lines", text.lines[kept])
    save_array(folder / f"{name}.files", text.files[kept])
    set_name = "training" if name == "train" else "development"
    sentence = f"{set_name}: {len(kept):,} pairs encoded"
    if len(kept) < len(rows):
        sentence += f", {len(rows) - len(kept):,} over {longest} subwords left out"
    if unknown:
        sentence += f", {unknown:,} unknown subwords in them"
    report.append(sentence)
    return kept


def _write_texts(folder: Path, name: str, text: _Text, rows: NDArray[np.int64]) -> None:
    for side in SIDES:
        table = text.table(side)
        with RaggedWriter(folder / f"{name}.{side}.text", np.uint8) as writer:
            for start in range(0, len(rows), _BLOCK):
                writer.append(*gather(table, rows[start : start + _BLOCK]))


def _remove_texts(folder: Path, keep_training: bool) -> None:
    names = ["rows", "dev-text.*"] + ([] if keep_training else [f"{TRAIN_TEXT}.*", "train.rows"])
    for name in names:
        for path in folder.glob(name):
            path.unlink()
