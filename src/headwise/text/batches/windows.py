"""Windows of a long text as training batches.

All windows of an epoch together cover the text once. Where they begin is shifted from epoch to epoch, so that no token
always stands at the same place; the shift and the order are a function of the seed and the epoch alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.data.stream import Epoch, ResumableStream
from headwise.errors import DataError
from headwise.text.datasets.monolingual import PreparedText, TextStore


@dataclass(frozen=True)
class WindowBatch:
    """Windows of equal length; `inputs` are one token behind `outputs`. Tensors are int64 on the CPU."""

    inputs: torch.Tensor  # (batch, time)
    outputs: torch.Tensor  # (batch, time)
    starts: NDArray[np.int64]  # (batch,) where each window's outputs begin in the text
    prefix: torch.Tensor | None = None  # (batch,) first inputs that all positions see; they are not predicted

    @property
    def predicted(self) -> torch.Tensor | None:
        """Which outputs are to be predicted, (batch, time) bool; None for all of them."""
        if self.prefix is None:
            return None
        # Output t is input t + 1: up to the prefix's end it has been seen.
        return torch.arange(1, self.outputs.size(1) + 1) >= self.prefix[:, None]

    @property
    def target_tokens(self) -> int:
        """Outputs to be predicted."""
        predicted = self.predicted
        return self.outputs.numel() if predicted is None else int(predicted.sum())


def make_windows(
    ids: NDArray[Any], starts: NDArray[np.int64], length: int, first: int, prefix: torch.Tensor | None = None
) -> WindowBatch:
    """Read windows of `length` outputs from a text; `first` is the input that its first token is predicted from."""
    positions = starts[:, None] + np.arange(-1, length)
    tokens = ids[np.maximum(positions, 0)].astype(np.int64)  # (batch, length + 1)
    tokens[positions < 0] = first
    both = torch.from_numpy(tokens)
    return WindowBatch(both[:, :-1], both[:, 1:], starts, prefix)


def plan_windows(
    tokens: int, length: int, rows: int, *, seed: int, epoch: int, world: int = 1
) -> list[NDArray[np.int64]]:
    """Cut a text of so many tokens into windows for one epoch; returns the starts of each batch's windows.

    A batch has at most `rows` windows (one more where few of them are shared out), and each of `world` ranks gets as
    many batches. Only the first and the last window may overlap with their neighbors, as all have the same length.

    Raises:
        DataError: there are fewer windows than ranks.
    """
    random = np.random.default_rng([seed, epoch])
    shift = int(random.integers(length))
    starts = np.unique(np.clip(np.arange(shift - length, tokens, length), 0, max(tokens - length, 0)))
    if len(starts) < world:
        raise DataError(
            f"expected at least one window of text for each of {world} processes, found {len(starts)}"
        )
    batches = -(-len(starts) // (rows * world)) * world
    return np.array_split(random.permutation(starts), min(batches, len(starts) // world * world))


class WindowStream(ResumableStream[WindowBatch]):
    """Training batches of windows, all of which together cover the text once an epoch."""

    name = "windows"

    def __init__(
        self,
        prepared: PreparedText,
        length: int,
        tokens: int,
        *,
        first: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        prefix: bool = False,
    ) -> None:
        """Start at the beginning of epoch 0.

        Args:
            prepared: the text.
            length: tokens predicted in each window, or as many as the text has.
            tokens: budget of a batch.
            first: the id that the first token of the text is predicted from.
            seed: of the order of the windows.
            rank: which process of `world` this is.
            world: number of processes.
            prefix: draw for each window how many of its first tokens are given, up to all but one.
        """
        self._ids, self._first, self._prefix = prepared.train.ids, first, prefix
        self._length = min(length, len(self._ids))
        self._rows = max(1, tokens // self._length)
        identity = {
            "length": self._length,
            "tokens": tokens,
            "seed": seed,
            "world": world,
            "prefix": prefix,
            **prepared.identity(),
        }
        super().__init__(identity, seed=seed, rank=rank, world=world)

    def epochs(self, first: int) -> Generator[Epoch[WindowBatch], None, None]:  # noqa: D102
        for epoch in itertools.count(first):
            plan = plan_windows(
                len(self._ids), self._length, self._rows, seed=self.seed, epoch=epoch, world=self.world
            )
            yield plan[self.rank :: self.world], functools.partial(self.make, epoch)

    def make(self, epoch: int, index: int, starts: NDArray[np.int64]) -> WindowBatch:
        """Read the windows that begin at `starts`: batch `index` of an epoch."""
        prefix = None
        if self._prefix:
            prefix = torch.from_numpy(self.random(epoch, index).integers(0, self._length, len(starts)))
        return make_windows(self._ids, starts, self._length, self._first, prefix)


def scoring_windows(tokens: int, length: int, stride: int) -> Iterator[tuple[int, int]]:
    """Cut a text for scoring, each token once: yields (start, first) of windows whose outputs from `first` on count.

    Windows move on by `stride`, so that all but the first `length` tokens are predicted from at least
    length - stride earlier ones.
    """
    done = 0
    while done < tokens:
        end = min(tokens, length if done == 0 else done + stride)
        start = max(0, end - length)
        yield start, done
        done = end


def rows_of(store: TextStore, batch: WindowBatch) -> NDArray[np.int64]:
    """Return the rows of the store that a batch's windows touch, for messages."""
    ends = batch.starts + batch.outputs.size(1) - 1
    spans = zip(store.rows_at(batch.starts).tolist(), store.rows_at(ends).tolist(), strict=True)
    return np.unique(np.concatenate([np.arange(start, end + 1) for start, end in spans]))
