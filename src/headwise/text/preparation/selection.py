"""Selection of the rows that are left of a table: without duplicates, with their share of samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.data.hashing import mix_hashes
from headwise.data.ragged import map_array, save_array
from headwise.files import disk_errors


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
