"""Batches of sequences of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yield batches of sentence indices, longest first; sentences times the longest length is at most `tokens`.

    A sentence that is longer than `tokens` is a batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        size = max(1, tokens // lengths[order[start]])
        yield order[start : start + size]
        start += size


def padded(sequences: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ids (batch, length), padded on the right, and a mask (batch, length) that is True on real tokens."""
    width = max(map(len, sequences))
    ids = torch.tensor([[*sequence, *[pad] * (width - len(sequence))] for sequence in sequences], device=device)
    lengths = torch.tensor([len(sequence) for sequence in sequences], device=device)
    return ids, torch.arange(width, device=device) < lengths[:, None]
