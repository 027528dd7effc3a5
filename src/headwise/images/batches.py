"""Training batches of images, and data augmentation by random shifts and flips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.data.stream import Batch, PlannedStream


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
        result = padded.transpose(0, 2, 3, 1)[index, rows[:, :, None], columns[:, None, :]].transpose(0, 3, 1, 2)
    if flip:
        flipped = random.random(count) < 0.5
        result = np.where(flipped[:, None, None, None], result[:, :, :, ::-1], result)
    return result


def draws(
    count: int,
    rows: int,
    make: Callable[[NDArray[np.int64], np.random.Generator], Batch],
    *,
    identity: dict[str, Any],
    seed: int,
) -> PlannedStream[Batch]:
    """Return training batches of up to `rows` of `count` examples, each once per epoch, in a new random order.

    `make` builds a batch from example indices and a random generator; for the others see `PlannedStream`.
    """

    def plan(epoch: int) -> list[NDArray[np.int64]]:
        order = np.random.default_rng([seed, epoch]).permutation(count)
        return np.array_split(order, -(-count // rows))

    identity = {"rows": rows, **identity}
    return PlannedStream(plan, lambda epoch, chosen, random: make(chosen, random), identity=identity, seed=seed)
