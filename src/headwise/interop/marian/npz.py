"""Arrays of NumPy's .npz files, listed without reading them, and without pickle.

A file is a zip archive of .npy entries. Types, sizes and compression are checked before an array takes memory: entries
must be stored uncompressed, as NumPy and Marian write them, so that no array is larger than the file.
"""

from __future__ import annotations

import ast
import io
import math
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from headwise.errors import CheckpointError
from headwise.files import DamagedArchive, opened_zip, write_bytes

_SUFFIX = ".npy"
_LONGEST_HEADER = 10_000  # characters
_LONGEST_NAME = 300
_TYPES = {"<f4": "float32", "<f2": "float16", "|i1": "int8", "<i1": "int8"}
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)  # of zip's calendar; the same arrays give the same bytes


@dataclass(frozen=True)
class Array:
    """An array of a file, which `read` reads."""

    path: Path
    name: str
    shape: tuple[int, ...]
    kind: str
    offset: int  # of the data in the entry

    def read(self) -> NDArray[Any]:
        """Read the array, floating-point numbers as float32; raises `CheckpointError` if it is damaged."""
        try:
            with opened_zip(self.path) as archive:
                content = archive.read(self.name + _SUFFIX)
        except DamagedArchive as error:
            raise CheckpointError(f"{self.path}: expected array {self.name}, found a damaged one ({error})") from None
        array = np.frombuffer(content, np.dtype(self.kind).newbyteorder("<"), offset=self.offset)
        return array.reshape(self.shape).astype(np.int8 if self.kind == "int8" else np.float32)


def npz_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a file by name.

    Raises `CheckpointError` for a damaged file, for compressed entries, and for an array of Python objects, of another
    type, or of a shape that doesn't match the size of its entry.
    """
    try:
        with opened_zip(path) as archive:
            arrays = [_array(path, archive, entry) for entry in archive.infolist()]
    except DamagedArchive as error:
        raise CheckpointError(f"{path}: expected an .npz file, found a damaged one ({error})") from None
    found = {array.name: array for array in arrays}
    if len(found) != len(arrays):
        raise CheckpointError(f"{path}: expected a different name for each array, found one twice")
    return found


def _array(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    """Read the header of an entry."""
    name = entry.filename.removesuffix(_SUFFIX)
    if name == entry.filename or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise CheckpointError(f"{path}: expected .npy arrays, found the entry {entry.filename[:60]!r}")
    place = f"{path}: {name}"
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        raise CheckpointError(f"{place}: expected an uncompressed array, found a compressed one")
    with archive.open(entry) as file:
        kind, fortran, shape = _header(file, place)
        size = entry.file_size - file.tell()
    if fortran and len(shape) > 1:
        raise CheckpointError(f"{place}: expected an array in C's order, found one in Fortran's")
    if math.prod(shape) * np.dtype(kind).itemsize != size:
        raise CheckpointError(
            f"{place}: expected an array of the {size:,} bytes that are there, found shape {shape} of {kind}"
        )
    return Array(path, name, shape, kind, entry.file_size - size)


def _header(file: IO[bytes], place: str) -> tuple[str, bool, tuple[int, ...]]:
    """Return type, order and shape of an array; NumPy's own parser also accepts the literals of Python 2."""
    try:
        length = "<H" if npy.read_magic(file) == (1, 0) else "<I"
        size = struct.unpack(length, file.read(struct.calcsize(length)))[0]
        text = file.read(min(size, _LONGEST_HEADER + 1)).decode("latin-1")
        header = ast.literal_eval(text) if len(text) == size <= _LONGEST_HEADER else {}
        kind, fortran, shape = (header[key] for key in ("descr", "fortran_order", "shape"))
    except (ValueError, KeyError, SyntaxError, TypeError, MemoryError, RecursionError, struct.error):
        raise CheckpointError(f"{place}: expected an .npy array, found another header") from None
    if kind == "|O":
        raise CheckpointError(f"{place}: expected numbers, found Python objects, which only a pickle can hold")
    if not isinstance(kind, str) or kind not in _TYPES:  # a list of fields, of a structured type
        raise CheckpointError(
            f"{place}: expected {', '.join(dict.fromkeys(_TYPES.values()))} (little-endian), found {str(kind)[:40]}"
        )
    if not isinstance(shape, tuple) or not all(type(length) is int and length >= 0 for length in shape):
        raise CheckpointError(f"{place}: expected lengths of dimensions, found the shape {str(shape)[:60]}")
    return _TYPES[kind], fortran is not False, shape


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays, uncompressed; raises `TrainingError` where the disk is full."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, array in arrays.items():
            entry = io.BytesIO()
            npy.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(name + _SUFFIX, _FIRST_DATE), entry.getvalue())
    write_bytes(path, content.getvalue())
