"""Rows of ids as padded training batches, in an order that a run can leave and take up again.

Which rows an epoch has, how they are grouped, and everything drawn for a batch is a function of the seed, the epoch and
the batch's number alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.data.position import check_index, read_position
from headwise.text.batches.pairs import plan_batches, share_out
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


def plan_rows(
    lengths: NDArray[Any], tokens: int, *, seed: int, epoch: int, world: int = 1
) -> list[NDArray[np.int64]]:
    """Group rows of similar length into batches of at most `tokens`, padding included; each row is in one.

    A row longer than that is a batch by itself. Raises `DataError` where there are fewer rows than ranks.
    """
    tokens = max(tokens, int(lengths.max()))
    return share_out(plan_batches(lengths, lengths, tokens, seed=seed, epoch=epoch), world)


class RowStream:
    """An endless stream of batches, whose position can be saved and restored.

    Rank r of `world` gets batches r, r + world, …; `epoch` and `index` say which batch comes next.
    """

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
        self._seed, self._rank, self._world = seed, rank, world
        self.epoch = self.index = 0
        self._plan: list[NDArray[np.int64]] | None = None
        self._identity = {"tokens": tokens, "seed": seed, "world": world, **identity}

    def __iter__(self) -> Iterator[RowBatch]:
        """The stream itself; it never ends."""
        return self

    def __next__(self) -> RowBatch:
        """The next batch; raises `DataError` where there are fewer rows than ranks."""
        if self._plan is None:
            lengths = self._lengths(self.epoch)
            plan = plan_rows(lengths, self._tokens, seed=self._seed, epoch=self.epoch, world=self._world)
            self._plan = plan[self._rank :: self._world]
            check_index(self.index, self._plan, self.epoch)
        random = np.random.default_rng([self._seed, self.epoch, self.index, self._rank])
        batch = self._make(self.epoch, self._plan[self.index], random)
        self.index += 1
        if self.index == len(self._plan):
            self.epoch, self.index, self._plan = self.epoch + 1, 0, None
        return batch

    def state(self) -> dict[str, Any]:
        """The position after the batches given out so far, and what it is a position in; fit for JSON."""
        return {"epoch": self.epoch, "index": self.index, **self._identity}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a saved position; raises `CheckpointError` where it is one in other batches."""
        self.epoch, self.index = read_position(state, self._identity)
        self._plan = None

    def close(self) -> None:
        """Nothing is made ahead."""
