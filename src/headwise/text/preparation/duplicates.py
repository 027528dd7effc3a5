"""Duplicates in a corpus that is larger than memory: sorted keys on the disk, compared range by range.

Near duplicates are found by MinHash and locality-sensitive hashing (Broder 1997; Leskovec, Rajaraman and Ullman 2014,
section 3.4). A text is reduced to its words, without case, digits and punctuation, and to the set of its substrings of
8 bytes. Each of `BANDS` bands hashes `PER_BAND` minima under random hash functions; two texts of Jaccard similarity s
agree in one of the bands with probability 1 - (1 - s^PER_BAND)^BANDS: 0.03 at s = 0.5, 0.49 at 0.72, 0.95 at 0.86.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.data.hashing import mixed
from headwise.data.ragged import map_array, save_array
from headwise.files import disk_errors

BANDS, PER_BAND = 9, 8
_GRAM = 8  # bytes of a substring
_CHUNK = 1 << 16  # substrings hashed at a time
_NOT_WORDS = re.compile(r"[\W\d_]+")


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
