"""Reader and writer of safetensors files without validation, for invalid files that the library can't write."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ITEM_SIZES = {"F32": 4, "F64": 8, "F16": 2, "BF16": 2}
ITEM_SIZES |= {"I8": 1, "U8": 1, "I16": 2, "U16": 2, "I32": 4, "I64": 8, "BOOL": 1}


@dataclass
class Tensors:
    """Content of a file: entries, name -> (type, shape, bytes), and the metadata of its header."""

    entries: dict[str, tuple[str, list[int], bytes]]
    metadata: dict[str, str] | None

    def header(self) -> dict[str, Any]:
        """Return the header of the file as a table."""
        table: dict[str, Any] = {} if self.metadata is None else {"__metadata__": self.metadata}
        offset = 0
        for name, (kind, shape, data) in self.entries.items():
            table[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + len(data)]}
            offset += len(data)
        return table

    def data(self) -> bytes:
        """Return the bytes of all tensors."""
        return b"".join(data for _, _, data in self.entries.values())


def read_tensors(path: Path) -> Tensors | None:
    """Read a file; returns None where it is already damaged."""
    try:
        content = path.read_bytes()
        (length,) = struct.unpack_from("<Q", content)
        table = json.loads(content[8 : 8 + length])
        metadata = table.pop("__metadata__", None)
        entries = {}
        for name, entry in table.items():
            begin, end = entry["data_offsets"]
            if entry["dtype"] not in ITEM_SIZES or begin > end:
                return None
            data = content[8 + length + begin : 8 + length + end]
            entries[name] = entry["dtype"], list(entry["shape"]), data
    except (
        OSError,
        struct.error,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ):
        return None
    return Tensors(entries, metadata)


def write_tensors(path: Path, tensors: Tensors) -> None:
    """Write a file with the library's alignment."""
    text = json.dumps(tensors.header()).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + tensors.data())


def float_bytes(kind: str, value: float) -> bytes:
    """Encode a number in a floating-point type; overflow becomes infinity."""
    if kind == "F64":
        return struct.pack("<d", value)
    try:
        single = struct.pack("<f", value)
    except OverflowError:
        single = struct.pack("<f", math.copysign(math.inf, value))
    if kind == "F32":
        return single
    if kind == "BF16":
        return single[2:]
    try:
        return struct.pack("<e", value)
    except OverflowError:
        return struct.pack("<e", math.copysign(math.inf, value))
