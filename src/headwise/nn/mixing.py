"""What lets the positions of a sequence see each other: self-attention, or a layer that stands in its place."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from headwise.nn.cache import Cache

# Over its own sequence, over its own sequence up to each position, or over another sequence.
Role = Literal["self", "causal", "cross"]


class SequenceMixer(nn.Module):
    """The part of a layer that looks at other positions than each one's own."""

    def forward(self, x: Tensor, mask: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """Mix x (batch, time, d_model), and what the cache holds of earlier positions, under a mask over keys."""
        raise NotImplementedError

    def new_cache(self, capacity: int = 32) -> Cache:
        """Return an empty cache for mixing step by step; `capacity` is a length hint."""
        raise NotImplementedError
