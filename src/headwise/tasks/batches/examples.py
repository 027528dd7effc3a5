"""Batches of id sequences with targets, padded on the right.

The sequences of an epoch, their grouping into batches, and all random numbers of a batch depend on the seed, the epoch
and the batch index alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.data.plans import plan_rows
from headwise.data.stream import PlannedStream
from headwise.text.tokens.subwords import EOS, PAD


@dataclass(frozen=True)
class RowBatch:
    """Sequences of one training step, padded on the right; tensors are on the CPU."""

    ids: torch.Tensor  # (batch, time) int64
    mask: torch.Tensor  # (batch, time) bool, True = not padding
    targets: torch.Tensor  # (batch, targets) int64; -1 = no target
    rows: list[int]  # indices of the sequences, for messages

    @property
    def target_tokens(self) -> int:
        """Return the number of targets that the loss is summed over."""
        return int((self.targets >= 0).sum())

    @property
    def segments(self) -> torch.Tensor:
        """Return segment ids (batch, time): 0 up to and including the first EOS of a sequence, 1 after it."""
        ends = (self.ids == EOS).long()
        return (ends.cumsum(dim=1) - ends).clamp(max=1)


def make_rows(ids: Sequence[Any], targets: Sequence[Any], rows: Sequence[int]) -> RowBatch:
    """Build a padded batch of id sequences and their targets; `rows` are their indices."""
    lengths = torch.tensor([len(row) for row in ids])
    return RowBatch(
        padded(ids),
        torch.arange(int(lengths.max())) < lengths[:, None],
        padded(targets, -1),
        [int(row) for row in rows],
    )


def padded(sequences: Sequence[Any], value: int = PAD) -> torch.Tensor:
    """Pad sequences on the right to a tensor (batch, time) int64."""
    result = np.full((len(sequences), max(map(len, sequences))), value, np.int64)
    for index, sequence in enumerate(sequences):
        result[index, : len(sequence)] = sequence
    return torch.from_numpy(result)


def row_stream(
    lengths: Callable[[int], NDArray[Any]],
    make: Callable[[int, NDArray[np.int64], np.random.Generator], RowBatch],
    tokens: int,
    *,
    identity: dict[str, Any],
    seed: int,
) -> PlannedStream[RowBatch]:
    """Return batches of sequences of similar length, each of up to `tokens` tokens with its padding.

    `lengths` returns the lengths of the sequences of an epoch; for the others see `PlannedStream`.
    """

    def plan(epoch: int) -> list[NDArray[np.int64]]:
        return plan_rows(lengths(epoch), tokens, seed=seed, epoch=epoch)

    identity = {"tokens": tokens, **identity}
    return PlannedStream(plan, make, identity=identity, seed=seed)
