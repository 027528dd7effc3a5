"""Examples of text classification: read from files, split into training and development set, and encoded.

Either each plain-text file holds the texts of one class, one per line, or a `.tsv`, `.csv` or `.jsonl` file has a
field for the text and one for the label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwise.config.tasks import ClassificationConfig
from headwise.errors import ConfigError, DataError
from headwise.text.preparation.labelled.examples import Encoded, Format
from headwise.text.reading.compression import suffix
from headwise.text.reading.records import SUFFIXES, read_lines_of, read_records, text_field
from headwise.text.tokens.subwords import BOS, EOS
from headwise.text.tokens.vocabulary import Vocabulary


@dataclass(frozen=True)
class LabelledText:
    """A text with its label ("" where unknown), file index and line number."""

    text: str
    label: str = ""
    file: int = 0
    line: int = 0


class LabelledTexts(Format[LabelledText]):
    """Format of the examples of task `classification`."""

    example, content = LabelledText, "texts"

    def __init__(self, options: ClassificationConfig, share: float) -> None:
        """Read the fields that `options` names; hold out a `share` where there are no folds."""
        self.options, self.share = options, share

    def request(self) -> dict[str, object]:  # noqa: D102
        return {"classification": self.options.model_dump(exclude={"pooling", "token_dropout"})}

    def read(self, files: Sequence[Path]) -> list[LabelledText]:
        """Read all files; plain ones hold one class each, in the order of `classification.labels`."""
        labels = self.options.labels
        plain = [path for path in files if suffix(path) not in SUFFIXES]
        if plain and len(plain) < len(files):
            raise ConfigError(
                f"data.text: expected either {', '.join(SUFFIXES)} files or one plain-text file for each class, "
                f"found {plain[0]} beside others"
            )
        if plain and len(plain) != len(labels):
            raise ConfigError(
                "classification.labels: expected one label for each plain-text file (the texts of one class), or "
                f"a {', '.join(SUFFIXES)} file with fields; found {len(labels)} labels for {len(plain)} files"
            )
        return super().read(files)

    def read_file(self, path: Path, index: int) -> Iterator[LabelledText]:  # noqa: D102
        labels = self.options.labels
        if suffix(path) not in SUFFIXES:
            texts = ((text.strip(), line) for text, line in read_lines_of(path))
            yield from (LabelledText(text, labels[index], index, line) for text, line in texts if text)
            return
        for fields, line in read_records(path):
            location = f"{path} line {line}"
            text = text_field(fields, self.options.text_field, location).strip()
            label = fields.get(self.options.label_field)
            if isinstance(label, int) and not isinstance(label, bool):
                label = str(label)  # in JSON files, labels are often integers
            label = label.strip() if isinstance(label, str) else label
            if not isinstance(label, str) or not label:
                text_field(fields, self.options.label_field, location)
                raise DataError(f"{location}: expected a label in field {self.options.label_field!r}, found none")
            if labels and label not in labels:
                raise DataError(f"{location}: expected one of the labels {', '.join(labels)}, found {label!r}")
            if text:
                yield LabelledText(text, label, index, line)

    def hold_out(self, examples: Sequence[LabelledText]) -> NDArray[np.bool_]:
        """Hold out one fold, or a share, of each class (stratified)."""
        held_out = np.zeros(len(examples), np.bool_)
        labels = np.array([example.label for example in examples])
        for number, label in enumerate(sorted(set(labels.tolist()))):
            order = np.random.default_rng([self.options.split_seed, number]).permutation(
                np.flatnonzero(labels == label)
            )
            if self.options.folds:
                held_out[order[self.options.fold - 1 :: self.options.folds]] = True
            else:
                held_out[order[: round(self.share * len(order))]] = True
        return held_out

    def texts(self, example: LabelledText) -> Iterable[str]:  # noqa: D102
        return [example.text]

    def labels(self, examples: Sequence[LabelledText]) -> list[str]:
        """Return the configured labels in their order, or all labels of the examples, sorted."""
        present = {example.label for example in examples}
        if missing := [label for label in self.options.labels if label not in present]:
            raise DataError(f"expected training texts of class {missing[0]!r}, found none")
        if len(present) < 2:
            raise DataError(f"expected texts of at least two classes, found {', '.join(present)} alone")
        return list(dict.fromkeys(self.options.labels)) or sorted(present)  # several files may have one class

    def encode(
        self, examples: Sequence[LabelledText], vocabulary: Vocabulary, labels: Sequence[str], longest: int
    ) -> Encoded:
        """Encode each example as BOS, the text (truncated if too long) and EOS; the target is the label id."""
        label_ids = {label: label_id for label_id, label in enumerate(labels)}
        texts = vocabulary.encode_batch([example.text for example in examples])
        return Encoded(
            [[BOS, *ids[: longest - 2], EOS] for ids in texts],
            [[label_ids.get(example.label, -1)] for example in examples],
            list(range(len(examples))),
            cut=sum(len(ids) > longest - 2 for ids in texts),
        )
