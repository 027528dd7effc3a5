"""Random numbers of samples, the same in any batch and any engine.

Every sentence has its own stream of random numbers, derived from the seed and the sentence itself, and every sample of
a sentence has its own stream within it. So a sample doesn't depend on the batch, the order of the sentences, or the
number of samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def uniforms(sentence: Sequence[int], samples: int, steps: int, seed: int) -> NDArray[np.float64]:
    """Return uniform random numbers in [0, 1) for each sample and step of a sentence, (samples, steps)."""
    text = f"{seed}:{' '.join(map(str, sentence))}"
    entropy = int.from_bytes(hashlib.sha256(text.encode()).digest(), "little")
    streams = (np.random.SeedSequence(entropy, spawn_key=(sample,)) for sample in range(samples))
    return np.stack([np.random.default_rng(stream).random(steps) for stream in streams])
