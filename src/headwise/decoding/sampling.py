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

from headwise.decoding.beam.selection import top

_NUCLEUS = 64  # tokens among which the nucleus is sought first


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


def shaped(
    log_probs: Tensor, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return the tokens to draw from and their probabilities, float64, both (…, c), given log-probabilities (…, v).

    First the temperature T: p^(1/T), renormalized. Then the `top_k` likeliest tokens stay, renormalized. Then the
    fewest of these whose probabilities add up to `top_p` (Holtzman et al. 2020, "The curious case of neural text
    degeneration", section 3.1), renormalized. Of equally likely tokens the lower id stays.
    """
    size = log_probs.shape[-1]
    warmed = log_probs.double() / temperature
    if top_k and top_k < size:
        tokens = top(log_probs, top_k)
        probabilities = torch.softmax(warmed.gather(-1, tokens), dim=-1)
        return _nucleus(probabilities, top_p), tokens
    probabilities = torch.softmax(warmed, dim=-1)
    if top_p >= 1.0:
        return probabilities, torch.arange(size, device=log_probs.device).expand_as(probabilities)
    count = min(_NUCLEUS, size)  # most nuclei are small, so look among few tokens before sorting them all
    while True:
        tokens = top(log_probs, count)
        ranked = probabilities.gather(-1, tokens)
        if count == size or bool((ranked.sum(-1) >= top_p).all()):
            return _nucleus(ranked, top_p), tokens
        count = min(8 * count, size)


def _nucleus(ranked: Tensor, top_p: float) -> Tensor:
    """Keep the fewest of the ranked probabilities (…, c) that add up to `top_p`, renormalized."""
    before = ranked.cumsum(-1) - ranked  # probability of the likelier tokens; 0 for the first, which stays
    kept = ranked.masked_fill(before >= top_p, 0.0)
    return kept / kept.sum(-1, keepdim=True)


def draw(probabilities: Tensor, numbers: Tensor) -> Tensor:
    """Return one place (…) in each distribution (…, c), by inverting its cumulative sum at `numbers` (…)."""
    cumulative = probabilities.cumsum(-1)
    total = cumulative[..., -1:]
    below = torch.nextafter(total, torch.zeros_like(total))
    threshold = torch.minimum(numbers[..., None] * total, below)
    found = torch.searchsorted(cumulative, threshold, right=True)[..., 0]
    return found.clamp(max=probabilities.shape[-1] - 1)  # only NaN lies beyond the last
