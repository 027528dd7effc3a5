"""Batches of images, moved and mirrored at random."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.data.plans import share_out
from headwise.data.stream import Batch, Epoch, ResumableStream


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


class RowDraws(ResumableStream[Batch]):
    """Training batches of so many rows, each row once an epoch."""

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
        whole = {"rows": rows, "seed": seed, "world": world, **identity}
        super().__init__(whole, seed=seed, rank=rank, world=world)

    def epochs(self, first: int) -> Generator[Epoch[Batch], None, None]:  # noqa: D102
        for epoch in itertools.count(first):
            order = np.random.default_rng([self.seed, epoch]).permutation(self._count)
            plan = share_out(np.array_split(order, -(-self._count // self._rows)), self.world)
            yield plan[self.rank :: self.world], functools.partial(self._draw, epoch)

    def _draw(self, epoch: int, index: int, rows: NDArray[np.int64]) -> Batch:
        return self._make(rows, self.random(epoch, index))
