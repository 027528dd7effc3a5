"""Batches of similar length that fill a budget of tokens, in an order that a run can leave and take up again.

A batch bounds the source tokens and the target tokens, padding included (the paper's section 5.1 gives both sides
about 25,000). Which rows go together, and in which order, is a function of the seed and the epoch alone.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.errors import CheckpointError, DataError
from headwise.text.arrays import gather
from headwise.text.store import ParallelStore
from headwise.text.subword import BOS, EOS, PAD

_AHEAD = 8  # batches made before they are asked for


@dataclass(frozen=True)
class Batch:
    """Sentence pairs of one training step, padded; all tensors on the CPU."""

    source: torch.Tensor  # (batch, source) int64 ids, EOS at the end
    source_mask: torch.Tensor  # (batch, source) bool, True = real token
    target_input: torch.Tensor  # (batch, target) int64, BOS + ids
    target_output: torch.Tensor  # (batch, target) int64, ids + EOS
    rows: list[int]  # rows of the store, for messages
    target_tokens: int  # real tokens of target_output


def make_batch(store: ParallelStore, rows: Sequence[int] | NDArray[Any]) -> Batch:
    """Read rows of the store and pad them to the longest, on the right."""
    rows = np.asarray(rows, np.int64)
    source_ids, source_lengths = gather(store.source_table, rows)
    target_ids, target_lengths = gather(store.target_table, rows)
    source_mask = _left_mask(source_lengths, int(source_lengths.max()))
    source = np.full(source_mask.shape, PAD, np.int64)
    source[source_mask] = source_ids
    target_mask = _left_mask(target_lengths, int(target_lengths.max()) + 1)  # one column more than there are ids
    target_output = np.full(target_mask.shape, PAD, np.int64)
    target_output[target_mask] = target_ids
    target_input = np.roll(target_output, 1, axis=1)
    target_input[:, 0] = BOS
    target_output[np.arange(len(rows)), target_lengths] = EOS
    return Batch(
        source=torch.from_numpy(source),
        source_mask=torch.from_numpy(source_mask),
        target_input=torch.from_numpy(target_input),
        target_output=torch.from_numpy(target_output),
        rows=rows.tolist(),
        target_tokens=int(target_lengths.sum()) + len(rows),
    )


def plan_batches(
    source_lengths: NDArray[Any], target_lengths: NDArray[Any], tokens: int, *, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Group rows into batches for one epoch; each row is in exactly one.

    In every batch, rows × longest source ≤ `tokens` and rows × longest target ≤ `tokens`. Rows of similar target
    and then source length go together; equal ones, the cuts between batches and the order of the batches are
    random in (seed, epoch).

    Raises:
        DataError: a row alone is longer than `tokens`.
    """
    random = np.random.default_rng([seed, epoch])
    sources, targets = np.asarray(source_lengths, np.int64), np.asarray(target_lengths, np.int64)
    longest = np.maximum(sources, targets)
    if len(longest) and longest.max() > tokens:
        row = int(longest.argmax())
        raise DataError(
            f"pair {row + 1} has {int(longest[row])} subwords on one side, more than a batch of {tokens} tokens "
            f"holds; raise batch.tokens or lower model.max_length"
        )
    order = _by_length(sources, targets, tokens, random)
    batches = _cut(order, sources[order], targets[order], tokens)
    return [batches[index] for index in random.permutation(len(batches))]


def _by_length(
    sources: NDArray[np.int64], targets: NDArray[np.int64], tokens: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Order rows by target length, and up and down in turn by source length, so that neighbors are alike."""
    del tokens
    ties = random.random(len(sources))
    falling = (targets + random.integers(2)) % 2 == 1
    return np.lexsort((ties, np.where(falling, -sources, sources), targets))


def _cut(
    order: NDArray[np.int64], sources: NDArray[np.int64], targets: NDArray[np.int64], tokens: int
) -> list[NDArray[np.int64]]:
    """Cut ordered rows into runs, each as long as the budget allows; lengths are in the same order."""
    batches, start = [], 0
    while start < len(order):
        most = tokens // int(max(sources[start], targets[start]))  # no run from here can have more rows
        longest = np.maximum(sources[start : start + most], targets[start : start + most])
        widths = np.maximum.accumulate(longest) * np.arange(1, len(longest) + 1)
        stop = start + int(np.searchsorted(widths, tokens, side="right"))
        batches.append(order[start:stop])
        start = stop
    return batches


def padding_share(batches: list[NDArray[np.int64]], *lengths: NDArray[Any]) -> float:
    """The share of padding among all positions of all batches, over all the sides given."""
    real = padded = 0
    for side in lengths:
        for rows in batches:
            real += int(side[rows].sum())
            padded += len(rows) * int(side[rows].max())
    return 1.0 - real / padded if padded else 0.0


def _left_mask(lengths: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
    return np.arange(width) < lengths[:, None]
