"""Sampling from the model's distribution; `headwise.engine.uniforms` has the random numbers.

Shapes: v vocabulary, c candidate tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.decoding.selection import top

_NUCLEUS = 64  # likeliest tokens in the first attempt to find the nucleus


def shaped(log_probs: Tensor, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> tuple[Tensor, Tensor]:
    """Apply temperature, top-k and top-p to log-probabilities (…, v).

    Returns the probabilities (float64) of the candidate tokens and their ids, both (…, c). First the temperature T:
    p^(1/T), renormalized. Then the `top_k` likeliest tokens are kept, renormalized. Then the fewest of these whose
    probabilities add up to `top_p` (Holtzman et al. 2020, "The curious case of neural text degeneration", section
    3.1), renormalized. Of equally likely tokens the lower id is kept.
    """
    size = log_probs.shape[-1]
    scaled = log_probs.double() / temperature
    if top_k:
        tokens = top(log_probs, min(top_k, size))
        probabilities = torch.softmax(scaled.gather(-1, tokens), dim=-1)
        return _nucleus(probabilities, top_p), tokens
    probabilities = torch.softmax(scaled, dim=-1)
    if top_p >= 1.0:
        return probabilities, torch.arange(size, device=log_probs.device).expand_as(probabilities)
    candidates = min(_NUCLEUS, size)  # most nuclei are small, so try few tokens before sorting all
    while True:
        tokens = top(log_probs, candidates)
        ranked = probabilities.gather(-1, tokens)
        if candidates == size or bool((ranked.sum(-1) >= top_p).all()):
            return _nucleus(ranked, top_p), tokens
        candidates = min(8 * candidates, size)


def _nucleus(ranked: Tensor, top_p: float) -> Tensor:
    """Keep the fewest of the sorted probabilities (…, c) that add up to `top_p`, renormalized; the others become 0."""
    likelier_mass = ranked.cumsum(-1) - ranked  # 0 for the first token, which is always kept
    kept = ranked.masked_fill(likelier_mass >= top_p, 0.0)
    return kept / kept.sum(-1, keepdim=True)


def draw(probabilities: Tensor, numbers: Tensor) -> Tensor:
    """Draw one index (…) from each distribution (…, c) by inverting its cumulative sum at `numbers` (…)."""
    cumulative = probabilities.cumsum(-1)
    total = cumulative[..., -1:]
    below = torch.nextafter(total, torch.zeros_like(total))
    threshold = torch.minimum(numbers[..., None] * total, below)
    indices = torch.searchsorted(cumulative, threshold, right=True)[..., 0]
    return indices.clamp(max=probabilities.shape[-1] - 1)  # the index is too large only where there is NaN
