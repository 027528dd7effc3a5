"""Stages after the cleaning: duplicates are found, the other rows of a table selected, and encoded as a shard of ids.

Duplicates are rows of equal keys: sorted on the disk, compared range by range. Near duplicates are found by MinHash and
locality-sensitive hashing (Broder 1997; Leskovec, Rajaraman and Ullman 2014, section 3.4). A text is reduced to its
words, without case, digits and punctuation, and to the set of its substrings of 8 bytes. Each of `BANDS` bands hashes
`PER_BAND` minima under random hash functions; two texts of Jaccard similarity s agree in one of the bands with
probability 1 - (1 - s^PER_BAND)^BANDS: 0.03 at s = 0.5, 0.49 at 0.72, 0.95 at 0.86.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.data.hashing import mix_hashes, mixed
from headwise.data.ragged import Ragged, RaggedWriter, map_array, save_array
from headwise.files import disk_errors
from headwise.text.tokens.encoding import flatten, id_type
from headwise.text.tokens.subwords import EOS, UNK, Subwords

SHARD = "shard-{:05}"  # name of the files of a shard
BANDS, PER_BAND = 9, 8
_BLOCK = 1 << 13  # rows
_GRAM = 8  # bytes of a substring
_CHUNK = 1 << 16  # substrings hashed at a time
_NOT_WORDS = re.compile(r"[\W\d_]+")


# --------------------------------------------------------------------------------------------------------- duplicates


def near_keys(texts: Sequence[str], seed: int) -> NDArray[np.uint64]:
    """Return the keys of texts, (texts, `BANDS`); near duplicates probably have one in common."""
    encoded = [_normal(text) for text in texts]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    data = np.frombuffer(b"".join(encoded), np.uint8).astype(np.uint64)
    grams = data[: len(data) - _GRAM + 1].copy()
    for place in range(1, _GRAM):
        grams |= data[place : len(data) - _GRAM + 1 + place] << np.uint64(8 * place)
    starts = np.cumsum(lengths) - lengths
    factors, offsets = _functions(seed)
    minima = np.empty((len(texts), BANDS * PER_BAND), np.uint64)
    first = 0
    while first < len(texts):  # texts whose substrings are about `_CHUNK`
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + _CHUNK)))
        end = int(starts[last - 1] + lengths[last - 1])
        kept = np.ones(end - int(starts[first]), bool)
        ends = (starts + lengths)[first:last] - starts[first]
        for place in range(1, _GRAM):  # substrings that would reach into the next text
            kept[ends - place] = False
        hashes = mixed(grams[starts[first] : starts[first] + len(kept)][kept[: len(grams) - starts[first]]])
        counts = lengths[first:last] - _GRAM + 1
        begins = np.cumsum(counts) - counts
        for column in range(len(factors)):
            values = hashes * factors[column] + offsets[column]
            minima[first:last, column] = np.minimum.reduceat(values, begins)
        first = last
    keys = np.zeros((len(texts), BANDS), np.uint64)
    for place in range(PER_BAND):
        keys = mixed(keys ^ minima[:, place::PER_BAND])
    return keys


def find_duplicates(task: dict[str, Any]) -> dict[str, Any]:
    """Find the rows of a range of keys that have the key of an earlier row, in the order of tables and rows.

    Writes `NAME.tables` and `NAME.rows`, sorted, and returns their number. Raises `TrainingError`.
    """
    folder, key = Path(task["folder"]), task["key"]
    low, high = (np.uint64(bound) for bound in task["range"])
    found = []
    for number, table in enumerate(task["tables"]):
        keys = map_array(folder / f"{table}.key{key}", np.uint64)
        part = slice(int(np.searchsorted(keys, low)), int(np.searchsorted(keys, high, side="right")))
        rows = map_array(folder / f"{table}.key{key}.rows", np.uint32)[part]
        found.append((keys[part], np.full(len(rows), number, np.uint32), rows))
    keys, tables, rows = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(keys, kind="stable")
    later = order[1:][keys[order][1:] == keys[order][:-1]]
    later = later[np.lexsort((rows[later], tables[later]))]
    with disk_errors(folder):
        save_array(folder / f"duplicates-{task['name']}.tables", tables[later])
        save_array(folder / f"duplicates-{task['name']}.rows", rows[later])
    return {"duplicates": len(later)}


def _normal(text: str) -> bytes:
    """Return the words of a text as bytes, at least as many as a substring has."""
    words = _NOT_WORDS.sub(" ", text.casefold()).strip()
    return (words or text).encode().ljust(_GRAM)


@functools.cache
def _functions(seed: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    random = np.random.default_rng([seed, 0x6D696E])
    factors, offsets = random.integers(0, 1 << 64, (2, BANDS * PER_BAND), np.uint64, endpoint=False)
    return factors | np.uint64(1), offsets


# ---------------------------------------------------------------------------------------------------------- selection


def select(task: dict[str, Any]) -> dict[str, Any]:
    """Write the rows of a table that aren't duplicates as `NAME.kept`; returns their number.

    The result also has the number of exact and of near duplicates, and the smallest hashes of the rows under the seed,
    `dev_pairs` of them, from which a development set is chosen. Raises `TrainingError`.
    """
    folder, name, number = Path(task["folder"]), task["table"], task["number"]
    hashes = map_array(folder / f"{name}.hashes", np.uint64)
    dropped = {"exact": np.zeros(len(hashes), bool), "near": np.zeros(len(hashes), bool)}
    for kind, duplicates in task["duplicates"]:
        dropped[kind][_rows_of(folder / duplicates, number)] = True
    near = dropped["near"] & ~dropped["exact"]
    kept = np.flatnonzero(~(dropped["exact"] | near))
    with disk_errors(folder):
        save_array(folder / f"{name}.kept", kept)
    smallest = np.unique(mix_hashes(hashes[kept], task["seed"]))[: task["dev_pairs"]]
    return {
        "rows": len(kept),
        "duplicates": int(dropped["exact"].sum()),
        "near": int(near.sum()),
        "smallest": smallest.tolist(),
    }


def _rows_of(path: Path, table: int) -> NDArray[np.uint32]:
    tables = map_array(path.with_name(f"{path.name}.tables"), np.uint32)
    start, end = np.searchsorted(tables, [table, table + 1]).tolist()
    return map_array(path.with_name(f"{path.name}.rows"), np.uint32)[start:end]


# ----------------------------------------------------------------------------------------------------------- encoding


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
