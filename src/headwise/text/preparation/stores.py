"""Encoding of a table's rows into a shard of the prepared corpus: memory-mapped arrays of ids."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from headwise.data.hashing import mix_hashes
from headwise.data.ragged import Ragged, RaggedWriter, map_array, save_array
from headwise.files import disk_errors
from headwise.text.tokens.encoding import flatten, id_type
from headwise.text.tokens.subwords import EOS, UNK, Subwords

_BLOCK = 1 << 13  # rows
SHARD = "shard-{:05}"  # name of the files of a shard


def store(task: dict[str, Any]) -> dict[str, Any]:
    """Write the selected rows of a table that aren't in the development set as shard `shard`.

    Rows of more than `longest` subwords on a side are left out. Returns the number of rows, of those left out and of
    those equal to a development pair, and the SHA-256 of each file. Raises `TrainingError`.
    """
    folder, out, name = Path(task["folder"]), Path(task["out"]), task["table"]
    rows = map_array(folder / f"{name}.kept", np.int64)
    held_out = np.zeros(len(rows), bool)
    if task["held_out"] is not None:
        hashes = map_array(folder / f"{name}.hashes", np.uint64)[rows]
        held_out = mix_hashes(hashes, task["seed"]) <= np.uint64(task["held_out"])
    rows = rows[~held_out]
    written, unknown = write_rows(
        folder / name, rows, Subwords.load(out), out / SHARD.format(task["shard"]), task["longest"]
    )
    with disk_errors(out):
        save_array(
            out / f"{SHARD.format(task['shard'])}.files", np.full(len(written), task["file"], np.uint16)
        )
    names = sorted(path.name for path in out.glob(f"{SHARD.format(task['shard'])}.*"))
    return {
        "rows": len(written),
        "too_long": len(rows) - len(written),
        "held_out": int(held_out.sum()),
        "unknown": unknown,
        "files": {name: _checksum(out / name) for name in names},
    }


def write_rows(
    table: Path, rows: np.ndarray[Any, Any], subwords: Subwords, out: Path, longest: int
) -> tuple[np.ndarray[Any, Any], int]:
    """Encode rows of a table into the store `out`; returns the rows that fit, and the number of unknown subwords."""
    texts = [Ragged(table.with_name(f"{table.name}.{side}"), np.uint8) for side in ("source", "target")]
    types = [id_type(size) for size in (subwords.source_size, subwords.target_size)]
    lines = map_array(table.with_name(f"{table.name}.lines"), np.int64)
    kept, unknown = [rows[:0]], 0
    with (
        disk_errors(out),
        RaggedWriter(out.with_name(f"{out.name}.source"), types[0]) as sources,
        RaggedWriter(out.with_name(f"{out.name}.target"), types[1]) as targets,
    ):
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            source_ids = subwords.encode_source_batch(texts[0].texts(block))
            target_ids = subwords.encode_target_batch(texts[1].texts(block))
            fits = [
                len(source) < longest and len(target) < longest
                for source, target in zip(source_ids, target_ids, strict=True)
            ]
            kept.append(block[np.array(fits, bool)])
            for writer, ids, end in ((sources, source_ids, [EOS]), (targets, target_ids, [])):
                fitting = [row for row, fit in zip(ids, fits, strict=True) if fit]
                unknown += sum(row.count(UNK) for row in fitting)
                writer.append(*flatten(fitting, end))
        written = np.concatenate(kept)
        save_array(out.with_name(f"{out.name}.lines"), lines[written])
    return written, unknown


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
