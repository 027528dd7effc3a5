"""Looking ids up in a table of embeddings."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from headwise.errors import DataError


def look_up(ids: Tensor, table: Tensor) -> Tensor:
    """Return the rows (…, d_model) of a table (size, d_model) that ids (…) name.

    Raises `DataError` for an id that the table hasn't. On a GPU the device itself stops the process instead, as to
    look would mean to wait for it.
    """
    try:
        return functional.embedding(ids, table)
    except IndexError:
        low, high = torch.stack(ids.aminmax()).tolist()
        raise DataError(
            f"expected ids from 0 to {len(table) - 1}, found {low if low < 0 else high}"
        ) from None
