"""Plan the batches of an epoch: examples of similar length within a token budget, in random order.

The budget bounds the source tokens and the target tokens of a batch, padding included (about 25,000 each in the paper,
section 5.1). Plans depend on the seed and the epoch only. "Rows" are examples, by their indices in the prepared data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.errors import DataError

_SEARCH_LIMIT = 64  # batches; larger groups are halved without a search for the best cut
# The number of examples before a cut is a multiple of the largest of these that is at most 1/16 of a batch: oneDNN
# compiles code for each shape, and with multiples of 4 half as many shapes are new in a step of a small batch.
_MULTIPLES = (8, 4, 2)
_FINEST = 16


def plan_batches(
    source_lengths: NDArray[Any], target_lengths: NDArray[Any], tokens: int, *, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Group sentence pairs into batches for one epoch; each pair is in exactly one batch.

    In every batch, pairs × longest source ≤ `tokens` and pairs × longest target ≤ `tokens`. The pairs are split in two
    groups recursively until every group fits, each time at the cut with the least padding on both sides. Where a batch
    has many pairs, a multiple of 2, 4 or 8 stands before each cut, so that training computes few shapes. The grouping
    of pairs of equal length, the exact cuts and the order of the batches are random in (seed, epoch).

    Raises:
        DataError: a pair alone is longer than `tokens`.
    """
    random = np.random.default_rng([seed, epoch])
    sources, targets = np.asarray(source_lengths), np.asarray(target_lengths)
    longest = int(max(sources.max(), targets.max())) if len(sources) else 0
    if longest > tokens:
        row = int(np.maximum(sources, targets).argmax())
        raise DataError(
            f"pair {row + 1} has {longest} subwords on one side, more than a batch of {tokens} tokens holds; "
            f"raise batch.tokens or lower model.max_length"
        )
    dtype = np.int16 if longest < 1 << 15 else np.int32  # NumPy sorts 16-bit integers by radix sort
    sources, targets = sources.astype(dtype), targets.astype(dtype)
    slack = random.uniform(1.04, 1.08)
    batches: list[NDArray[np.int64]] = []
    groups = [random.permutation(len(sources))] if longest else []
    while groups:
        rows = groups.pop()
        source, target = sources[rows], targets[rows]
        if len(rows) * int(max(source.max(), target.max())) <= tokens:
            batches.append(rows)
        else:
            order, count = _split(source, target, tokens, slack)
            groups += [rows[order[:count]], rows[order[count:]]]
    return [batches[index] for index in random.permutation(len(batches))]


def _split(source: NDArray[Any], target: NDArray[Any], tokens: int, slack: float) -> tuple[NDArray[np.int64], int]:
    """Split sentence pairs of these lengths into two groups that need little padding and few batches each.

    The pairs are sorted by one of four keys (source, target, longer side, difference) and cut once. The cost of a cut
    is the number of tokens of both groups, each padded to its longest pair, plus `tokens` for every batch of a group.
    The number of batches is estimated: the sum of the longer sides, times `slack` for the padding that will remain,
    over `tokens`. Returns the order, and the size of the first group.
    """
    estimate = float(np.maximum(source, target).sum(dtype=np.int64)) * slack / tokens
    multiple = next((m for m in _MULTIPLES if m * _FINEST * estimate <= len(source)), 1)
    if estimate > _SEARCH_LIMIT:  # the exact cut doesn't matter, because the halves are split again
        order = np.argsort(source if source.std() > target.std() else target, kind="stable")
        return order, len(order) // 2 // multiple * multiple
    best, result = np.inf, (np.arange(len(source)), 1)
    for key in (source, target, np.maximum(source, target), source - target):
        order = np.argsort(key, kind="stable")
        ordered = np.stack([source[order], target[order]]).astype(np.int64)  # (side, row)
        first = np.maximum.accumulate(ordered, axis=1)[:, :-1]  # maximum lengths before each cut
        second = np.maximum.accumulate(ordered[:, ::-1], axis=1)[:, -2::-1]  # maximum lengths after each cut
        count = np.arange(1, len(order))
        work = np.cumsum(ordered.max(axis=0)) * (slack / tokens)  # estimated batches, as fractions
        cost = count * first.sum(axis=0) + count[::-1] * second.sum(axis=0)
        batches = _batch_counts(count * first.max(axis=0), work[:-1], tokens)
        batches += _batch_counts(count[::-1] * second.max(axis=0), work[-1] - work[:-1], tokens)
        cost += tokens * batches
        cost, count = cost[multiple - 1 :: multiple], count[multiple - 1 :: multiple]
        cut = int(cost.argmin())
        if cost[cut] < best:
            best, result = cost[cut], (order, int(count[cut]))
    return result


def _batch_counts(padded: NDArray[np.int64], work: NDArray[np.float64], tokens: int) -> NDArray[np.int64]:
    """Return the estimated number of batches of each group: 1 if it fits, else `work` rounded up, at least 2."""
    return np.where(padded <= tokens, 1, np.maximum(np.ceil(work), 2)).astype(np.int64)


def mix(files: NDArray[Any], weights: Sequence[float], *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Sample the examples of one epoch so that each file has the share weight / sum of weights.

    An epoch has as many examples as the prepared data. Each file is cycled through in a new random order each time, and
    an epoch continues where the previous one stopped, so the examples of a file are used equally often for any weight.
    `files` has the file index of every example, `weights` a positive number per file.
    """
    shares = np.asarray(weights, np.float64) / np.sum(weights)
    ends = np.round(np.cumsum(shares) * len(files)).astype(np.int64)
    samples = []
    for index, count in enumerate(np.diff(ends, prepend=0).tolist()):
        rows = np.flatnonzero(files == index)
        if len(rows):
            passes = Passes(rows, rows + 1, (seed, index))
            samples.append(passes.between(epoch * count, (epoch + 1) * count)[0])
    return np.concatenate(samples)


@dataclass(frozen=True)
class Passes:
    """An endless sequence of examples: all slices of consecutive ones in a random order, again and again."""

    starts: NDArray[np.int64]  # first example of each slice
    stops: NDArray[np.int64]  # example after the last of each slice
    key: tuple[int, ...]  # what the random orders depend on, with the number of the pass

    def between(self, begin: int, end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return starts and stops of the slices from place `begin` to `end`, of which the outer ones may be cut."""
        size = int((self.stops - self.starts).sum())
        found = [(self.starts[:0], self.stops[:0])]
        for number in range(begin // size, -(-end // size)) if begin < end else ():
            order = np.random.default_rng([*self.key, number]).permutation(len(self.starts))
            starts, stops = self.starts[order], self.stops[order]
            after = np.cumsum(stops - starts)  # places of the pass, behind each slice
            low, high = max(begin - number * size, 0), min(end - number * size, size)
            used = slice(np.searchsorted(after, low, side="right"), np.searchsorted(after, high) + 1)
            starts, stops, after = starts[used], stops[used], after[used]
            starts[0], stops[-1] = stops[0] - (after[0] - low), stops[-1] - (after[-1] - high)
            found.append((starts, stops))
        starts, stops = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return starts, stops


def plan_rows(lengths: NDArray[Any], tokens: int, *, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """Group sequences of similar length into batches of at most `tokens`, padding included; each is in one batch.

    If a sequence is longer than `tokens`, its length is the budget.
    """
    return plan_batches(lengths, lengths, max(tokens, int(lengths.max())), seed=seed, epoch=epoch)
