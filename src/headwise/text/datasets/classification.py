"""Texts that each have a label: read from files, and split into training and development data.

Either a plain-text file holds the texts of one class, a line each, or a `.tsv`, `.csv` or `.jsonl` file has a field
with the text and one with the label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwise.config.tasks import ClassificationConfig
from headwise.errors import ConfigError, DataError
from headwise.text.datasets.examples import Encoded, Format
from headwise.text.reading.records import SUFFIXES, read_lines_of, read_records, suffix, text_field
from headwise.text.tokens.subwords import BOS, EOS
from headwise.text.tokens.vocabulary import Vocabulary


@dataclass(frozen=True)
class LabelledText:
    """A text, its label ("" where it isn't known), and where it stands."""

    text: str
    label: str = ""
    file: int = 0
    line: int = 0


class LabelledTexts(Format[LabelledText]):
    """What task `classification` learns from."""

    example = LabelledText

    def __init__(self, options: ClassificationConfig, share: float) -> None:
        """Read fields as `options` names them; hold out a `share` where there are no folds."""
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
        found = []
        for index, path in enumerate(files):
            one = _of_class(path, index, labels[index]) if plain else self._with_fields(path, index)
            before = len(found)
            found += [example for example in one if example.text]
            if len(found) == before:
                raise DataError(f"{path}: expected texts, found none")
        return found

    def _with_fields(self, path: Path, index: int) -> Iterator[LabelledText]:
        allowed = set(self.options.labels)
        for fields, line in read_records(path):
            place = f"{path} line {line}"
            text = text_field(fields, self.options.text_field, place).strip()
            label = fields.get(self.options.label_field)
            if isinstance(label, int) and not isinstance(label, bool):
                label = str(label)  # JSON files often number their classes
            if not isinstance(label, str) or not label:
                text_field(fields, self.options.label_field, place)
                raise DataError(
                    f"{place}: expected a label in field {self.options.label_field!r}, found none"
                )
            if allowed and label not in allowed:
                raise DataError(
                    f"{place}: expected one of the labels {', '.join(self.options.labels)}, found {label!r}"
                )
            yield LabelledText(text, label, index, line)

    def hold_out(self, examples: Sequence[LabelledText]) -> NDArray[np.bool_]:
        """Draw the held-out fold, or share, from each class by itself."""
        held = np.zeros(len(examples), np.bool_)
        labels = np.array([example.label for example in examples])
        for number, label in enumerate(sorted(set(labels.tolist()))):
            order = np.random.default_rng([self.options.split_seed, number]).permutation(
                np.flatnonzero(labels == label)
            )
            if self.options.folds:
                held[order[self.options.fold - 1 :: self.options.folds]] = True
            else:
                held[order[: round(self.share * len(order))]] = True
        return held

    def texts(self, example: LabelledText) -> Iterable[str]:  # noqa: D102
        return [example.text]

    def labels(self, examples: Sequence[LabelledText]) -> list[str]:
        """Those of the configuration, in their order, or all that there are."""
        found = {example.label for example in examples}
        if missing := [label for label in self.options.labels if label not in found]:
            raise DataError(f"expected training texts of class {missing[0]!r}, found none")
        if len(found) < 2:
            raise DataError(f"expected texts of at least two classes, found {', '.join(found)} alone")
        return self.options.labels or sorted(found)

    def encode(
        self, examples: Sequence[LabelledText], vocabulary: Vocabulary, labels: Sequence[str], longest: int
    ) -> Encoded:
        """One row each: BOS, the text (cut where it is too long), EOS; its target is the label's number."""
        numbers = {label: number for number, label in enumerate(labels)}
        texts = vocabulary.encode_batch([example.text for example in examples])
        return Encoded(
            [[BOS, *ids[: longest - 2], EOS] for ids in texts],
            [[numbers.get(example.label, -1)] for example in examples],
            list(range(len(examples))),
            cut=sum(len(ids) > longest - 2 for ids in texts),
        )


def _of_class(path: Path, index: int, label: str) -> Iterator[LabelledText]:
    for text, line in read_lines_of(path):
        yield LabelledText(text.strip(), label, index, line)
