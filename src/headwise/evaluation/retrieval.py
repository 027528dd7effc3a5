"""Retrieval metric: top-k accuracy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def accuracy_at(similarities: NDArray[np.floating], k: int) -> float:
    """Return the percentage of queries (rows) whose correct item (the diagonal) is among the k most similar ones.

    Ties count against the query: an item as similar as the correct one ranks above it.
    """
    own = np.diag(similarities)[:, None]
    rank = (similarities >= own).sum(axis=1)  # 1 where no other item is as similar
    return 100.0 * float((rank <= k).mean())
