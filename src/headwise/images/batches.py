"""Training batches of images, and data augmentation by random shifts and flips."""

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
    """Shift each of the images (count, channels, height, width) at random by up to `shift` pixels; flip half of them.

    Pixels shifted in at the edges are 0. The number of random draws depends on the number of images only.
    """
    count, _, height, width = images.shape
    result = images
    if shift:
        padded = np.pad(images, ((0, 0), (0, 0), (shift, shift), (shift, shift)))
        top, left = random.integers(0, 2 * shift + 1, (2, count))
        rows = top[:, None] + np.arange(height)  # (count, height)
        columns = left[:, None] + np.arange(width)
        index = np.arange(count)[:, None, None]
        result = padded.transpose(0, 2, 3, 1)[index, rows[:, :, None], columns[:, None, :]].transpose(
            0, 3, 1, 2
        )
    if flip:
        flipped = random.random(count) < 0.5
        result = np.where(flipped[:, None, None, None], result[:, :, :, ::-1], result)
    return result


class RowDraws(ResumableStream[Batch]):
    """Training batches of a fixed number of examples, in a new random order each epoch; each example once per epoch."""

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
            count: number of examples.
            rows: maximum number of examples in a batch.
            make: makes a batch from example indices, with a random generator.
            seed: seed of all random choices.
            identity: further data and settings that determine the batches, as JSON values.
            rank: data-parallel rank of this process.
            world: number of data-parallel processes.
        """
        self._count, self._rows, self._make = count, rows, make
        full_identity = {"rows": rows, "seed": seed, "world": world, **identity}
        super().__init__(full_identity, seed=seed, rank=rank, world=world)

    def epochs(self, first: int) -> Generator[Epoch[Batch], None, None]:  # noqa: D102
        for epoch in itertools.count(first):
            order = np.random.default_rng([self.seed, epoch]).permutation(self._count)
            plan = share_out(np.array_split(order, -(-self._count // self._rows)), self.world)
            yield plan[self.rank :: self.world], functools.partial(self._batch, epoch)

    def _batch(self, epoch: int, index: int, rows: NDArray[np.int64]) -> Batch:
        return self._make(rows, self.random(epoch, index))
