"""Which subwords stood in the training text: what a model never saw, it knows nothing of.

A vocabulary holds subwords that no training text has: of bytes that no rare character needed, of a text that it was
learned from and another was trained on. Their embeddings are as random as before training. A run keeps which ones
its text had, on either side, in `seen.safetensors`; a run without that file (of an older version, or one that began
from another's weights) can tell only what its vocabulary can't spell at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from sentencepiece import SentencePieceProcessor

from headwise.data.ragged import Ragged
from headwise.errors import CheckpointError
from headwise.files import write_bytes
from headwise.parsing.json_text import parse_object
from headwise.text.tokens.subwords import SPECIAL, UNK, Subwords

FILE = "seen.safetensors"  # in a run directory
SIDES: tuple[SideName, ...] = ("source", "target")
_BLOCK = 1 << 24  # ids counted at a time
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_WORD = re.compile(
    "[^ \n\u2581]+"
)  # what is separated before encoding: other white space is a character like any

SideName = Literal["source", "target"]


@dataclass(frozen=True)
class Seen:
    """What the training text had.

    Attributes:
        pieces: by side, (vocabulary,): whether it had this subword.
        spelled: by side, the characters that it had spelled in bytes.
    """

    pieces: dict[SideName, NDArray[np.bool_]]
    spelled: dict[SideName, frozenset[str]]

    @classmethod
    def of(cls, source: Ragged, target: Ragged, subwords: Subwords, *, dropout: bool = False) -> Seen:
        """Look through encoded text; with BPE-dropout, what its characters can make counts as seen as well."""
        pieces: dict[SideName, NDArray[np.bool_]] = {}
        spelled: dict[SideName, frozenset[str]] = {}
        for side, table in zip(SIDES, (source, target), strict=True):
            processor = processor_of(subwords, side)
            size = processor.vocab_size()
            seen = np.zeros(size, dtype=bool)
            for start in range(0, len(table.values), _BLOCK):
                seen |= np.bincount(table.values[start : start + _BLOCK], minlength=size)[:size] > 0
            pieces[side] = _of_seen_characters(seen, processor) if dropout else seen
            spelled[side] = frozenset(_spelled(table.values, byte_values(processor)))
        return cls(pieces, spelled)

    def joined(self, other: Seen) -> Seen:
        """What either had, for models that translate together."""
        return Seen(
            {side: self.pieces[side] | other.pieces[side] for side in SIDES},
            {side: self.spelled[side] | other.spelled[side] for side in SIDES},
        )

    def save(self, path: Path, subwords: str) -> None:
        """Write it; `subwords` is the digest of the subword model whose ids these are. Raises `TrainingError`."""
        spelled = {side: "".join(sorted(self.spelled[side])) for side in SIDES}
        tensors = {side: np.packbits(self.pieces[side]) for side in SIDES}
        write_bytes(path, save(tensors, {"headwise": json.dumps({"subwords": subwords, "spelled": spelled})}))

    @classmethod
    def find(cls, path: Path, subwords: Subwords) -> Seen | None:
        """Read what `save` wrote, None where there is no file; raises `CheckpointError` for one that doesn't fit."""
        if not path.exists():
            return None
        try:
            with safe_open(path, "np") as file:
                record = parse_object(file.metadata()["headwise"], path)
                bits = {side: file.get_tensor(side) for side in SIDES}
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
        return cls(pieces, spelled)


class Novelty:
    """Finds the words that a model never saw, on both sides."""

    def __init__(self, subwords: Subwords, seen: Seen | None = None) -> None:
        """Go by what was seen in training, or, without that, by what the vocabulary can't spell."""
        self.subwords, self.seen = subwords, seen
        self._bytes = {side: byte_values(processor_of(subwords, side)) for side in SIDES}
        self._new: dict[SideName, NDArray[np.bool_]] = {}
        for side in SIDES:
            size = processor_of(subwords, side).vocab_size()
            self._new[side] = np.zeros(size, dtype=bool) if seen is None else ~seen.pieces[side]
            self._new[side][[*SPECIAL]] = False  # every sentence has them
            self._new[side][UNK] = True

    def pieces(self, ids: Sequence[int], side: SideName) -> list[bool]:
        """Tell for each subword whether the model never saw it, or the character that it helps to spell."""
        new = self._new[side][np.asarray(ids, dtype=np.int64)].tolist() if len(ids) else []
        if self.seen is not None:
            for character, start, stop in _characters(ids, self._bytes[side]):
                if character not in self.seen.spelled[side]:
                    new[start:stop] = [True] * (stop - start)
        return new

    def words(self, text: str, side: SideName) -> tuple[str, ...]:
        """Return the words of a text, as they stand there, that hold something the model never saw."""
        processor = processor_of(self.subwords, side)
        if not any(self.pieces(processor.encode(text), side)):
            return ()
        words = _WORD.findall(
            text
        )  # no subword reaches beyond its word, so each word has those that it has here
        ids = processor.encode(words)
        return tuple(word for word, its in zip(words, ids, strict=True) if any(self.pieces(its, side)))


def split_words(text: str) -> list[str]:
    """Cut a text where SentencePiece does before it looks for subwords."""
    return _WORD.findall(text)


def processor_of(subwords: Subwords, side: SideName) -> SentencePieceProcessor:
    """Return one side's subword model."""
    return subwords.source_processor if side == "source" else subwords.target_processor


def byte_values(processor: SentencePieceProcessor) -> dict[int, int]:
    """Return the ids of subwords that are a byte, and which; most vocabularies have none."""
    found = {i: processor.id_to_piece(i) for i in range(processor.vocab_size()) if processor.is_byte(i)}
    return {i: int(written[1], 16) for i, piece in found.items() if (written := _BYTE.fullmatch(piece))}


def _characters(ids: Sequence[int] | NDArray[Any], values: dict[int, int]) -> Iterator[tuple[str, int, int]]:
    """Yield the characters that ids spell in bytes, each with the places where it begins and ends."""
    place = 0
    while values and place < len(ids):
        first = values.get(int(ids[place]))
        if first is None:
            place += 1
            continue
        length = 1 + (first >= 0xC0) + (first >= 0xE0) + (first >= 0xF0)
        spelled = bytes(values.get(int(i), 0) for i in ids[place : place + length])
        yield spelled.decode("utf-8", errors="replace"), place, min(place + length, len(ids))
        place += length


def _spelled(ids: NDArray[Any], values: dict[int, int]) -> Iterator[str]:
    if not values:
        return
    places = np.flatnonzero(np.isin(ids, np.fromiter(values, ids.dtype, len(values))))
    for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
        for character, _, _ in _characters(ids[run], values):
            yield character


def _of_seen_characters(seen: NDArray[np.bool_], processor: SentencePieceProcessor) -> NDArray[np.bool_]:
    """Add the subwords that those seen, cut anew, may give: all whose characters are among theirs."""
    pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    characters = set("".join(pieces[int(i)] for i in np.flatnonzero(seen) if not processor.is_byte(int(i))))
    made = [not processor.is_byte(i) and characters.issuperset(piece) for i, piece in enumerate(pieces)]
    return seen | np.array(made)
