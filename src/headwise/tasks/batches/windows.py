"""Batches of fixed-length windows of a long text, for language modeling.

The windows of an epoch together cover the text once. Their boundaries are shifted from epoch to epoch, so that tokens
change their position in the window; shift and order depend on the seed and the epoch alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.data.stream import PlannedStream
from headwise.text.preparation.monolingual import PreparedText, TextStore


@dataclass(frozen=True)
class WindowBatch:
    """Windows of equal length; `inputs` are `outputs` shifted right by one token. Tensors are int64 on the CPU."""

    inputs: torch.Tensor  # (batch, time)
    outputs: torch.Tensor  # (batch, time)
    starts: NDArray[np.int64]  # (batch,) position in the text of each window's first output
    prefix: torch.Tensor | None = None  # (batch,) length of the prefix, which all see and none predicts

    @property
    def predicted(self) -> torch.Tensor | None:
        """Return a mask of the predicted outputs, (batch, time) bool; None means all."""
        if self.prefix is None:
            return None
        # Output t is input t + 1, which is visible inside the prefix.
        return torch.arange(1, self.outputs.size(1) + 1) >= self.prefix[:, None]

    @property
    def target_tokens(self) -> int:
        """Return the number of predicted outputs."""
        predicted = self.predicted
        return self.outputs.numel() if predicted is None else int(predicted.sum())


def make_windows(
    ids: NDArray[Any], starts: NDArray[np.int64], length: int, first: int, prefix: torch.Tensor | None = None
) -> WindowBatch:
    """Build a batch of windows of `length` outputs; `first` is the input that predicts the first token of the text."""
    positions = starts[:, None] + np.arange(-1, length)
    tokens = ids[np.maximum(positions, 0)].astype(np.int64)  # (batch, length + 1)
    tokens[positions < 0] = first
    window_ids = torch.from_numpy(tokens)
    return WindowBatch(window_ids[:, :-1], window_ids[:, 1:], starts, prefix)


def plan_windows(tokens: int, length: int, rows: int, *, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """Split a text of `tokens` tokens into windows for one epoch; returns the window starts of each batch.

    A batch has at most `rows` windows. All windows have the same length, so the first and the last may overlap with
    their neighbors.
    """
    random = np.random.default_rng([seed, epoch])
    shift = int(random.integers(length))
    starts = np.unique(np.clip(np.arange(shift - length, tokens, length), 0, max(tokens - length, 0)))
    return np.array_split(random.permutation(starts), -(-len(starts) // rows))


def window_stream(
    prepared: PreparedText,
    length: int,
    tokens: int,
    *,
    first: int,
    seed: int,
    prefix: bool = False,
) -> PlannedStream[WindowBatch]:
    """Return batches of up to `tokens` tokens in windows of `length` that together cover the text once per epoch.

    `first` is the input id that predicts the first token of the text. With `prefix`, each window gets a random prefix
    length, from 0 to all tokens but one (prefix language model). For the others see `PlannedStream`.
    """
    ids = prepared.train.ids
    length = min(length, len(ids))
    rows = max(1, tokens // length)

    def plan(epoch: int) -> list[NDArray[np.int64]]:
        return plan_windows(len(ids), length, rows, seed=seed, epoch=epoch)

    def make(_: int, starts: NDArray[np.int64], random: np.random.Generator) -> WindowBatch:
        drawn = torch.from_numpy(random.integers(0, length, len(starts))) if prefix else None
        return make_windows(ids, starts, length, first, drawn)

    identity = {"length": length, "tokens": tokens, "prefix": prefix, **prepared.identity()}
    return PlannedStream(plan, make, identity=identity, seed=seed, name="windows")


def scoring_windows(tokens: int, length: int, stride: int) -> Iterator[tuple[int, int]]:
    """Split a text for scoring each token once; yields (start, first) of windows, which score from `first` on.

    Windows advance by `stride`, so that all but the first `length` tokens are predicted with a context of at least
    length - stride tokens.
    """
    scored = 0
    while scored < tokens:
        end = min(tokens, length if scored == 0 else scored + stride)
        start = max(0, end - length)
        yield start, scored
        scored = end


def rows_of(store: TextStore, batch: WindowBatch) -> NDArray[np.int64]:
    """Return the row indices in the store that a batch's windows overlap, for messages."""
    ends = batch.starts + batch.outputs.size(1) - 1
    spans = zip(store.rows_at(batch.starts).tolist(), store.rows_at(ends).tolist(), strict=True)
    return np.unique(np.concatenate([np.arange(start, end + 1) for start, end in spans]))
