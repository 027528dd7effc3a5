"""The file model.bin, read without CTranslate2: a header, the variables one after the other, and aliases of variables.

    version: uint32; from version 2 the name of the specification: string, its revision: uint32
    variables: uint32, then for each: name: string, rank: uint8, sizes: uint32 each, type: uint8, bytes: uint32, content
    aliases: uint32 (from version 3), then for each: alias: string, variable: string

Numbers are little-endian; a string is a uint16 with its size, UTF-8 and a NUL. Before version 4, the type is the size
of an element, and the number of elements takes the place of the number of bytes. The source is
`python/ctranslate2/specs/model_spec.py` and `src/models/model.cc` of CTranslate2 4.8.

The file is mapped, so its variables take no memory before they are read. Every size is compared with what is left of
the file first; variables can't overlap, as nothing states where they begin.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.errors import CheckpointError

_NEWEST = 6  # version
# Bytes of the types, in the order of their numbers.
_SIZES = {"float32": 4, "int8": 1, "int16": 2, "int32": 4, "float16": 2, "bfloat16": 2}
_TYPES = tuple(_SIZES)
_BY_SIZE = {4: "float32", 2: "int16", 1: "int8"}  # before version 4
_MOST_DIMENSIONS = 8
_LONGEST_NAME = 300  # bytes


@dataclass(frozen=True)
class Variable:
    """Where a variable lies in the file."""

    offset: int
    shape: tuple[int, ...]
    type: str


class ModelFile:
    """The variables of a model.bin.

    Attributes:
        path: the file.
        version: of the binary format.
        specification: name and revision of the layout of the variables.
        variables: those of the file by name; an alias is the variable that it names.
    """

    def __init__(self, path: Path) -> None:
        """Read everything but the contents; raises `CheckpointError` if the file is damaged."""
        self.path = path
        try:
            with open(path, "rb") as file:
                self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: there is no such file") from None
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: expected a model of CTranslate2, found that {error}") from None
        self._position = 0
        self.version = self._integer("I")
        if not 2 <= self.version <= _NEWEST:
            raise CheckpointError(
                f"{path}: expected a model of CTranslate2 in binary version 2 to {_NEWEST}, found {self.version}"
            )
        self.specification = self._string(), self._integer("I")
        self.variables: dict[str, Variable] = {}
        for _ in range(self._integer("I")):
            name = self._new_name()
            self.variables[name] = self._variable(name)
        self._origins = {name: name for name in self.variables}
        for _ in range(self._integer("I") if self.version > 2 else 0):
            alias, origin = self._new_name(), self._string()
            if self._origins.get(origin) != origin:
                raise self._error(f"{alias} to be an alias of a variable", f"{origin[:60]!r}")
            self.variables[alias], self._origins[alias] = self.variables[origin], origin
        if self._position != len(self._content):
            raise self._error("its end", f"{len(self._content) - self._position:,} more bytes")
        self._check_scales()

    def _error(self, expected: str, found: str) -> CheckpointError:
        return CheckpointError(
            f"{self.path}: expected {expected} at byte {self._position:,}, found {found}; it is damaged"
        )

    def _take(self, size: int) -> int:
        """Return the position of the next `size` bytes and go beyond them."""
        begin, left = self._position, len(self._content) - self._position
        if size > left:
            raise self._error(f"{size:,} more bytes", f"{left:,}")
        self._position += size
        return begin

    def _integer(self, code: str) -> int:
        size = struct.calcsize(f"<{code}")
        number: int = struct.unpack_from(f"<{code}", self._content, self._take(size))[0]
        return number

    def _string(self) -> str:
        size = self._integer("H")
        begin = self._take(size)
        content = self._content[begin : begin + size]
        try:
            text = content[:-1].decode()
        except UnicodeDecodeError:
            text = "\0"
        if not 1 < size <= _LONGEST_NAME or content[-1] or not text.isprintable():
            raise self._error("a printable name", f"{content[:40]!r}")
        return text

    def _new_name(self) -> str:
        name = self._string()
        if name in self.variables:
            raise self._error("different names", f"{name[:60]!r} twice")
        return name

    def _variable(self, name: str) -> Variable:
        rank = self._integer("B")
        if rank > _MOST_DIMENSIONS:
            raise self._error(f"{name} to have at most {_MOST_DIMENSIONS} dimensions", f"{rank}")
        shape = tuple(self._integer("I") for _ in range(rank))
        kind, stated = self._integer("B"), self._integer("I")
        if self.version < 4:
            if kind not in _BY_SIZE:
                raise self._error(f"{name} to have elements of 1, 2 or 4 bytes", f"{kind}")
            element, stated = _BY_SIZE[kind], stated * kind
        elif kind >= len(_TYPES):
            raise self._error(f"{name} to have a type from 0 to {len(_TYPES) - 1}", f"{kind}")
        else:
            element = _TYPES[kind]
        size = math.prod(shape) * _SIZES[element]
        if size != stated:
            raise self._error(f"{name} of shape {shape} in {element} to have {size:,} bytes", f"{stated:,} stated")
        return Variable(self._take(size), shape, element)

    def array(self, name: str) -> NDArray[Any]:
        """Return a variable as it is stored, mapped; bfloat16 as uint16."""
        variable = self.variables[name]
        dtype = np.dtype("uint16" if variable.type == "bfloat16" else variable.type).newbyteorder("<")
        count = math.prod(variable.shape)
        return np.frombuffer(self._content, dtype, count, variable.offset).reshape(variable.shape)

    def scale(self, name: str) -> str:
        """Return the name of the scale that belongs to an int8 or int16 variable."""
        return f"{self._origins[name]}_scale"

    def number(self, name: str) -> float | None:
        """Return a finite variable with one element, None if there is none; raises `CheckpointError` for another."""
        if name not in self.variables:
            return None
        shape = self.variables[name].shape
        if math.prod(shape) != 1 or self.variables[name].type == "bfloat16":
            raise CheckpointError(f"{self.path}: expected {name} to be a number, found shape {shape}")
        number = float(self.array(name).item())
        if not math.isfinite(number):
            raise CheckpointError(f"{self.path}: expected {name} to be a finite number, found {number}")
        return number

    def text(self, name: str) -> str | None:
        """Return a variable that is text, None if there is none; raises `CheckpointError` for another variable."""
        if name not in self.variables:
            return None
        if self.variables[name].type != "int8" or len(self.variables[name].shape) != 1:
            raise CheckpointError(f"{self.path}: expected {name} to be text, found another variable")
        try:
            return self.array(name).tobytes().decode()
        except UnicodeDecodeError:
            raise CheckpointError(f"{self.path}: expected {name} in UTF-8, found other bytes") from None

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return a variable in float32; int8 and int16 are divided by their scales.

        Of integers only matrices have scales, which the importer checks.
        """
        kind, array = self.variables[name].type, self.array(name)
        if kind == "bfloat16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        numbers = array.astype(np.float32)
        if kind in ("int8", "int16"):
            numbers /= self.array(self.scale(name)).reshape(-1, 1)
        return numbers

    def _check_scales(self) -> None:
        """Raise `CheckpointError` for a quantized matrix whose scale is missing, doesn't fit, or isn't positive."""
        for name, variable in self.variables.items():
            if variable.type not in ("int8", "int16") or len(variable.shape) < 2:
                continue
            scale = self.variables.get(self.scale(name))
            if scale is None:
                raise CheckpointError(f"{self.path}: expected a variable {self.scale(name)}, found none of that name")
            rows = variable.shape[:1]
            if len(variable.shape) != 2 or scale.type != "float32" or scale.shape not in ((), (1,), rows):
                raise CheckpointError(
                    f"{self.path}: expected {self.scale(name)} in float32, one for each row of {name} of shape "
                    f"{variable.shape}, found {scale.type} of shape {scale.shape}"
                )
            numbers = self.array(self.scale(name))
            if not bool(np.all(np.isfinite(numbers) & (numbers > 0))):
                raise CheckpointError(f"{self.path}: expected {self.scale(name)} to be positive numbers, found others")
