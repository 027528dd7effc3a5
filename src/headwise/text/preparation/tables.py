"""Stages after the cleaning: duplicates are found, the other rows of a table selected, and encoded as a shard of ids.

Duplicates are rows of equal keys: sorted on the disk, compared range by range. Near duplicates are found by MinHash and
locality-sensitive hashing (Broder 1997; Leskovec, Rajaraman and Ullman 2014, section 3.4). A text is reduced to its
words, without case, digits and punctuation, and to the set of its substrings of 8 bytes. Each of `BANDS` bands hashes
`PER_BAND` minima under random hash functions; two texts of Jaccard similarity s agree in one of the bands with
probability 1 - (1 - s^PER_BAND)^BANDS: 0.03 at s = 0.5, 0.49 at 0.72, 0.95 at 0.86.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.data.ragged import RaggedWriter, beside, gather, map_array, save_array
from headwise.files import file_sha256
from headwise.text.preparation.stores import SIDES
from headwise.text.tokens.encoding import EncodingJob, encode, open_part, remove_part
from headwise.text.tokens.subwords import UNK

HELD_OUT = "held-out"  # file of the hashes of the development set
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
        hashes = _mixed(grams[starts[first] : starts[first] + len(kept)][kept[: len(grams) - starts[first]]])
        counts = lengths[first:last] - _GRAM + 1
        begins = np.cumsum(counts) - counts
        for column in range(len(factors)):
            values = hashes * factors[column] + offsets[column]
            minima[first:last, column] = np.minimum.reduceat(values, begins)
        first = last
    keys = np.zeros((len(texts), BANDS), np.uint64)
    for place in range(PER_BAND):
        keys = _mixed(keys ^ minima[:, place::PER_BAND])
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

    The result also has the number of exact and of near duplicates, that of different pairs, and the smallest hashes
    under the seed, `dev_pairs` of them, from which a development set is chosen; these two of the first `new_files`
    files, if that isn't 0. Raises `TrainingError`.
    """
    folder, name, number = Path(task["folder"]), task["table"], task["number"]
    hashes = map_array(folder / f"{name}.hashes", np.uint64)
    dropped = {"exact": np.zeros(len(hashes), bool), "near": np.zeros(len(hashes), bool)}
    for kind, duplicates in task["duplicates"]:
        dropped[kind][_rows_of(folder / duplicates, number)] = True
    near = dropped["near"] & ~dropped["exact"]
    kept = np.flatnonzero(~(dropped["exact"] | near))
    save_array(folder / f"{name}.kept", kept)
    different = np.unique(_mix_hashes(hashes[of_files(folder / name, kept, task["new_files"])], task["seed"]))
    return {
        "rows": len(kept),
        "duplicates": int(dropped["exact"].sum()),
        "near": int(near.sum()),
        "different": len(different),
        "smallest": different[: task["dev_pairs"]].tolist(),
    }


def of_files(table: Path, rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return those rows of a table that are of the first `most` files; 0: all."""
    return rows[map_array(beside(table, "files"), np.uint16)[rows] < most] if most else rows


def mixed_hashes(table: Path, rows: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Return the hashes of rows of a table under a seed."""
    return _mix_hashes(map_array(beside(table, "hashes"), np.uint64)[rows], seed)


def training_rows(table: Path, seed: int) -> tuple[NDArray[np.int64], int]:
    """Return the selected rows of a table that aren't held out, and the number of those that are.

    The hashes of the development set under the seed are in `HELD_OUT` beside the table.
    """
    rows = map_array(beside(table, "kept"), np.int64)
    held_out = map_array(table.with_name(HELD_OUT), np.uint64)
    if not len(held_out):
        return rows, 0
    chosen = np.isin(mixed_hashes(table, rows, seed), held_out)
    return rows[~chosen], int(chosen.sum())


def _mix_hashes(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Permute 64-bit hashes by a seed: they choose rows at random, the same ones on every machine."""
    return _mixed(hashes ^ np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of 64-bit values (the finalizer of SplitMix64, Steele et al. 2014)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))


def _rows_of(path: Path, table: int) -> NDArray[np.uint32]:
    tables = map_array(beside(path, "tables"), np.uint32)
    start, end = np.searchsorted(tables, [table, table + 1]).tolist()
    return map_array(beside(path, "rows"), np.uint32)[start:end]


# ----------------------------------------------------------------------------------------------------------- encoding


def store(task: dict[str, Any]) -> dict[str, Any]:
    """Write the selected rows of a table that aren't in the development set as store `shard`.

    Returns what `write_rows` does, the number of rows that are in the development set, and the SHA-256 of each file.
    Raises `TrainingError`.
    """
    table, out = Path(task["folder"]) / task["table"], Path(task["out"])
    rows, held_out = training_rows(table, task["seed"])
    result = write_rows(table, rows, out / task["shard"], task["longest"], task["workers"])
    names = sorted(path.name for path in out.glob(f"{task['shard']}.*"))
    return {**result, "held_out": held_out, "files": {name: file_sha256(out / name) for name in names}}


def write_rows(table: Path, rows: NDArray[np.int64], out: Path, longest: int, workers: int = 1) -> dict[str, int]:
    """Encode rows of a table into the store `out`, by the subwords in its folder and in that many processes.

    Rows of more than `longest` subwords on a side, with the end symbol, are left out; `OUT.rows` beside the table says
    which aren't. Returns the numbers of rows, of those left out and of unknown subwords. Raises `TrainingError`.
    """
    chosen, unknown, fits = table.with_name(f"{out.name}.rows"), 0, [np.zeros(0, bool)]
    save_array(chosen, rows)
    jobs = [
        EncodingJob(
            text=str(beside(table, side)),
            rows=str(chosen),
            tokens=str(out.parent),
            side=side,
            out=str(table.with_name(f"{out.name}.{side}.part")),
            start=0,
            stop=len(rows),
        )
        for side in SIDES
    ]
    parts = encode(jobs, workers)
    opened = [[open_part(part) for part in side] for side in parts]
    with (
        RaggedWriter(beside(out, "source"), opened[0][0].values.dtype) as sources,
        RaggedWriter(beside(out, "target"), opened[1][0].values.dtype) as targets,
    ):
        for source, target in zip(*opened, strict=True):
            fits.append((source.lengths <= longest) & (target.lengths < longest))
            fitting = np.flatnonzero(fits[-1])
            for start in range(0, len(fitting), _BLOCK):
                for side, writer in ((source, sources), (target, targets)):
                    values, lengths = gather(side, fitting[start : start + _BLOCK])
                    unknown += int(np.count_nonzero(values == UNK))
                    writer.append(values, lengths)
        written = rows[np.concatenate(fits)]
        save_array(chosen, written)
        for name, kind in (("lines", np.int64), ("files", np.uint16)):
            values = map_array(beside(table, name), kind)[written]
            save_array(beside(out, name), values)
    for part in (part for side in parts for part in side):
        remove_part(part)
    return {"rows": len(written), "too_long": len(rows) - len(written), "unknown": unknown}
