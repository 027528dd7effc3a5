"""Files and lines of prepared examples, for messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def locate(
    rows: Sequence[int] | NDArray[Any],
    files: NDArray[Any],
    lines: NDArray[Any],
    names: Sequence[str],
    most: int = 10,
) -> str:
    """Return the files and lines of `rows`, such as `train.en lines 3, 17 and 40`; at most `most` lines are listed.

    Row i comes from line `lines[i]` (from 1) of file `names[files[i]]`.
    """
    indices = np.asarray(rows, np.int64)
    places = np.unique(np.stack([files[indices], lines[indices]], axis=1).astype(np.int64), axis=0)
    phrases = []
    for file in np.unique(places[:most, 0]).tolist():
        numbers = [str(line) for line in places[:most][places[:most, 0] == file, 1].tolist()]
        several = f"lines {', '.join(numbers[:-1])} and {numbers[-1]}"
        phrases.append(f"{names[file]} {several if len(numbers) > 1 else f'line {numbers[0]}'}")
    more = f" and {len(places) - most:,} more" if len(places) > most else ""
    return "; ".join(phrases) + more
