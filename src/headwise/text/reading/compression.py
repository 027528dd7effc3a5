"""Compressed text files: `.gz` and `.zst` are read by their suffix, and written as independent parts.

A gzip file may have several members and a Zstandard file several frames; readers see their contents joined. So a
file can be written part by part, and cut off after any part.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from headwise.errors import DataError
from headwise.extras import optional_module
from headwise.files import read_errors

SUFFIXES = (".gz", ".zst")
_BLOCK = 1 << 13  # compressed bytes at a time; a crafted frame unpacks to at most 2^15 times as many
_GZIP_LEVEL, _ZSTD_LEVEL = 6, 3


def suffix(path: str | Path) -> str:
    """Return the suffix of a file name in lower case, without that of its compression: `.tsv`."""
    return Path(str(path).lower().removesuffix(compression(path))).suffix


def compression(path: str | Path) -> str:
    """Return the suffix that names a file's compression, empty for a plain file."""
    return next((suffix for suffix in SUFFIXES if str(path).lower().endswith(suffix)), "")


@contextmanager
def open_binary(path: Path) -> Iterator[io.BufferedReader | gzip.GzipFile]:
    """Open a plain or compressed file for reading; raises `DataError`, also while it is read."""
    with read_errors(path), open(path, "rb") as plain:
        kind = compression(path)
        if kind == ".gz":
            yield gzip.GzipFile(fileobj=plain)
        elif kind == ".zst":
            yield io.BufferedReader(_ZstdFile(path, plain), 1 << 17)
        else:
            yield plain


def compressed(data: bytes, path: Path) -> bytes:
    """Return `data` as an independent part of the file at `path`: a gzip member, a frame, or as it is.

    Equal data gives equal bytes.
    """
    kind = compression(path)
    if kind == ".gz":
        return gzip.compress(data, _GZIP_LEVEL, mtime=0)
    if kind == ".zst":
        zstandard = optional_module("zstandard", path)
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress(data)
    return data


class _ZstdFile(io.RawIOBase):
    """The joined contents of the frames of a Zstandard file, which must end with a whole frame."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self._library = optional_module("zstandard", path)
        self._frame: Any = None
        self._packed = self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._ready:
            if not self._packed:
                self._packed = self._file.read(_BLOCK)
            if not self._packed:
                if self._frame is not None:
                    raise self._damaged("it ends within a frame")
                return 0
            if self._frame is None:
                self._frame = self._library.ZstdDecompressor().decompressobj()
            try:
                self._ready = self._frame.decompress(self._packed)
            except self._library.ZstdError as error:
                raise self._damaged(str(error)) from None
            self._packed = b""
            if self._frame.eof:
                self._packed, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _damaged(self, reason: str) -> DataError:
        return DataError(f"{self._path}: expected a whole Zstandard file, found a damaged one ({reason})")
