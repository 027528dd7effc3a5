"""A safetensors file taken apart and written again, whatever is in it: for damage that the library wouldn't write."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ITEM_SIZES = {
    "F32": 4,
    "F64": 8,
    "F16": 2,
    "BF16": 2,
    "I8": 1,
    "U8": 1,
    "I16": 2,
    "I32": 4,
    "I64": 8,
    "BOOL": 1,
}


@dataclass
class Tensors:
    """entries: name -> type, shape, bytes; metadata: as the file's."""

    entries: dict[str, tuple[str, list[int], bytes]]
    metadata: dict[str, str] | None

    def header(self) -> dict[str, Any]:
        """The table that begins the file."""
        table: dict[str, Any] = {} if self.metadata is None else {"__metadata__": self.metadata}
        place = 0
        for name, (kind, shape, data) in self.entries.items():
            table[name] = {"dtype": kind, "shape": shape, "data_offsets": [place, place + len(data)]}
            place += len(data)
        return table

    def data(self) -> bytes:
        """All tensors' bytes."""
        return b"".join(data for _, _, data in self.entries.values())


def read_tensors(path: Path) -> Tensors | None:
    """Read a file; None where it was damaged before."""
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
            entries[name] = (
                entry["dtype"],
                list(entry["shape"]),
                content[8 + length + begin : 8 + length + end],
            )
    except (
        OSError,
        struct.error,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
    ):
        return None
    return Tensors(entries, metadata)


def write_tensors(path: Path, tensors: Tensors) -> None:
    """Write a file, aligned as the library does."""
    text = json.dumps(tensors.header()).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + tensors.data())


def float_bytes(kind: str, value: float) -> bytes:
    """Return a number as the type has it, infinite where it has none so large."""
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
