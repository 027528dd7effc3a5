"""Batches of sentence pairs from corpora in shards, through a bounded shuffle buffer.

The pairs of a corpus are cut into slices of consecutive pairs. A pass over the corpus takes all its slices in a random
order, and passes follow each other without end. A buffer holds the next pairs of each corpus by its weight; from them
batches are planned as from an epoch of a small corpus. So an epoch of this stream is one buffer: its content follows
from the seed and its number, wherever training resumes, and neither a pass nor a corpus needs to fit in memory.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Generator, Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.data.plans import plan_batches, share_out
from headwise.data.stream import Epoch, ResumableStream
from headwise.tasks.batches.pairs import Batch, check_lengths, make_batch
from headwise.text.preparation.parallel import ParallelStore
from headwise.text.preparation.sharded import ShardedData, Shards

SLICE = 1024  # pairs that are read together
BUFFER = 1 << 18  # pairs that are shuffled together, in memory


class ShardStream(ResumableStream[Batch]):
    """Resumable iterator over batches within a token budget, prefetched by a thread."""

    ahead = True

    def __init__(
        self,
        prepared: ShardedData,
        tokens: int,
        *,
        seed: int,
        rank: int = 0,
        world: int = 1,
        weights: Sequence[float] = (),
        buffer: int = BUFFER,
    ) -> None:
        """Start at the beginning of the first buffer.

        Args:
            prepared: the corpora.
            tokens: token budget of a batch, for each side.
            seed: seed of all orders.
            rank: data-parallel rank of this process.
            world: number of processes.
            weights: sampling weight of each corpus; empty: its number of pairs.
            buffer: pairs of a buffer.
        """
        self.tokens, self._store = tokens, prepared.train
        corpora = prepared.train.corpora
        shares = np.array(weights or [len(corpus) for corpus in corpora])
        buffer = min(buffer, len(prepared.train))
        ends = np.round(np.cumsum(shares / shares.sum()) * buffer).astype(np.int64)
        self._counts = [max(1, count) for count in np.diff(ends, prepend=0).tolist()]
        self._passes = [
            Passes(corpus, prepared.train.first(index), seed, index) for index, corpus in enumerate(corpora)
        ]
        identity = {
            "tokens": tokens,
            "seed": seed,
            "world": world,
            "weights": list(weights),
            "buffer": buffer,
            "data": prepared.checksum,
            "subwords": prepared.subwords.digest(),
            "pairs": len(prepared.train),
        }
        super().__init__(identity, seed=seed, rank=rank, world=world)

    def epochs(self, first: int) -> Generator[Epoch[Batch], None, None]:  # noqa: D102
        for number in itertools.count(first):
            ranges = [
                each
                for passes, count in zip(self._passes, self._counts, strict=True)
                for each in passes.ranges(number * count, (number + 1) * count)
            ]
            store = self._store.block(ranges)
            rows = np.concatenate([np.arange(start, end) for start, end in ranges])
            yield self._plan(store, number), functools.partial(_make_batch, store, rows)

    def _plan(self, store: ParallelStore, number: int) -> list[NDArray[np.int64]]:
        check_lengths(store, self.tokens, "prepare the corpus with a lower --max-length")
        plan = plan_batches(
            store.source_lengths, store.target_lengths, self.tokens, seed=self.seed, epoch=number
        )
        return share_out(plan, self.world)[self.rank :: self.world]


class Passes:
    """The endless sequence of a corpus's pairs: all of them in a random order of slices, again and again."""

    def __init__(self, corpus: Shards, first: int, seed: int, index: int) -> None:
        """Cut the corpus, whose pairs are numbered from `first` on, into slices; `index` tells it from others."""
        ends = first + np.cumsum(corpus.sizes)
        starts = [
            np.arange(end - size, end, SLICE) for size, end in zip(corpus.sizes, ends, strict=True) if size
        ]
        stops = [
            np.minimum(part + SLICE, end)
            for part, end in zip(starts, ends[np.array(corpus.sizes) > 0], strict=True)
        ]
        self._starts, self._stops = np.concatenate(starts), np.concatenate(stops)
        self._pairs, self._key = len(corpus), [seed, 0x736C, index]

    def ranges(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the numbers of the pairs from place `begin` to `end` of the sequence, as ranges."""
        found = []
        for number in range(begin // self._pairs, -(-end // self._pairs)):
            order = np.random.default_rng([*self._key, number]).permutation(len(self._starts))
            starts, stops = self._starts[order], self._stops[order]
            after = np.cumsum(stops - starts)
            low, high = max(begin - number * self._pairs, 0), min(end - number * self._pairs, self._pairs)
            first = int(np.searchsorted(after, low, side="right"))
            last = int(np.searchsorted(after, high, side="left"))
            for place in range(first, last + 1):
                before = int(after[place] - (stops[place] - starts[place]))
                skipped, kept = max(low - before, 0), min(high, int(after[place])) - before
                found.append((int(starts[place]) + skipped, int(starts[place]) + kept))
        return found


def _make_batch(store: ParallelStore, numbers: NDArray[np.int64], _: int, rows: NDArray[np.int64]) -> Batch:
    batch = make_batch(store, rows)
    return dataclasses.replace(batch, rows=numbers[rows].tolist())
