"""Batches of similar length that fill a budget of tokens, in an order that a run can leave and take up again.

A batch bounds the source tokens and the target tokens, padding included (the paper's section 5.1 gives both sides
about 25,000). Which rows go together, and in which order, is a function of the seed and the epoch alone.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.data.position import check_index, read_position
from headwise.data.ragged import gather
from headwise.errors import DataError
from headwise.text.datasets.parallel import ParallelStore, PreparedData
from headwise.text.datasets.resegmented import EpochStores
from headwise.text.tokens.subwords import BOS, EOS, PAD

_AHEAD = 8  # batches made before they are asked for
_MANY = 64  # batches; larger groups are halved without looking for the best place


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
    target_mask = _left_mask(
        target_lengths, int(target_lengths.max()) + 1
    )  # one column more than there are ids
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
    epoch goes on where the last one stopped, so its rows are used equally often, whatever the weight.

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


class BatchStream:
    """An endless stream of training batches, made ahead by a thread, whose position can be saved and restored.

    Rank r of `world` gets batches r, r + world, …; all ranks get equally many in every epoch. `epoch` and `index`
    say which batch comes next, `epoch_batches` how many this rank has in that epoch (0 before the first).
    """

    def __init__(
        self,
        prepared: PreparedData,
        tokens: int,
        *,
        seed: int,
        rank: int = 0,
        world: int = 1,
        dropout: float = 0.0,
        weights: Sequence[float] = (),
        max_length: int = 512,
    ) -> None:
        """Start at the beginning of epoch 0.

        Args:
            prepared: the text, prepared with dropout where `dropout` isn't 0.
            tokens: budget of a batch, for each side.
            seed: of the order of the batches and of BPE-dropout.
            rank: which process of `world` this is.
            world: number of processes.
            dropout: rate of BPE-dropout; the text is segmented anew for every epoch.
            weights: mixing weight of each training file; none: every row once an epoch.
            max_length: subwords of the longest row that BPE-dropout may make, EOS included.
        """
        self.tokens, self.seed, self.rank, self.world = tokens, seed, rank, world
        self.epoch = self.index = self.epoch_batches = 0
        self._prepared, self._dropout = prepared, dropout
        self._longest = min(max_length, tokens)
        self._weights = list(weights)
        self._identity = {
            "tokens": tokens,
            "seed": seed,
            "world": world,
            "dropout": dropout,
            "weights": self._weights,
            "data": prepared.checksum,
            "subwords": prepared.subwords.digest(),
            "pairs": len(prepared.train),
        }
        self._worker: _Worker | None = None

    def __iter__(self) -> Iterator[Batch]:
        """The stream itself; it never ends."""
        return self

    def __next__(self) -> Batch:
        """The next batch.

        Raises:
            DataError: a pair is longer than a batch, or there are fewer pairs than ranks.
            TrainingError: the disk is full, where BPE-dropout writes an epoch's text.
        """
        if self._worker is None:
            self._worker = _Worker(self._batches(self.epoch, self.index))
        made = self._worker.next()
        self.epoch, self.index, self.epoch_batches = made.epoch, made.index + 1, made.epoch_batches
        if self.index == self.epoch_batches:
            self.epoch, self.index = self.epoch + 1, 0
        return made.batch

    def state(self) -> dict[str, Any]:
        """The position after the batches given out so far, and what it is a position in; fit for JSON."""
        return {"epoch": self.epoch, "index": self.index, **self._identity}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a saved position: the next batch is the one that would have come next.

        Raises:
            CheckpointError: the position belongs to other data or to batches planned otherwise.
        """
        epoch, index = read_position(state, self._identity)
        self.close()
        self.epoch, self.index = epoch, index

    def close(self) -> None:
        """Stop working ahead; the stream can still be iterated, and then goes on where it was."""
        if self._worker is not None:
            self._worker.stop()
        self._worker = None

    def _batches(self, epoch: int, index: int) -> Generator[_Made, None, None]:
        """Make all batches from a position on; a generator that the worker's thread runs."""
        if not self._dropout:
            yield from self._batches_of(lambda _: self._prepared.train, epoch, index)
            return
        stores = EpochStores(self._prepared, seed=self.seed, dropout=self._dropout, longest=self._longest)
        with contextlib.closing(stores):
            yield from self._batches_of(stores.open, epoch, index)

    def _batches_of(
        self, stores: Callable[[int], ParallelStore], epoch: int, index: int
    ) -> Generator[_Made, None, None]:
        while True:
            store = stores(epoch)
            plan = self._plan(store, epoch)
            check_index(index, plan, epoch)
            for place in range(index, len(plan)):
                yield _Made(epoch, place, len(plan), make_batch(store, plan[place]))
            epoch, index = epoch + 1, 0

    def _plan(self, store: ParallelStore, epoch: int) -> list[NDArray[np.int64]]:
        """Plan one epoch; returns the batches of this rank, in order."""
        sources, targets = store.source_lengths, store.target_lengths
        longest = np.maximum(sources, targets)
        if longest.max() > self.tokens:
            row = int(longest.argmax())
            raise DataError(
                f"{store.locate([row])} has {int(longest[row])} subwords on one side, more than a batch of "
                f"{self.tokens} tokens holds; raise batch.tokens or lower model.max_length"
            )
        rows = np.arange(len(store))
        if self._weights:
            rows = mix(store.files, self._weights, seed=self.seed, epoch=epoch)
        plan = plan_batches(sources[rows], targets[rows], self.tokens, seed=self.seed, epoch=epoch)
        return [rows[batch] for batch in share_out(plan, self.world)[self.rank :: self.world]]


@dataclass(frozen=True)
class _Made:
    epoch: int
    index: int
    epoch_batches: int
    batch: Batch


class _Worker:
    """A thread that runs a generator a few items ahead of whoever asks for them."""

    def __init__(self, items: Generator[_Made, None, None]) -> None:
        self._items = items
        self._made: queue.Queue[_Made | Exception] = queue.Queue(_AHEAD)
        self._stopped = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="batches").start()

    def next(self) -> _Made:
        """The next item; raises what the generator raised."""
        made = self._made.get()
        if isinstance(made, Exception):
            self._made.put(made)  # and again, should someone ask again
            raise made
        return made

    def stop(self) -> None:
        """Have the thread end as soon as it is done with the item at hand; doesn't wait for it."""
        self._stopped.set()
        with contextlib.suppress(queue.Empty):
            while True:
                self._made.get_nowait()

    def _run(self) -> None:
        try:
            with contextlib.closing(self._items) as items:
                for item in items:
                    self._made.put(item)
                    if self._stopped.is_set():
                        return
        except Exception as error:
            self._made.put(error)


def _left_mask(lengths: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
    return np.arange(width) < lengths[:, None]
