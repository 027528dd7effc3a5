"""Single texts prepared once and memory-mapped ever after: one long row of ids, and which line each stands on.

`prepare_text` reads, cleans, splits the end off for development (or reads files for that), learns the vocabulary from
what remains, encodes, and writes everything into one folder, which the next start finds ready.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.config import DataConfig, SubwordConfig
from headwise.data.places import locate
from headwise.data.prepared import (
    alone,
    find_prepared,
    read_manifest,
    replaced,
    stamp,
    with_checksums,
    write_manifest,
)
from headwise.data.ragged import Ragged, RaggedWriter, map_places, save_array
from headwise.errors import CheckpointError, DataError
from headwise.text.reading.plain import LineReport, read_text, text_files
from headwise.text.tokens import encoding
from headwise.text.tokens.subwords import UNK
from headwise.text.tokens.vocabulary import Vocabulary, learn_vocabulary, load_vocabulary

_FORMAT = 1
_BLOCK = 1 << 16  # lines handled at a time
_SAMPLE = 5_000_000  # lines that subwords are learned from


class TextStore:
    """Encoded lines, read from memory-mapped arrays, in the order of the files.

    A row is the ids of one line: its line end is the last of them in running text, EOS where lines are documents.
    `ids` are those of all rows, one after the other.
    """

    def __init__(
        self, table: Ragged, lines: NDArray[Any], files: NDArray[Any], names: Sequence[str], characters: int
    ) -> None:
        """Join the table with the line number and the index in `names` that each row comes from."""
        if not len(table) == len(lines) == len(files):
            raise CheckpointError(
                f"prepared text: expected as many rows, lines and files, found {len(table)}, {len(lines)} and "
                f"{len(files)}"
            )
        self.table, self.lines, self.files, self.names = table, lines, files, list(names)
        self.characters = characters  # of the text, line ends included

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, row: int) -> NDArray[Any]:
        """Ids of one row."""
        return self.table[row]

    @property
    def ids(self) -> NDArray[Any]:
        """All ids, one after the other."""
        return self.table.values

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Ids of every row."""
        return self.table.lengths

    def rows_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows that positions in `ids` belong to."""
        return np.searchsorted(self.table.offsets, positions, side="right") - 1

    def locate(self, rows: Sequence[int] | NDArray[Any], most: int = 10) -> str:
        """Say where rows come from, for messages: `train.en lines 3, 17 and 40`; at most `most` are listed."""
        return locate(rows, self.files, self.lines, self.names, most)


@dataclass(frozen=True)
class PreparedText:
    """What training needs of the text, all of it in one folder."""

    directory: Path
    train: TextStore
    dev: TextStore  # empty where there is neither a development file nor a share to split off
    vocabulary: Vocabulary
    report: list[str]  # what was read, removed, split off and learned; one sentence each
    checksum: str  # 12 hexadecimal digits of the input files' contents
    reused: bool  # found ready

    @classmethod
    def open(cls, directory: Path, *, reused: bool = True) -> PreparedText:
        """Open a prepared folder; raises `CheckpointError` where it is missing or damaged."""
        manifest = read_manifest(directory, "names.train", "names.dev", "characters.train", "characters.dev")
        vocabulary = load_vocabulary(directory)
        if vocabulary.digest() != manifest.get("vocabulary"):
            raise CheckpointError(f"{directory}: the vocabulary isn't the one that the text was encoded with")
        train, dev = (_open_store(directory, name, manifest, vocabulary) for name in ("train", "dev"))
        return cls(directory, train, dev, vocabulary, manifest["report"], manifest["checksum"], reused)

    def identity(self) -> dict[str, str]:
        """Checksums of the text and of the vocabulary."""
        return {"data": self.checksum, "vocabulary": self.vocabulary.digest()}

    def save(self, run: Path) -> None:
        """Write the vocabulary into a run directory; raises `TrainingError`."""
        self.vocabulary.save(run)


def prepare_text(
    config: DataConfig,
    subwords: SubwordConfig,
    directory: Path,
    *,
    documents: bool,
    symbols: Sequence[str] = (),
    vocabulary: Vocabulary | None = None,
    expected: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> PreparedText:
    """Make the prepared folder, or reuse it where nothing it depends on has changed.

    Args:
        config: the files `text` and `dev_text`, or the `dev_share` to split off.
        subwords: the kind and size of the vocabulary (unless one is given).
        directory: the folder to make; if it exists and doesn't fit, it is replaced.
        documents: whether each line is a text of its own.
        symbols: a task's own symbols, to have ids of their own.
        vocabulary: use this one instead of learning one.
        expected: `checksum` of the text that a run was begun with; with any other text, nothing is replaced.
        say: called with a sentence at each stage, where the folder has to be made.

    Raises:
        CheckpointError: the text isn't the `expected` one.
        ConfigError: no file is given, or the vocabulary doesn't fit the text.
        DataError: a file can't be used; or `directory` holds something else.
        TrainingError: the folder can't be written.
    """
    files = text_files(config)
    development = [Path(config.dev_text)] if config.dev_text is not None else []
    request = {
        "format": _FORMAT,
        "task": "single texts",
        "inputs": [stamp(path) for path in [*files, *development]],
        "training": [str(path) for path in files],
        "development": [str(path) for path in development],
        "dev_share": 0.0 if development else config.dev_share,
        "documents": documents,
        "drop_duplicates": documents and config.cleaning.drop_duplicates,
        "subwords": subwords.model_dump(),
        "symbols": list(symbols),
        "given": vocabulary.digest() if vocabulary else None,
    }

    with alone(directory):
        found = find_prepared(directory, request, PreparedText.open, expected)
        if found is not None:
            return found
        with replaced(directory, request, expected) as folder:
            _build(folder, request, subwords, vocabulary, config.workers, say)
    return PreparedText.open(directory, reused=False)


def _build(
    folder: Path,
    request: dict[str, Any],
    subwords: SubwordConfig,
    vocabulary: Vocabulary | None,
    workers: int,
    say: Callable[[str], None],
) -> None:
    say("reading and cleaning the text")
    request = with_checksums(request)
    drop = request["drop_duplicates"]
    training = _Lines(folder / "text", request["training"], LineReport(request["documents"], drop))
    report = [str(training.report)]
    if request["development"]:
        dev = _Lines(folder / "dev-text", request["development"], LineReport(request["documents"]))
        ends, dev_rows = len(training.lines), np.arange(len(dev.lines))
        report.append(f"development text: {dev.report}")
    else:
        dev, ends = training, training.split(request["dev_share"])
        dev_rows = np.arange(ends, len(training.lines))
        report.append(
            f"development text: the last {len(dev_rows):,} lines" if len(dev_rows) else "no development text"
        )
    rows = np.arange(ends)
    if vocabulary is None:
        say(f"learning the vocabulary ({subwords.kind})")
        vocabulary = learn_vocabulary(training.sample(ends), subwords, request["symbols"])
    vocabulary.save(folder)
    say(f"encoding {len(rows):,} lines")
    characters = {}
    for name, lines, chosen in (("train", training, rows), ("dev", dev, dev_rows)):
        tokens, unknown = lines.encode(folder, name, chosen, request["documents"], workers)
        characters[name] = int(lines.characters[chosen].sum())
        title = "training" if name == "train" else "development"
        sentence = f"{title}: {tokens:,} tokens of {characters[name]:,} characters"
        report.append(sentence + (f", {unknown:,} of them unknown" if unknown else ""))
    report.append(
        f"vocabulary: {vocabulary.size:,} {'characters' if subwords.kind == 'characters' else 'subwords'}"
    )
    for path in [*folder.glob("text.*"), *folder.glob("dev-text.*"), folder / "rows"]:
        path.unlink()
    names = {"train": request["training"], "dev": request["development"] or request["training"]}
    write_manifest(
        folder, request, report, vocabulary=vocabulary.digest(), names=names, characters=characters
    )


class _Lines:
    """Cleaned lines of some files, in one table, and where each comes from."""

    def __init__(self, path: Path, files: Sequence[str], report: LineReport) -> None:
        self.path, self.report = path, report
        numbers, sources, lengths = [], [], []
        with RaggedWriter(path, np.uint8) as writer:
            for index, file in enumerate(files):
                lines = read_text(Path(file), report)
                while block := list(itertools.islice(lines, _BLOCK)):
                    writer.append_texts([line.text for line in block])
                    numbers.append(np.array([line.number for line in block], np.int64))
                    sources.append(np.full(len(block), index, np.uint16))
                    lengths.append(np.array([len(line.text) + report.documents for line in block], np.int64))
        self.lines, self.files = np.concatenate(numbers), np.concatenate(sources)
        self.characters = np.concatenate(lengths)

    def split(self, share: float) -> int:
        """Return the row that the last `share` of the characters begins with, at most."""
        if not share:
            return len(self.lines)
        begins = np.cumsum(self.characters) - self.characters
        row = int(np.searchsorted(begins, (1 - share) * self.characters.sum()))
        if not 0 < row < len(self.lines):
            raise DataError(
                f"data.dev_share: expected a share of the text that leaves whole lines on both sides, found {share:g} "
                f"of {len(self.lines):,} lines"
            )
        return row

    def sample(self, end: int) -> Iterator[str]:
        """Yield the first `end` lines, or as many evenly spread ones as a vocabulary is learned from."""
        table = Ragged(self.path, np.uint8)
        step = -(-end // _SAMPLE)
        for start in range(0, end, _BLOCK * step):
            yield from table.texts(np.arange(start, min(start + _BLOCK * step, end), step))

    def encode(
        self, folder: Path, name: str, rows: NDArray[np.int64], documents: bool, workers: int
    ) -> tuple[int, int]:
        """Write some rows as store `name`; returns how many ids, and unknown ones, these are."""
        save_array(folder / "rows", rows)
        job = encoding.EncodingJob(
            str(self.path),
            str(folder / "rows"),
            str(folder),
            None,
            str(folder / name),
            0,
            len(rows),
            documents=documents,
        )
        encoding.encode_whole([job], workers)
        save_array(folder / f"{name}.lines", self.lines[rows])
        save_array(folder / f"{name}.files", self.files[rows])
        ids = encoding.open_part(job).values
        return len(ids), int(np.count_nonzero(ids == UNK))


def _open_store(directory: Path, name: str, manifest: dict[str, Any], vocabulary: Vocabulary) -> TextStore:
    table = Ragged(directory / name, encoding.id_type(vocabulary.size))
    names = manifest["names"][name]
    return TextStore(table, *map_places(directory / name, names), names, manifest["characters"][name])
