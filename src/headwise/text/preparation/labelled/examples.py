"""Prepared datasets of labelled examples: memory-mapped id sequences and targets.

A `Format` defines the examples of a task. `prepare_examples` reads them, splits off a development set, learns the
vocabulary (or uses a given one), encodes the examples, and writes everything into one folder, which later runs reuse.
Development examples are stored unencoded, as scores may need their text.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from headwise.config import DataConfig, SubwordConfig
from headwise.data.prepared import prepare_folder, read_manifest, write_manifest
from headwise.data.ragged import PlacedRows, Ragged, RaggedWriter, map_places, save_array
from headwise.errors import CheckpointError, DataError
from headwise.files import write_text
from headwise.parsing import parse_object, read_json
from headwise.text.reading.plain import text_request
from headwise.text.tokens import encoding
from headwise.text.tokens.loading import learn_vocabulary, load_vocabulary
from headwise.text.tokens.subwords import UNK
from headwise.text.tokens.vocabulary import Vocabulary

LABELS_FILE = "labels.json"
_FORMAT = 1


class HasPosition(Protocol):
    """An example with the index of its file and its 1-based line number."""

    @property
    def file(self) -> int:
        """Index of the file."""
        ...

    @property
    def line(self) -> int:
        """1-based line number."""
        ...


Example = TypeVar("Example", bound=HasPosition)


@dataclass
class Encoded:
    """Encoded examples: ids, targets (-1: none), and for each row the index of the example it belongs to."""

    ids: list[list[int]] = field(default_factory=list)
    targets: list[list[int]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)
    cut: int = 0  # number of truncated examples

    def add(self, ids: list[int], targets: list[int], owner: int) -> None:
        """Add a row."""
        self.ids.append(ids)
        self.targets.append(targets)
        self.owners.append(owner)


class Format(ABC, Generic[Example]):
    """Reading, splitting and encoding of the examples of one task."""

    example: ClassVar[type]  # a dataclass of JSON values
    content: ClassVar[str]  # what its files have, for messages
    share: float  # of the examples that is held out

    @abstractmethod
    def request(self) -> dict[str, object]:
        """Return the options that the prepared data depends on, as JSON values."""

    def read(self, files: Sequence[Path]) -> list[Example]:
        """Read files; raises `DataError` naming the malformed line or an empty file, and `ConfigError`."""
        examples: list[Example] = []
        for index, path in enumerate(files):
            found = list(self.read_file(path, index))
            if not found:
                raise DataError(f"{path}: expected {self.content}, found none")
            examples += found
        return examples

    @abstractmethod
    def read_file(self, path: Path, index: int) -> Iterator[Example]:
        """Yield the examples of the file with this index."""

    def hold_out(self, examples: Sequence[Example]) -> NDArray[np.bool_]:
        """Return a mask of the examples that are held out for development: the last, as neighbors may be related."""
        return np.arange(len(examples)) >= len(examples) - round(self.share * len(examples))

    @abstractmethod
    def texts(self, example: Example) -> Iterable[str]:
        """Return the texts of an example that the vocabulary is learned from."""

    @abstractmethod
    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Return the label set, in the order of the label ids."""

    @abstractmethod
    def encode(
        self, examples: Sequence[Example], vocabulary: Vocabulary, labels: Sequence[str], longest: int
    ) -> Encoded:
        """Encode examples as rows of at most `longest` ids."""


class ExampleStore(PlacedRows):
    """Encoded training examples in memory-mapped arrays."""

    def __init__(self, directory: Path, vocabulary: Vocabulary, names: Sequence[str]) -> None:
        """Open the arrays; raises `CheckpointError` where they are missing or damaged."""
        self.ids = Ragged(directory / "train.ids", encoding.id_type(vocabulary.size))
        self.targets = Ragged(directory / "train.targets", np.int32)
        super().__init__(*map_places(directory / "train", names), names)
        if not len(self.ids) == len(self.targets) == len(self.files) == len(self.lines):
            raise CheckpointError(f"{directory}: expected prepared examples, found files that don't fit together")


@dataclass(frozen=True)
class PreparedExamples:
    """A prepared folder of labelled examples, opened for training."""

    directory: Path
    train: ExampleStore
    dev: list[dict[str, Any]]  # fields of the development examples
    vocabulary: Vocabulary
    labels: list[str]
    report: list[str]
    checksum: str
    start: str | None  # checksum of the model that training is initialized from
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
        """Return the checksums of files and vocabulary, the labels, and the checksum of the initial model, if any."""
        own = {
            "data": self.checksum,
            "vocabulary": self.vocabulary.digest(),
            "labels": json.dumps(self.labels),
        }
        return own | ({"initialized_from": self.start} if self.start else {})

    def save(self, run: Path) -> None:
        """Write the vocabulary and the labels into a run directory; raises `TrainingError`."""
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
    """Prepare the folder, or reuse it where neither files nor options have changed.

    Args:
        form: format of the examples.
        config: the files `text` and `dev_text`.
        subwords: kind and size of the vocabulary (unless one is given).
        directory: the prepared folder.
        longest: maximum number of ids per row.
        vocabulary: a given vocabulary, instead of a learned one.
        start: checksum of the model that training is initialized from, to be recorded.
        expected: `checksum` of the files that the run began with.
        say: callback for a progress message at each stage of preparation.

    Raises as `monolingual.prepare_text` does.
    """
    request = {
        "format": _FORMAT,
        "task": "examples",
        **text_request(config),
        "longest": longest,
        "options": form.request(),
        "subwords": None if vocabulary else subwords.model_dump(exclude={"copy_from"}),
        "given": vocabulary.digest() if vocabulary else None,
        "start": start,
    }

    build = partial(_build, form=form, subwords=subwords, vocabulary=vocabulary, say=say)
    return prepare_folder(directory, request, PreparedExamples.open, build, expected)


def _build(
    folder: Path,
    request: dict[str, Any],
    form: Format[Example],
    subwords: SubwordConfig,
    vocabulary: Vocabulary | None,
    say: Callable[[str], None],
) -> None:
    say("reading the examples")
    examples = form.read([Path(path) for path in request["training"]])
    if request["development"]:
        train, dev = examples, form.read([Path(path) for path in request["development"]])
    else:
        held_out = form.hold_out(examples)
        train, dev = list(compress(examples, ~held_out)), list(compress(examples, held_out))
    if not train:
        raise DataError(f"data.dev_share: expected some of {len(examples):,} examples left to learn from, found none")
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
        f"training: {len(encoded.ids):,} rows of {tokens:,} tokens" + (f", {unknown:,} unknown" if unknown else ""),
        f"vocabulary: {learned.size:,}" + (" (given)" if vocabulary else ""),
    ]
    if labels:
        report.append(f"{len(labels)} labels: {', '.join(labels)}")
    if encoded.cut:
        report.append(f"{encoded.cut:,} examples were cut to fit model.max_length={request['longest']}")
    write_manifest(folder, request, report, vocabulary=learned.digest(), names=request["training"])


def _write_rows(encoded: Encoded, examples: Sequence[HasPosition], folder: Path, vocabulary: Vocabulary) -> None:
    with (
        RaggedWriter(folder / "train.ids", encoding.id_type(vocabulary.size)) as ids,
        RaggedWriter(folder / "train.targets", np.int32) as targets,
    ):
        ids.append(*encoding.flatten(encoded.ids, []))
        targets.append(*encoding.flatten(encoded.targets, []))
    save_array(folder / "train.files", np.array([examples[o].file for o in encoded.owners], np.uint16))
    save_array(folder / "train.lines", np.array([examples[o].line for o in encoded.owners], np.int64))


def _fields(example: Any) -> dict[str, Any]:
    return asdict(example)


def _read_dev(directory: Path) -> list[dict[str, Any]]:
    file = directory / "dev.jsonl"
    try:
        content = file.read_bytes()
    except OSError:
        raise CheckpointError(f"{directory}: expected prepared examples, found no readable dev.jsonl") from None
    lines = enumerate(content.split(b"\n"), start=1)
    return [parse_object(line, f"{file} line {number}", error=CheckpointError) for number, line in lines if line]


def _save_labels(labels: Sequence[str], directory: Path) -> None:
    write_text(directory / LABELS_FILE, json.dumps(labels, ensure_ascii=False) + "\n")


def load_labels(directory: Path) -> list[str]:
    """Read the labels of a run directory or prepared folder; raises `CheckpointError` if missing or damaged."""
    file = directory / LABELS_FILE
    labels = read_json(file, expected="a list of labels", error=CheckpointError)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise CheckpointError(f"{file}: expected a list of labels, found something else")
    return labels
