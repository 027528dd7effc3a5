"""Examples of sequence tagging: `.conllu` files, and column files with a blank line between sentences.

In a `.conllu` file the tag is the fourth (universal) or fifth (language-specific) of ten columns; the lines of
multi-word tokens and empty nodes are skipped, as syntactic words have their own lines. In any other file the word is
the first and the tag the last column, separated by tabs or else by spaces (CoNLL-2003); lines that begin with
`-DOCSTART-` are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from headwise.config.tasks import TaggingConfig
from headwise.errors import DataError
from headwise.text.preparation.labelled.examples import Encoded, Format
from headwise.text.reading.compression import suffix
from headwise.text.reading.records import read_lines_of
from headwise.text.tokens.subwords import BOS, EOS
from headwise.text.tokens.vocabulary import Vocabulary, encode_words

_COLUMNS = {"upos": 3, "xpos": 4}
_CONLLU = 10  # columns


@dataclass(frozen=True)
class TaggedSentence:
    """Words, their tags (none where unknown), the file index and the line of the first word."""

    words: list[str]
    tags: list[str]
    file: int = 0
    line: int = 0


class TaggedSentences(Format[TaggedSentence]):
    """Format of the examples of task `tagging`."""

    example, content = TaggedSentence, "tagged sentences"

    def __init__(self, options: TaggingConfig, share: float) -> None:
        """Read the column that `options` names; hold out the last `share` of the sentences."""
        self.options, self.share = options, share

    def request(self) -> dict[str, object]:  # noqa: D102
        return {"column": self.options.column, "spans": self.options.spans}

    def read_file(self, path: Path, index: int) -> Iterator[TaggedSentence]:
        """Read a file; raises `DataError` naming a line without a tag, or with an invalid one."""
        conllu = suffix(path) == ".conllu"
        column = _COLUMNS[self.options.column] if conllu else -1
        for block in _blocks(path):
            if words := list(_words(path, block, conllu, column)):
                if self.options.spans:
                    _check_spans(path, words)
                yield TaggedSentence([w for w, _, _ in words], [t for _, t, _ in words], index, words[0][2])

    def texts(self, example: TaggedSentence) -> Iterable[str]:  # noqa: D102
        return ["".join(f" {word}" for word in example.words)]

    def labels(self, examples: Sequence[TaggedSentence]) -> list[str]:
        """Return all tags, sorted."""
        return sorted({tag for example in examples for tag in example.tags})

    def encode(
        self, examples: Sequence[TaggedSentence], vocabulary: Vocabulary, labels: Sequence[str], longest: int
    ) -> Encoded:
        """Encode rows of whole words between BOS and EOS; the target is the tag id at the first subword of each word.

        The target is -2 for a tag outside the labels or an unknown tag. A long sentence is split into several rows; a
        word that is too long for a row is truncated.
        """
        label_ids = {label: label_id for label_id, label in enumerate(labels)}
        encoded = Encoded()
        for owner, example in enumerate(examples):
            ids, targets = [BOS], [-1]
            tags = example.tags or [""] * len(example.words)
            words = encode_words(vocabulary, [f" {word}" for word in example.words])
            for pieces, tag in zip(words, tags, strict=True):
                encoded.cut += len(pieces) > longest - 2
                pieces = pieces[: longest - 2]
                if len(ids) + len(pieces) >= longest:
                    encoded.add([*ids, EOS], [*targets, -1], owner)
                    ids, targets = [BOS], [-1]
                ids += pieces
                targets += [label_ids.get(tag, -2), *[-1] * (len(pieces) - 1)]
            encoded.add([*ids, EOS], [*targets, -1], owner)
        return encoded


def _blocks(path: Path) -> Iterator[list[tuple[str, int]]]:
    """Yield blocks of numbered lines, which blank lines separate."""
    for blank, lines in groupby(read_lines_of(path), lambda line: not line[0].strip()):
        if not blank:
            yield list(lines)


def _words(path: Path, block: list[tuple[str, int]], conllu: bool, column: int) -> Iterator[tuple[str, str, int]]:
    for line, number in block:
        if line.startswith("-DOCSTART-") or (conllu and line.startswith("#")):
            continue
        # A word such as 10 000 may have a no-break space inside.
        columns = line.split("\t") if conllu or "\t" in line else [each for each in line.split(" ") if each]
        if conllu:
            if len(columns) != _CONLLU:
                raise DataError(
                    f"{path} line {number}: expected {_CONLLU} columns separated by tabs, found {len(columns)}"
                )
            if not columns[0].isdigit():  # 3-4 is a multi-word token, 3.1 an empty node
                continue
        elif len(columns) < 2:
            raise DataError(f"{path} line {number}: expected a word and its tag, found {line.strip()!r}")
        word, tag = columns[1 if conllu else 0].strip(), columns[column].strip()
        if not word or not tag:
            raise DataError(f"{path} line {number}: expected a word and its tag, found {line.strip()!r}")
        yield word, tag, number


def _check_spans(path: Path, words: Sequence[tuple[str, str, int]]) -> None:
    """Raise `DataError` where tags aren't IOB2: O, B-TYPE, or I-TYPE after B-TYPE or I-TYPE."""
    previous = "O"
    for word, tag, number in words:
        entity_type = tag[2:]
        valid_anywhere = tag == "O" or (entity_type and tag.startswith("B-"))
        if not valid_anywhere and not (
            entity_type and tag.startswith("I-") and previous in (f"B-{entity_type}", f"I-{entity_type}")
        ):
            raise DataError(
                f"{path} line {number}: expected an IOB2 tag (O, B-TYPE, or I-TYPE that goes on with a TYPE), found "
                f"{tag!r} of {word!r} after {previous!r}"
            )
        previous = tag
