"""Batches of images, moved and mirrored at random, in an order that a run can leave and take up again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from headwise.data.position import check_index, read_position
from headwise.text.batches.pairs import share_out

Batch = TypeVar("Batch")


def augment(images: NDArray[Any], shift: int, flip: bool, random: np.random.Generator) -> NDArray[Any]:
    """Move each of some images (count, channels, height, width) by up to `shift` pixels either way; mirror half.

    What comes in at an edge is 0. The draws are the same in number whatever the images.
    """
    count, _, height, width = images.shape
    result = images
    if shift:
        padded = np.pad(images, ((0, 0), (0, 0), (shift, shift), (shift, shift)))
        top, left = random.integers(0, 2 * shift + 1, (2, count))
        rows = top[:, None] + np.arange(height)  # (count, height)
        columns = left[:, None] + np.arange(width)
        every = np.arange(count)[:, None, None]
        result = padded.transpose(0, 2, 3, 1)[every, rows[:, :, None], columns[:, None, :]].transpose(
            0, 3, 1, 2
        )
    if flip:
        mirrored = random.random(count) < 0.5
        result = np.where(mirrored[:, None, None, None], result[:, :, :, ::-1], result)
    return result


class RowDraws(Generic[Batch]):
    """An endless stream of batches of rows, whose position can be saved and restored.

    Every epoch each row is in one batch. The order, and all that `make` draws for a batch, is a function of the seed,
    the epoch and the batch's number. Rank r of `world` gets batches r, r + world, …
    """

    def __init__(
        self,
        count: int,
        rows: int,
        make: Callable[[NDArray[np.int64], np.random.Generator], Batch],
        *,
        seed: int,
        identity: dict[str, Any],
        rank: int = 0,
        world: int = 1,
    ) -> None:
        """Start at the beginning of epoch 0.

        Args:
            count: of rows to draw from.
            rows: of a batch, at most.
            make: a batch of these rows; it may draw.
            seed: of all draws.
            identity: what a position is a position in, besides all this; JSON values.
            rank: which process of `world` this is.
            world: number of processes.
        """
        self._count, self._rows, self._make = count, rows, make
        self._seed, self._rank, self._world = seed, rank, world
        self.epoch = self.index = 0
        self._plan: list[NDArray[np.int64]] | None = None
        self._identity = {"rows": rows, "seed": seed, "world": world, **identity}

    def __iter__(self) -> Iterator[Batch]:
        """The stream itself; it never ends."""
        return self

    def __next__(self) -> Batch:
        """The next batch; raises `DataError` where there are fewer rows than ranks."""
        if self._plan is None:
            order = np.random.default_rng([self._seed, self.epoch]).permutation(self._count)
            plan = np.array_split(order, -(-self._count // self._rows))
            self._plan = share_out(plan, self._world)[self._rank :: self._world]
            check_index(self.index, self._plan, self.epoch)
        random = np.random.default_rng([self._seed, self.epoch, self.index, self._rank])
        batch = self._make(self._plan[self.index], random)
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
