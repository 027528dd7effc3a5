"""Ids are within their vocabulary before any engine looks them up: one sentence for a mistake, the same from all.

A table read beyond its end is a crash in native code, an IndexError from PyTorch on the CPU, and a failed assertion on
a GPU that ends the process.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.errors import DataError


def check_ids(rows: Sequence[Sequence[int]], size: int, what: str, *, empty: bool = False) -> None:
    """Raise `DataError`, naming the row from 1, unless all ids are whole numbers from 0 to size - 1.

    A row without any is refused, too, unless `empty` allows it.
    """
    for number, row in enumerate(rows, start=1):
        if not len(row):
            if empty:
                continue
            raise DataError(f"{what} {number}: expected ids, the end symbol at least, found none")
        if set(map(type, row)) <= {int} and min(row) >= 0 and max(row) < size:
            continue
        for index in row:  # numpy's numbers, or a mistake
            if isinstance(index, bool) or not isinstance(index, int | np.integer):
                raise DataError(f"{what} {number}: expected ids that are whole numbers, found {index!r}")
            if not 0 <= index < size:
                raise DataError(f"{what} {number}: expected ids from 0 to {size - 1}, found {index}")


def check_tensor(ids: Tensor, size: int, what: str) -> None:
    """Raise `DataError` unless all ids of a tensor are whole numbers from 0 to size - 1."""
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise DataError(f"{what}: expected ids that are whole numbers, found {ids.dtype}")
    if not ids.numel():
        return
    for found in torch.stack(ids.aminmax()).tolist():
        if not 0 <= found < size:
            raise DataError(f"{what}: expected ids from 0 to {size - 1}, found {found}")


def check_lists(lists: Sequence[NDArray[np.int32]], sentences: int, size: int, eos: int) -> None:
    """Check the only tokens that each of so many sentences' outputs may hold; raises `DataError`.

    They are ids from 0 to size - 1 in ascending order, the end symbol among them.
    """
    if len(lists) != sentences:
        raise DataError(f"shortlist: expected a list for each of {sentences} sentences, found {len(lists)}")
    for number, listed in enumerate(lists, start=1):
        place = f"shortlist of sentence {number}"
        if listed.ndim != 1 or listed.dtype != np.int32:
            raise DataError(f"{place}: expected int32 ids, found {listed.dtype} of shape {listed.shape}")
        if len(listed) and (np.diff(listed) <= 0).any():
            raise DataError(f"{place}: expected ids in ascending order, found others")
        if len(listed) and (listed[0] < 0 or listed[-1] >= size):
            found = listed[0] if listed[0] < 0 else listed[-1]
            raise DataError(f"{place}: expected ids from 0 to {size - 1}, found {found}")
        if listed[np.searchsorted(listed, eos) :][:1].tolist() != [eos]:
            raise DataError(f"{place}: expected the end symbol {eos} among its ids, found none")
