"""Hashes that choose examples at random, the same ones on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def mix_hashes(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Permute 64-bit hashes by a seed (the finalizer of SplitMix64, Steele et al. 2014)."""
    return mixed(hashes ^ np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]))


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of 64-bit values."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))
