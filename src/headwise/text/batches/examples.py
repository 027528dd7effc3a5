"""Batches of examples: rows of ids with targets of their own, padded on the right.

Which rows an epoch has, how they are grouped, and everything drawn for a batch is a function of the seed, the epoch and
the batch's number alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.data.plans import plan_rows
from headwise.data.stream import Epoch, ResumableStream
from headwise.text.tokens.subwords import EOS, PAD


@dataclass(frozen=True)
class RowBatch:
    """Rows padded on the right; tensors are on the CPU."""

    ids: torch.Tensor  # (batch, time) int64
    mask: torch.Tensor  # (batch, time) bool, True = real
    targets: torch.Tensor  # (batch, targets) int64; -1 where there is none
    rows: list[int]  # which they are, for messages

    @property
    def target_tokens(self) -> int:
        """Targets that the loss is summed over."""
        return int((self.targets >= 0).sum())

    @property
    def segments(self) -> torch.Tensor:
        """0 up to the first EOS of a row, 1 after it; (batch, time)."""
        ends = (self.ids == EOS).long()
        return (ends.cumsum(dim=1) - ends).clamp(max=1)


def make_rows(ids: Sequence[Any], targets: Sequence[Any], rows: Sequence[int]) -> RowBatch:
    """Pad rows of ids and their targets."""
    lengths = torch.tensor([len(row) for row in ids])
    return RowBatch(
        padded(ids),
        torch.arange(int(lengths.max())) < lengths[:, None],
        padded(targets, -1),
        [int(row) for row in rows],
    )


def padded(rows: Sequence[Any], value: int = PAD) -> torch.Tensor:
    """Return rows of ids as (batch, time) int64, the shorter ones filled up on the right."""
    result = np.full((len(rows), max(map(len, rows))), value, np.int64)
    for place, row in enumerate(rows):
        result[place, : len(row)] = row
    return torch.from_numpy(result)


class RowStream(ResumableStream[RowBatch]):
    """Training batches of rows of similar length within a budget of tokens."""

    def __init__(
        self,
        lengths: Callable[[int], NDArray[Any]],
        make: Callable[[int, NDArray[np.int64], np.random.Generator], RowBatch],
        tokens: int,
        *,
        seed: int,
        identity: dict[str, Any],
        rank: int = 0,
        world: int = 1,
    ) -> None:
        """Start at the beginning of epoch 0.

        Args:
            lengths: of an epoch's rows.
            make: a batch of some of an epoch's rows, from what it draws.
            tokens: budget of a batch.
            seed: of the order, and of all that is drawn.
            identity: what a position is a position in, besides all this; JSON values.
            rank: which process of `world` this is.
            world: number of processes.
        """
        self._lengths, self._make, self._tokens = lengths, make, tokens
        whole = {"tokens": tokens, "seed": seed, "world": world, **identity}
        super().__init__(whole, seed=seed, rank=rank, world=world)

    def epochs(self, first: int) -> Generator[Epoch[RowBatch], None, None]:  # noqa: D102
        for epoch in itertools.count(first):
            lengths = self._lengths(epoch)
            plan = plan_rows(lengths, self._tokens, seed=self.seed, epoch=epoch, world=self.world)
            yield plan[self.rank :: self.world], functools.partial(self._draw, epoch)

    def _draw(self, epoch: int, index: int, rows: NDArray[np.int64]) -> RowBatch:
        return self._make(epoch, rows, self.random(epoch, index))
