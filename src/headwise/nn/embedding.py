"""Embedding lookup."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from headwise.errors import DataError


def look_up(ids: Tensor, table: Tensor) -> Tensor:
    """Return the embeddings (…, d_model) of ids (…) from a table (size, d_model).

    Raises `DataError` for an id outside the table. On a GPU, a device-side assertion ends the process instead, because
    checking the ids would need a synchronization.
    """
    try:
        return functional.embedding(ids, table)
    except IndexError:
        low, high = torch.stack(ids.aminmax()).tolist()
        raise DataError(
            f"expected ids from 0 to {len(table) - 1}, found {low if low < 0 else high}"
        ) from None
