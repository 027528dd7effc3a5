"""Base class of sequence mixers: self-attention, and layers that replace it."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from headwise.nn.cache import Cache

# Bidirectional self-attention, causal self-attention, or attention over another sequence.
Role = Literal["self", "causal", "cross"]


class SequenceMixer(nn.Module):
    """The sub-layer that exchanges information between positions."""

    def forward(self, x: Tensor, mask: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """Mix x (batch, time, d_model) with itself and the cached earlier positions, under a mask over keys."""
        raise NotImplementedError

    def new_cache(self) -> Cache:
        """Return an empty cache for incremental decoding."""
        raise NotImplementedError
