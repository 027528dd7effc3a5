"""Which rows form the batches of an epoch: similar lengths within a budget of tokens, in a random order.

A batch bounds the source tokens and the target tokens, padding included (the paper's section 5.1 gives both sides
about 25,000). Everything here is a function of the seed and the epoch alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.errors import DataError

_MANY = 64  # batches; larger groups are halved without looking for the best place


def plan_batches(
    source_lengths: NDArray[Any], target_lengths: NDArray[Any], tokens: int, *, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """Group rows into batches for one epoch; each row is in exactly one.

    In every batch, rows × longest source ≤ `tokens` and rows × longest target ≤ `tokens`. All rows are divided
    in two, and each part again, until every part fits; each time where it costs the least padding on both sides.
    Which of equally long rows go together, the exact cuts and the order of the batches are random in
    (seed, epoch).

    Raises:
        DataError: a row alone is longer than `tokens`.
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
    kind = np.int16 if longest < 1 << 15 else np.int32  # short integers sort by radix
    sources, targets = sources.astype(kind), targets.astype(kind)
    slack = random.uniform(1.04, 1.08)
    batches: list[NDArray[np.int64]] = []
    waiting = [random.permutation(len(sources))] if longest else []
    while waiting:
        rows = waiting.pop()
        source, target = sources[rows], targets[rows]
        if len(rows) * int(max(source.max(), target.max())) <= tokens:
            batches.append(rows)
        else:
            order, count = _divide(source, target, tokens, slack)
            waiting += [rows[order[:count]], rows[order[count:]]]
    return [batches[index] for index in random.permutation(len(batches))]


def _divide(
    source: NDArray[Any], target: NDArray[Any], tokens: int, slack: float
) -> tuple[NDArray[np.int64], int]:
    """Divide rows into two groups that need little padding and few batches each.

    Rows are ordered by one of four keys (source, target, longer side, difference) and cut at one place. Each
    place is judged by the tokens of both groups, were each padded to its longest row, plus a batch for every
    batch begun: the rows' longer sides, times `slack` for the padding that will remain, over `tokens`.
    Returns the order and how many rows of it form the first group.
    """
    estimate = float(np.maximum(source, target).sum(dtype=np.int64)) * slack / tokens
    if estimate > _MANY:  # any sensible cut will do: the halves are divided further anyway
        order = np.argsort(source if source.std() > target.std() else target, kind="stable")
        return order, len(order) // 2
    best, result = np.inf, (np.arange(len(source)), 1)
    for key in (source, target, np.maximum(source, target), source - target):
        order = np.argsort(key, kind="stable")
        ordered = np.stack([source[order], target[order]]).astype(np.int64)  # (side, row)
        first = np.maximum.accumulate(ordered, axis=1)[:, :-1]  # longest of the rows up to a place
        second = np.maximum.accumulate(ordered[:, ::-1], axis=1)[:, -2::-1]  # longest of those after it
        count = np.arange(1, len(order))
        work = np.cumsum(ordered.max(axis=0)) * (slack / tokens)
        cost = count * first.sum(axis=0) + count[::-1] * second.sum(axis=0)
        begun = _batches_begun(count * first.max(axis=0), work[:-1], tokens)
        begun += _batches_begun(count[::-1] * second.max(axis=0), work[-1] - work[:-1], tokens)
        cost += tokens * begun
        place = int(cost.argmin())
        if cost[place] < best:
            best, result = cost[place], (order, place + 1)
    return result


def _batches_begun(padded: NDArray[np.int64], work: NDArray[np.float64], tokens: int) -> NDArray[np.int64]:
    """Batches that a group needs: one if it fits, otherwise two or as many as its `work` says."""
    return np.where(padded <= tokens, 1, np.maximum(np.ceil(work), 2)).astype(np.int64)


def padding_share(batches: list[NDArray[np.int64]], *lengths: NDArray[Any]) -> float:
    """The share of padding among all positions of all batches, over all the sides given."""
    real = padded = 0
    for side in lengths:
        for rows in batches:
            real += int(side[rows].sum())
            padded += len(rows) * int(side[rows].max())
    return 1.0 - real / padded if padded else 0.0


def mix(files: NDArray[Any], weights: Sequence[float], *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Choose the rows of one epoch so that each file has its share: weight / sum of weights.

    An epoch has as many rows as the store. Each file is gone through in random order, again and again, and every
    epoch continues where the last one stopped, so its rows are used equally often, whatever the weight.

    Args:
        files: for every row, which file it comes from.
        weights: one positive number for each file.
        seed: of the random order.
        epoch: from 0.
    """
    shares = np.asarray(weights, np.float64) / np.sum(weights)
    ends = np.round(np.cumsum(shares) * len(files)).astype(np.int64)
    chosen = []
    for index, count in enumerate(np.diff(ends, prepend=0).tolist()):
        rows = np.flatnonzero(files == index)
        begin, end = epoch * count, (epoch + 1) * count
        for turn in range(begin // len(rows), -(-end // len(rows))) if len(rows) else ():
            order = np.random.default_rng([seed, index, turn]).permutation(rows)
            chosen.append(order[max(begin - turn * len(rows), 0) : end - turn * len(rows)])
    return np.concatenate(chosen)


def share_out(batches: list[NDArray[np.int64]], world: int) -> list[NDArray[np.int64]]:
    """Halve the largest batches until their number is a multiple of `world`, so that ranks keep in step.

    Raises:
        DataError: there are fewer rows than ranks.
    """
    batches = list(batches)
    while len(batches) % world:
        largest = max(range(len(batches)), key=lambda index: len(batches[index]))
        rows = batches[largest]
        if len(rows) < 2:
            raise DataError(
                f"expected at least one training pair for each of {world} processes, found too few"
            )
        batches[largest] = rows[::2]
        batches.append(rows[1::2])
    return batches


def plan_rows(
    lengths: NDArray[Any], tokens: int, *, seed: int, epoch: int, world: int = 1
) -> list[NDArray[np.int64]]:
    """Group rows of similar length into batches of at most `tokens`, padding included; each row is in one.

    A row longer than that is a batch by itself. Raises `DataError` where there are fewer rows than ranks.
    """
    tokens = max(tokens, int(lengths.max()))
    return share_out(plan_batches(lengths, lengths, tokens, seed=seed, epoch=epoch), world)
