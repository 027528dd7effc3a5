"""Ragged arrays: rows of different lengths in two flat files; and the lines of text files that rows come from.

This is the storage format of prepared text: `NAME.values` (the values of all rows, raw) and `NAME.offsets`
(rows + 1 int64 positions). Both are memory-mapped, so reading a row touches only that row.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.errors import CheckpointError

MOST_FILES = 1 << 16  # the file of a row is stored as a 16-bit index


def beside(path: Path, name: str) -> Path:
    """Return the path of the file `PATH.NAME` of a table."""
    return path.with_name(f"{path.name}.{name}")


class RaggedWriter:
    """Writer of a ragged array, and a context manager."""

    def __init__(self, path: Path, dtype: Any) -> None:
        """Open `path`.values and `path`.offsets for writing."""
        self.dtype = np.dtype(dtype)
        self._values = open(beside(path, "values"), "wb")  # noqa: SIM115
        self._offsets = open(beside(path, "offsets"), "wb")  # noqa: SIM115
        self._end = 0
        self._offsets.write(np.zeros(1, np.int64).tobytes())

    def append(self, values: NDArray[Any], lengths: NDArray[Any]) -> None:
        """Append rows, given as a flat array and the length of each row."""
        assert len(values) == int(lengths.sum())
        assert _fits(values, self.dtype), "a value that its type has no room for would become another"
        self._values.write(np.ascontiguousarray(values, self.dtype).data)
        ends = self._end + np.cumsum(lengths, dtype=np.int64)
        self._offsets.write(ends.data)
        self._end += len(values)

    def append_texts(self, texts: Sequence[str]) -> None:
        """Append strings as rows of UTF-8 bytes."""
        encoded = [text.encode() for text in texts]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self.append(np.frombuffer(b"".join(encoded), np.uint8), lengths)

    def __enter__(self) -> RaggedWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._values.close()
        self._offsets.close()


class Ragged:
    """Memory-mapped ragged array, written by `RaggedWriter`."""

    def __init__(self, path: Path, dtype: Any) -> None:
        """Map the files; raises `CheckpointError` if they are missing or inconsistent."""
        try:
            self.offsets: NDArray[np.int64] = map_array(beside(path, "offsets"), np.int64)
            self.values: NDArray[Any] = map_array(beside(path, "values"), dtype)
        except (OSError, ValueError):
            raise CheckpointError(f"{path}: expected prepared text, found missing or damaged files") from None
        if not len(self.offsets) or int(self.offsets[-1]) != len(self.values):
            raise CheckpointError(f"{path}: expected prepared text, found files that were cut short")
        if self.offsets[0] or bool((self.offsets[1:] < self.offsets[:-1]).any()):
            raise CheckpointError(f"{path}: expected prepared text, found rows that overlap")

    @classmethod
    def of(cls, values: NDArray[Any], offsets: NDArray[np.int64]) -> Ragged:
        """Return the array of values and offsets in memory."""
        table = cls.__new__(cls)
        table.values, table.offsets = values, offsets
        return table

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        """Return a row as a one-dimensional array."""
        if not 0 <= row < len(self):
            raise IndexError(row)
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def texts(self, rows: Sequence[int] | NDArray[Any]) -> list[str]:
        """Return rows of UTF-8 bytes as strings."""
        values, lengths = gather(self, np.asarray(rows, np.int64))
        joined, ends = values.tobytes(), [0, *np.cumsum(lengths).tolist()]
        return [joined[start:end].decode() for start, end in itertools.pairwise(ends)]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Length of every row."""
        return np.diff(self.offsets)


def map_array(path: Path, dtype: Any) -> NDArray[Any]:
    """Memory-map a raw one-dimensional array, which may be empty; raises `OSError` or `ValueError`."""
    if path.stat().st_size == 0:  # an empty file can't be mapped
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, mode="r").view(np.ndarray)  # whose slicing is faster than a memmap's


def map_places(path: Path, names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Map `path`.lines and `path`.files: the line of each row, and the index of its file in `names`.

    Raises `CheckpointError` if they are missing, or an index is out of range.
    """
    try:
        lines = map_array(beside(path, "lines"), np.int64)
        files = map_array(beside(path, "files"), np.uint16)
    except (OSError, ValueError):
        raise CheckpointError(f"{path}: expected prepared text, found missing or damaged files") from None
    if len(files) and int(files.max()) >= len(names):
        raise CheckpointError(
            f"{path}: expected rows of {len(names)} files, found one of number {int(files.max()) + 1}"
        )
    return lines, files


class PlacedRows:
    """Rows of prepared text: row i comes from line `lines[i]` (from 1) of file `names[files[i]]`."""

    def __init__(self, lines: NDArray[Any], files: NDArray[Any], names: Sequence[str]) -> None:
        self.lines, self.files, self.names = lines, files, list(names)

    def __len__(self) -> int:
        return len(self.lines)

    def locate(self, rows: Sequence[int] | NDArray[Any], most: int = 10) -> str:
        """Return the files and lines of rows, for messages: `train.en lines 3, 17 and 40`, at most `most` of them."""
        indices = np.asarray(rows, np.int64)
        places = np.stack([self.files[indices], self.lines[indices]], axis=1).astype(np.int64)
        places = np.unique(places, axis=0)
        listed, phrases = places[:most], []
        for file in np.unique(listed[:, 0]).tolist():
            *numbers, last = listed[listed[:, 0] == file, 1].tolist()
            lines = f"lines {', '.join(map(str, numbers))} and {last}" if numbers else f"line {last}"
            phrases.append(f"{self.names[file]} {lines}")
        more = f" and {len(places) - most:,} more" if len(places) > most else ""
        return "; ".join(phrases) + more


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write a one-dimensional array as raw bytes; raises `OSError`."""
    with open(path, "wb") as file:
        file.write(np.ascontiguousarray(array).data)


def gather(table: Ragged, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the concatenated values of several rows, and the length of each row."""
    starts = table.offsets[rows]
    lengths = table.offsets[rows + 1] - starts
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    positions = np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
    return table.values[positions], lengths


def _fits(values: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    if not len(values) or np.can_cast(values.dtype, dtype):
        return True
    limits = np.iinfo(dtype)
    return limits.min <= int(values.min()) and int(values.max()) <= limits.max
