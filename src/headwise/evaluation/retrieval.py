"""Retrieval: how often the right item is among the k most similar ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def accuracy_at(similarities: NDArray[np.floating], k: int) -> float:
    """Percent of queries (rows) whose own item (the diagonal) is among the k most similar ones.

    What is as similar as the own item counts as more similar: ties are no merit.
    """
    own = np.diag(similarities)[:, None]
    rank = (similarities >= own).sum(axis=1)  # 1 where nothing else comes near
    return 100.0 * float((rank <= k).mean())
