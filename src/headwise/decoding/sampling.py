"""Random draws from the model's distribution, the same in any batch.

Every sentence has its own stream of random numbers, derived from the seed and from the sentence itself, and
every sample of a sentence its own stream within it. So neither the batch, nor the order of the sentences, nor
the number of samples asked for changes a sample.

Shapes: n sentences, k samples each, v vocabulary, t steps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def uniforms(sentences: Sequence[Sequence[int]], samples: int, steps: int, seed: int) -> Tensor:
    """Return random numbers in [0, 1) for each sentence, sample and step: float64 (n, k, t)."""
    numbers = np.empty((len(sentences), samples, steps))
    for row, sentence in enumerate(sentences):
        text = f"{seed}:{' '.join(map(str, sentence))}"
        entropy = int.from_bytes(hashlib.sha256(text.encode()).digest(), "little")
        for sample in range(samples):
            stream = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(sample,)))
            numbers[row, sample] = stream.random(steps)
    return torch.from_numpy(numbers)


def shaped(log_probs: Tensor, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """Return the probabilities to draw from, float64 (…, v), given log-probabilities (…, v).

    First the temperature T: p^(1/T), renormalized. Then the `top_k` likeliest tokens stay, renormalized.
    Then the fewest of these whose probabilities add up to `top_p` (Holtzman et al. 2020, "The curious case
    of neural text degeneration", section 3.1), renormalized. Of equally likely tokens the lower id stays.
    """
    probabilities = torch.softmax(log_probs.double() / temperature, dim=-1)
    if not top_k and top_p >= 1.0:
        return probabilities
    ranked, tokens = probabilities.sort(dim=-1, descending=True, stable=True)
    if top_k:
        ranked[..., top_k:] = 0.0
        ranked = ranked / ranked.sum(-1, keepdim=True)
    before = ranked.cumsum(-1) - ranked  # probability of the likelier tokens; 0 for the first, which stays
    ranked = ranked.masked_fill(before >= top_p, 0.0)
    return torch.zeros_like(ranked).scatter(-1, tokens, ranked / ranked.sum(-1, keepdim=True))


def draw(probabilities: Tensor, numbers: Tensor) -> Tensor:
    """Return one token (…) for each distribution (…, v), by inverting its cumulative sum at `numbers` (…)."""
    cumulative = probabilities.cumsum(-1)
    total = cumulative[..., -1:]
    below = torch.nextafter(total, torch.zeros_like(total))
    threshold = torch.minimum(numbers[..., None] * total, below)
    found = torch.searchsorted(cumulative, threshold, right=True)[..., 0]
    return found.clamp(max=probabilities.shape[-1] - 1)  # only NaN lies beyond the last
