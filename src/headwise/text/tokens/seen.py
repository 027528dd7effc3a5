"""Record of the subwords and words that occur in the training text, and detection of words that a model never saw.

A vocabulary can hold subwords that the training text lacks: bytes that no rare character needed, or subwords learned
from other text than the model was trained on. Their embeddings are still random. And known subwords compose words that
the text lacks. A run directory records the subwords and words of its training text, for both sides, in
`seen.safetensors`; a run without that file (one initialized from another run's weights) detects only what its
vocabulary can't encode at all, and a record without words (of an older version, or of a text with very many) subwords.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from headwise.data.ragged import Ragged
from headwise.errors import CheckpointError
from headwise.files import write_bytes
from headwise.parsing.json_text import parse_object
from headwise.text.tokens.seen_words import MOST_WORDS, Spelling, word_hash, words_of
from headwise.text.tokens.subwords import SPECIAL, UNK, Processor, Subwords

FILE = "seen.safetensors"  # in a run directory
SIDES: tuple[SideName, ...] = ("source", "target")
_BLOCK = 1 << 24  # ids counted per step
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_WORD = re.compile(
    "[^ \n\u2581]+"
)  # SentencePiece splits at these only: other white space is an ordinary character

SideName = Literal["source", "target"]


@dataclass(frozen=True)
class Seen:
    """Subwords and characters of the training text.

    Attributes:
        pieces: for each side, (vocabulary,) bool: whether the text has the subword.
        spelled: for each side, the characters that the text spells in bytes.
        words: for each side with a record of them, the sorted hashes of the text's words (see `seen_words`).
    """

    pieces: dict[SideName, NDArray[np.bool_]]
    spelled: dict[SideName, frozenset[str]]
    words: dict[SideName, NDArray[np.uint64]] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Ragged, target: Ragged, subwords: Subwords, *, dropout: bool = False) -> Seen:
        """Collect the subwords of encoded text; with BPE-dropout, add those that its characters can compose."""
        pieces: dict[SideName, NDArray[np.bool_]] = {}
        spelled: dict[SideName, frozenset[str]] = {}
        words: dict[SideName, NDArray[np.uint64]] = {}
        for side, table in zip(SIDES, (source, target), strict=True):
            processor = processor_of(subwords, side)
            size = processor.vocab_size()
            seen = np.zeros(size, dtype=bool)
            for start in range(0, len(table.values), _BLOCK):
                seen |= np.bincount(table.values[start : start + _BLOCK], minlength=size)[:size] > 0
            pieces[side] = _with_composable(seen, processor) if dropout else seen
            spelled[side] = frozenset(_spelled(table.values, byte_values(processor)))
            hashes = words_of(table, Spelling(processor))
            if hashes is not None:
                words[side] = hashes
        return cls(pieces, spelled, words)

    def joined(self, other: Seen) -> Seen:
        """Return the union of both, for ensembles."""
        return Seen(
            {side: self.pieces[side] | other.pieces[side] for side in SIDES},
            {side: self.spelled[side] | other.spelled[side] for side in SIDES},
            {
                side: np.union1d(self.words[side], other.words[side])
                for side in self.words
                if side in other.words
            },
        )

    def save(self, path: Path, subwords: str) -> None:
        """Write the record; `subwords` is the digest of the subword model. Raises `TrainingError`."""
        spelled = {side: "".join(sorted(self.spelled[side])) for side in SIDES}
        tensors: dict[str, NDArray[Any]] = {side: np.packbits(self.pieces[side]) for side in SIDES}
        tensors |= {f"{side}_words": hashes for side, hashes in self.words.items()}
        write_bytes(path, save(tensors, {"headwise": json.dumps({"subwords": subwords, "spelled": spelled})}))

    @staticmethod
    def of_runs(runs: Sequence[Path], subwords: Subwords) -> Seen | None:
        """Read what an ensemble's runs saw in training, combined; None where one of them has no record."""
        records = [Seen.find(run / FILE, subwords) for run in runs]
        known_records = [record for record in records if record is not None]
        return functools.reduce(Seen.joined, known_records) if len(known_records) == len(runs) else None

    @classmethod
    def find(cls, path: Path, subwords: Subwords) -> Seen | None:
        """Read a saved record, None where there is no file; raises `CheckpointError` for a damaged or foreign one."""
        if not path.exists():
            return None
        try:
            with safe_open(path, "np") as file:
                record = parse_object(file.metadata()["headwise"], path)
                bits = {side: file.get_tensor(side) for side in SIDES}
                stored = {side: _read_words(file, f"{side}_words") for side in SIDES}
            spelled: dict[SideName, frozenset[str]] = {
                side: frozenset(str(record["spelled"][side])) for side in SIDES
            }
            digest = record["subwords"]
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{path}: expected the subwords seen in training, found a damaged file ({error})"
            ) from None
        if digest != subwords.digest():
            raise CheckpointError(
                f"{path}: expected the run's subwords ({subwords.digest()}), found others ({digest})"
            )
        pieces: dict[SideName, NDArray[np.bool_]] = {}
        for side in SIDES:
            size = processor_of(subwords, side).vocab_size()
            if bits[side].dtype != np.uint8 or bits[side].shape != ((size + 7) // 8,):
                raise CheckpointError(
                    f"{path}: expected a bit for each of {size} {side} subwords, "
                    f"found {bits[side].dtype} {bits[side].shape}"
                )
            pieces[side] = np.unpackbits(bits[side], count=size).astype(bool)
        words: dict[SideName, NDArray[np.uint64]] = {
            side: hashes for side in SIDES if (hashes := stored[side]) is not None
        }
        return cls(pieces, spelled, words)


class Novelty:
    """Detector of source and target words that the model never saw in training."""

    def __init__(self, subwords: Subwords, seen: Seen | None = None) -> None:
        """Use the record of the training text or, without one, only what the vocabulary can't encode."""
        self.subwords, self.seen = subwords, seen
        self._bytes = {side: byte_values(processor_of(subwords, side)) for side in SIDES}
        self._new: dict[SideName, NDArray[np.bool_]] = {}
        for side in SIDES:
            size = processor_of(subwords, side).vocab_size()
            self._new[side] = np.zeros(size, dtype=bool) if seen is None else ~seen.pieces[side]
            self._new[side][[*SPECIAL]] = False  # they occur in every sentence
            self._new[side][UNK] = True
        self._spelling = {
            side: Spelling(processor_of(subwords, side)) for side in (seen.words if seen else ())
        }

    def pieces(self, ids: Sequence[int], side: SideName) -> list[bool]:
        """Return for each id whether its subword, or the word or character that it belongs to, was never seen."""
        new = self._new[side][np.asarray(ids, dtype=np.int64)].tolist() if len(ids) else []
        if self.seen is not None:
            for character, start, stop in _characters(ids, self._bytes[side]):
                if character not in self.seen.spelled[side]:
                    new[start:stop] = [True] * (stop - start)
            if side in self._spelling:
                known = self.seen.words[side]
                for start, stop, word in self._spelling[side].words(ids):
                    if not _contains(known, word_hash(word)):
                        new[start:stop] = [True] * (stop - start)
        return new

    def words(self, text: str, side: SideName) -> tuple[str, ...]:
        """Return the words of a text that the model never saw, or that hold a subword or character it never saw."""
        processor = processor_of(self.subwords, side)
        if not any(self.pieces(processor.encode(text), side)):
            return ()
        words = _WORD.findall(text)  # no subword crosses a word boundary, so words can be encoded one by one
        ids = processor.encode(words)
        return tuple(
            word for word, word_ids in zip(words, ids, strict=True) if any(self.pieces(word_ids, side))
        )


def _read_words(file: Any, name: str) -> NDArray[np.uint64] | None:
    """Read a record of words, None where there is none; raises `ValueError` for what isn't one."""
    if name not in file.keys():  # noqa: SIM118 - no dictionary
        return None
    shape = file.get_slice(name).get_shape()
    if len(shape) != 1 or shape[0] > MOST_WORDS:
        raise ValueError(f"{name} of shape {shape}")
    hashes = file.get_tensor(name)
    if hashes.dtype != np.uint64 or np.any(hashes[1:] <= hashes[:-1]):
        raise ValueError(f"{name} of {hashes.dtype}, or not in order")
    return hashes


def _contains(hashes: NDArray[np.uint64], value: int) -> bool:
    place = int(np.searchsorted(hashes, np.uint64(value)))
    return place < len(hashes) and int(hashes[place]) == value


def split_words(text: str) -> list[str]:
    """Split a text into words where SentencePiece does before segmentation."""
    return _WORD.findall(text)


def processor_of(subwords: Subwords, side: SideName) -> Processor:
    """Return the SentencePiece processor of one side."""
    return subwords.source_processor if side == "source" else subwords.target_processor


def byte_values(processor: Processor) -> dict[int, int]:
    """Return the byte value of each id that is a byte; most vocabularies have none."""
    byte_pieces = {i: processor.id_to_piece(i) for i in range(processor.vocab_size()) if processor.is_byte(i)}
    return {i: int(match[1], 16) for i, piece in byte_pieces.items() if (match := _BYTE.fullmatch(piece))}


def _characters(ids: Sequence[int] | NDArray[Any], values: dict[int, int]) -> Iterator[tuple[str, int, int]]:
    """Yield the characters that ids spell in bytes, each with its start and end index."""
    index = 0
    while values and index < len(ids):
        first = values.get(int(ids[index]))
        if first is None:
            index += 1
            continue
        length = 1 + (first >= 0xC0) + (first >= 0xE0) + (first >= 0xF0)
        spelled = bytes(values.get(int(i), 0) for i in ids[index : index + length])
        yield spelled.decode("utf-8", errors="replace"), index, min(index + length, len(ids))
        index += length


def _spelled(ids: NDArray[Any], values: dict[int, int]) -> Iterator[str]:
    if not values:
        return
    byte_positions = np.flatnonzero(np.isin(ids, np.fromiter(values, ids.dtype, len(values))))
    for run in np.split(byte_positions, np.flatnonzero(np.diff(byte_positions) > 1) + 1):
        for character, _, _ in _characters(ids[run], values):
            yield character


def _with_composable(seen: NDArray[np.bool_], processor: Processor) -> NDArray[np.bool_]:
    """Add the subwords that BPE-dropout can produce: all that consist of characters of the seen subwords."""
    pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    characters = set("".join(pieces[int(i)] for i in np.flatnonzero(seen) if not processor.is_byte(int(i))))
    composable = [not processor.is_byte(i) and characters.issuperset(piece) for i, piece in enumerate(pieces)]
    return seen | np.array(composable)
