"""Labelled examples, prepared once and memory-mapped ever after: rows of ids and, for each, what is to be learned.

What the examples of a task look like is its `Format`. `prepare_examples` reads them, holds some out for development,
learns the vocabulary (or takes a given one), encodes, and writes everything into one folder, which the next start
finds ready. Examples for development are kept as they are, as scores may need their text.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

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
from headwise.files import write_text
from headwise.parsing.json_text import parse_object, read_json
from headwise.text.reading.plain import text_files
from headwise.text.tokens import encoding
from headwise.text.tokens.subwords import UNK
from headwise.text.tokens.vocabulary import Vocabulary, learn_vocabulary, load_vocabulary

LABELS_FILE = "labels.json"
_FORMAT = 1


class Placed(Protocol):
    """An example that knows the file (its index) and the 1-based line where it stands."""

    @property
    def file(self) -> int:
        """Index of the file."""
        ...

    @property
    def line(self) -> int:
        """Number of the line."""
        ...


Example = TypeVar("Example", bound=Placed)


@dataclass(frozen=True)
class Encoded:
    """Rows that a model reads: ids, targets (-1: none), and the example that each row is (a part) of."""

    ids: list[list[int]]
    targets: list[list[int]]
    owners: list[int]
    cut: int = 0  # examples of which something was left out


class Format(ABC, Generic[Example]):
    """How the examples of one task are read, split and encoded. `example` is a dataclass of JSON values."""

    example: ClassVar[type]

    @abstractmethod
    def request(self) -> dict[str, object]:
        """The options that the result depends on, as JSON values."""

    @abstractmethod
    def read(self, files: Sequence[Path]) -> list[Example]:
        """Read files; raises `DataError` naming the line that isn't as it should be, and `ConfigError`."""

    @abstractmethod
    def hold_out(self, examples: Sequence[Example]) -> NDArray[np.bool_]:
        """Choose the examples for development."""

    @abstractmethod
    def texts(self, example: Example) -> Iterable[str]:
        """The text that the vocabulary is learned from."""

    @abstractmethod
    def labels(self, examples: Sequence[Example]) -> list[str]:
        """The labels that there are to choose from, in the order of their numbers."""

    @abstractmethod
    def encode(
        self, examples: Sequence[Example], vocabulary: Vocabulary, labels: Sequence[str], longest: int
    ) -> Encoded:
        """Turn examples into rows of at most `longest` ids."""


class ExampleStore:
    """Encoded training rows, read from memory-mapped arrays."""

    def __init__(self, directory: Path, vocabulary: Vocabulary, names: Sequence[str]) -> None:
        """Open them; raises `CheckpointError` where they are missing or damaged."""
        self.ids = Ragged(directory / "train.ids", encoding.id_type(vocabulary.size))
        self.targets = Ragged(directory / "train.targets", np.int32)
        self.lines, self.files = map_places(directory / "train", names)
        self.names = list(names)
        if not len(self.ids) == len(self.targets) == len(self.files) == len(self.lines):
            raise CheckpointError(
                f"{directory}: expected prepared examples, found files that don't fit together"
            )

    def __len__(self) -> int:
        return len(self.ids)

    def locate(self, rows: Sequence[int] | NDArray[Any], most: int = 10) -> str:
        """Say where rows come from, for messages: `train.en lines 3, 17 and 40`; at most `most` are listed."""
        return locate(rows, self.files, self.lines, self.names, most)


@dataclass(frozen=True)
class PreparedExamples:
    """What training needs of labelled examples, all of it in one folder."""

    directory: Path
    train: ExampleStore
    dev: list[dict[str, Any]]  # fields of the examples for development
    vocabulary: Vocabulary
    labels: list[str]
    report: list[str]
    checksum: str
    start: str | None  # checksum of the model that training starts from
    reused: bool

    @classmethod
    def open(cls, directory: Path, *, reused: bool = True) -> PreparedExamples:
        """Open a prepared folder; raises `CheckpointError` where it is missing or damaged."""
        manifest = read_manifest(directory, "names", "request.start")
        vocabulary = load_vocabulary(directory)
        if vocabulary.digest() != manifest.get("vocabulary"):
            raise CheckpointError(f"{directory}: the vocabulary isn't the one that the text was encoded with")
        return cls(
            directory,
            ExampleStore(directory, vocabulary, manifest["names"]),
            _read_dev(directory),
            vocabulary,
            load_labels(directory),
            manifest["report"],
            manifest["checksum"],
            manifest["request"]["start"],
            reused,
        )

    def identity(self) -> dict[str, str]:
        """Checksums of the files, the vocabulary, the labels, and of what training starts from."""
        own = {
            "data": self.checksum,
            "vocabulary": self.vocabulary.digest(),
            "labels": json.dumps(self.labels),
        }
        return own | ({"initialized_from": self.start} if self.start else {})

    def save(self, run: Path) -> None:
        """Write vocabulary and labels into a run directory; raises `TrainingError`."""
        self.vocabulary.save(run)
        _save_labels(self.labels, run)


def prepare_examples(
    form: Format[Example],
    config: DataConfig,
    subwords: SubwordConfig,
    directory: Path,
    *,
    longest: int,
    vocabulary: Vocabulary | None = None,
    start: str | None = None,
    expected: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> PreparedExamples:
    """Make the prepared folder, or reuse it where nothing it depends on has changed.

    Args:
        form: how the examples are read, split and encoded.
        config: the files `text` and `dev_text`.
        subwords: the kind and size of the vocabulary (unless one is given).
        directory: the folder to make; if it exists and doesn't fit, it is replaced.
        longest: ids a row may have.
        vocabulary: use this one instead of learning one.
        start: checksum of the model that training starts from, to be kept.
        expected: `checksum` of the files that a run was begun with; with any others, nothing is replaced.
        say: called with a sentence at each stage, where the folder has to be made.

    Raises:
        CheckpointError: the files aren't the `expected` ones.
        ConfigError: no file is given, or the vocabulary doesn't fit the text.
        DataError: a file can't be used; or `directory` holds something else.
        TrainingError: the folder can't be written.
    """
    files = text_files(config)
    development = [Path(config.dev_text)] if config.dev_text is not None else []
    request = {
        "format": _FORMAT,
        "task": "examples",
        "inputs": [stamp(path) for path in [*files, *development]],
        "training": [str(path) for path in files],
        "development": [str(path) for path in development],
        "dev_share": 0.0 if development else config.dev_share,
        "longest": longest,
        "options": form.request(),
        "subwords": None if vocabulary else subwords.model_dump(),
        "given": vocabulary.digest() if vocabulary else None,
        "start": start,
    }

    with alone(directory):
        found = find_prepared(directory, request, PreparedExamples.open, expected)
        if found is not None:
            return found
        with replaced(directory, request, expected) as folder:
            _build(form, folder, request, subwords, vocabulary, say)
    return PreparedExamples.open(directory, reused=False)


def _build(
    form: Format[Example],
    folder: Path,
    request: dict[str, Any],
    subwords: SubwordConfig,
    vocabulary: Vocabulary | None,
    say: Callable[[str], None],
) -> None:
    say("reading the examples")
    request = with_checksums(request)
    examples = form.read([Path(path) for path in request["training"]])
    if request["development"]:
        train, dev = examples, form.read([Path(path) for path in request["development"]])
    else:
        held = form.hold_out(examples).tolist()
        train = [example for example, out in zip(examples, held, strict=True) if not out]
        dev = [example for example, out in zip(examples, held, strict=True) if out]
    if not train:
        raise DataError(
            f"data.dev_share: expected some of {len(examples):,} examples left to learn from, found none"
        )
    labels = form.labels(train)
    learned = vocabulary or learn_vocabulary((t for example in train for t in form.texts(example)), subwords)
    encoded = form.encode(train, learned, labels, request["longest"])
    _write_rows(encoded, train, folder, learned)
    learned.save(folder)
    _save_labels(labels, folder)
    write_text(folder / "dev.jsonl", "".join(json.dumps(_fields(example)) + "\n" for example in dev))
    tokens = sum(map(len, encoded.ids))
    unknown = sum(ids.count(UNK) for ids in encoded.ids)
    report = [
        f"{len(train):,} examples for training, {len(dev):,} for development",
        f"training: {len(encoded.ids):,} rows of {tokens:,} tokens"
        + (f", {unknown:,} unknown" if unknown else ""),
        f"vocabulary: {learned.size:,}" + (" (given)" if vocabulary else ""),
    ]
    if labels:
        report.append(f"{len(labels)} labels: {', '.join(labels)}")
    if encoded.cut:
        report.append(f"{encoded.cut:,} examples were cut to fit model.max_length={request['longest']}")
    write_manifest(folder, request, report, vocabulary=learned.digest(), names=request["training"])


def _write_rows(encoded: Encoded, examples: Sequence[Placed], folder: Path, vocabulary: Vocabulary) -> None:
    columns = (
        ("train.ids", encoded.ids, encoding.id_type(vocabulary.size)),
        ("train.targets", encoded.targets, np.dtype(np.int32)),
    )
    for name, rows, kind in columns:
        with RaggedWriter(folder / name, kind) as writer:
            lengths = np.array([len(row) for row in rows], np.int64)
            writer.append(
                np.fromiter((i for row in rows for i in row), np.int64, int(lengths.sum())), lengths
            )
    save_array(folder / "train.files", np.array([examples[o].file for o in encoded.owners], np.uint16))
    save_array(folder / "train.lines", np.array([examples[o].line for o in encoded.owners], np.int64))


def _fields(example: Any) -> dict[str, Any]:
    return asdict(example)


def _read_dev(directory: Path) -> list[dict[str, Any]]:
    file = directory / "dev.jsonl"
    try:
        content = file.read_bytes()
    except OSError:
        raise CheckpointError(
            f"{directory}: expected prepared examples, found no readable dev.jsonl"
        ) from None
    lines = enumerate(content.split(b"\n"), start=1)
    return [
        parse_object(line, f"{file} line {number}", error=CheckpointError) for number, line in lines if line
    ]


def _save_labels(labels: Sequence[str], directory: Path) -> None:
    write_text(directory / LABELS_FILE, json.dumps(labels, ensure_ascii=False) + "\n")


def load_labels(directory: Path) -> list[str]:
    """Read the labels of a run or prepared folder; raises `CheckpointError` where they are missing or damaged."""
    file = directory / LABELS_FILE
    labels = read_json(file, expected="a list of labels", error=CheckpointError)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise CheckpointError(f"{file}: expected a list of labels, found something else")
    return labels
