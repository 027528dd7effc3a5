"""Prepared datasets of monolingual text: memory-mapped ids of all lines, with their line numbers.

`prepare_text` reads and cleans the text, splits off its end as development set (or reads a development file), learns
the vocabulary from the training text, encodes, and writes everything into one folder, which later runs reuse.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.config import DataConfig, SubwordConfig
from headwise.data.prepared import prepare_folder, read_manifest, write_manifest
from headwise.data.ragged import PlacedRows, Ragged, RaggedWriter, map_places, save_array
from headwise.errors import CheckpointError, DataError
from headwise.text.reading.plain import LineReport, read_text, text_request
from headwise.text.tokens import encoding
from headwise.text.tokens.loading import learn_vocabulary, load_vocabulary
from headwise.text.tokens.subwords import UNK
from headwise.text.tokens.vocabulary import Vocabulary

_FORMAT = 1
_BLOCK = 1 << 16  # lines processed per step
_SAMPLE = 5_000_000  # maximum number of lines that the vocabulary is learned from


class TextStore(PlacedRows):
    """Encoded lines in memory-mapped arrays, in the order of the files.

    A row holds the ids of one line; the last one is the line end in running text, and EOS where lines are documents.
    `ids` is the concatenation of all rows.
    """

    def __init__(
        self, table: Ragged, lines: NDArray[Any], files: NDArray[Any], names: Sequence[str], characters: int
    ) -> None:
        """Combine the table of ids with the line number and the file index (in `names`) of each row."""
        if not len(table) == len(lines) == len(files):
            raise CheckpointError(
                f"prepared text: expected as many rows, lines and files, found {len(table)}, {len(lines)} and "
                f"{len(files)}"
            )
        super().__init__(lines, files, names)
        self.table = table
        self.characters = characters  # of the text, line ends included

    def __getitem__(self, row: int) -> NDArray[Any]:
        """Return the ids of one row."""
        return self.table[row]

    @property
    def ids(self) -> NDArray[Any]:
        """Concatenated ids of all rows."""
        return self.table.values

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of ids of each row."""
        return self.table.lengths

    def rows_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that positions in `ids` belong to."""
        return np.searchsorted(self.table.offsets, positions, side="right") - 1


@dataclass(frozen=True)
class PreparedText:
    """A prepared folder of monolingual text, opened for training."""

    directory: Path
    train: TextStore
    dev: TextStore  # empty where there is neither a development file nor a share to split off
    vocabulary: Vocabulary
    report: list[str]  # sentences on what was read, removed, split off and learned
    checksum: str  # 12 hexadecimal digits of the input files' contents
    reused: bool  # whether an existing folder was opened

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
        """Return the checksums of the text and of the vocabulary."""
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
    """Prepare the folder, or reuse it where neither files nor options have changed.

    Args:
        config: the files `text` and `dev_text`, or the `dev_share` to split off.
        subwords: kind and size of the vocabulary (unless one is given).
        directory: the prepared folder.
        documents: whether each line is a document.
        symbols: symbols of the task, which get their own ids.
        vocabulary: a given vocabulary, instead of a learned one.
        expected: `checksum` of the text that the run began with.
        say: callback for a progress message at each stage of preparation.

    Raises as `prepare_folder`, `DataError` for an unusable file, and `ConfigError` where no file is given, or the
    vocabulary doesn't fit the text.
    """
    request = {
        "format": _FORMAT,
        "task": "single texts",
        **text_request(config),
        "documents": documents,
        "drop_duplicates": documents and config.cleaning.drop_duplicates,
        "subwords": subwords.model_dump(exclude={"copy_from"}),
        "symbols": list(symbols),
        "given": vocabulary.digest() if vocabulary else None,
    }

    build = partial(_build, subwords=subwords, vocabulary=vocabulary, workers=config.workers, say=say)
    return prepare_folder(directory, request, PreparedText.open, build, expected)


def _build(
    folder: Path,
    request: dict[str, Any],
    subwords: SubwordConfig,
    vocabulary: Vocabulary | None,
    workers: int,
    say: Callable[[str], None],
) -> None:
    say("reading and cleaning the text")
    drop_duplicates = request["drop_duplicates"]
    training = _Lines(folder / "text", request["training"], LineReport(request["documents"], drop_duplicates))
    report = [str(training.report)]
    if request["development"]:
        dev = _Lines(folder / "dev-text", request["development"], LineReport(request["documents"]))
        train_end, dev_rows = len(training.lines), np.arange(len(dev.lines))
        report.append(f"development text: {dev.report}")
    else:
        dev, train_end = training, training.split(request["dev_share"])
        dev_rows = np.arange(train_end, len(training.lines))
        report.append(f"development text: the last {len(dev_rows):,} lines" if len(dev_rows) else "no development text")
    train_rows = np.arange(train_end)
    if vocabulary is None:
        say(f"learning the vocabulary ({subwords.kind})")
        vocabulary = learn_vocabulary(training.sample(train_end), subwords, request["symbols"])
    vocabulary.save(folder)
    say(f"encoding {len(train_rows):,} lines")
    characters = {}
    for name, lines, selected_rows in (("train", training, train_rows), ("dev", dev, dev_rows)):
        tokens, unknown = lines.encode(folder, name, selected_rows, request["documents"], workers)
        characters[name] = int(lines.characters[selected_rows].sum())
        title = "training" if name == "train" else "development"
        sentence = f"{title}: {tokens:,} tokens of {characters[name]:,} characters"
        report.append(sentence + (f", {unknown:,} of them unknown" if unknown else ""))
    report.append(f"vocabulary: {vocabulary.size:,} {'characters' if subwords.kind == 'characters' else 'subwords'}")
    for path in [*folder.glob("text.*"), *folder.glob("dev-text.*"), folder / "rows"]:
        path.unlink()
    names = {"train": request["training"], "dev": request["development"] or request["training"]}
    write_manifest(folder, request, report, vocabulary=vocabulary.digest(), names=names, characters=characters)


class _Lines:
    """Cleaned lines of several files in one table, with their line numbers and file indices."""

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
        """Return the first row of the development set, which holds at most the last `share` of the characters."""
        if not share:
            return len(self.lines)
        offsets = np.cumsum(self.characters) - self.characters
        row = int(np.searchsorted(offsets, (1 - share) * self.characters.sum()))
        if not 0 < row < len(self.lines):
            raise DataError(
                f"data.dev_share: expected a share of the text that leaves whole lines on both sides, found {share:g} "
                f"of {len(self.lines):,} lines"
            )
        return row

    def sample(self, end: int) -> Iterator[str]:
        """Yield the first `end` lines, or an evenly spaced sample of at most `_SAMPLE` of them."""
        table = Ragged(self.path, np.uint8)
        step = -(-end // _SAMPLE)
        for start in range(0, end, _BLOCK * step):
            yield from table.texts(np.arange(start, min(start + _BLOCK * step, end), step))

    def encode(
        self, folder: Path, name: str, rows: NDArray[np.int64], documents: bool, workers: int
    ) -> tuple[int, int]:
        """Encode rows and write them as store `name`; returns the numbers of ids and of unknown ids."""
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
