"""The sentence pairs of each epoch: a text of one shard whole, in its order, and larger ones through a bounded buffer.

Weights give each file of a text, or each of several corpora, its share of an epoch: it is passed over again and again
(`headwise.data.plans.Passes`), a file pair by pair, a corpus by slices of consecutive pairs. An epoch of corpora
is one buffer: its content follows from the seed and its number, wherever training resumes, and neither a pass nor a
corpus needs to fit in memory.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwise.config import AugmentConfig
from headwise.data.plans import Passes, mix
from headwise.text.preparation.parallel import PreparedData
from headwise.text.preparation.resegmented import EpochStores, Resegmentation
from headwise.text.preparation.stores import ParallelStore, ShardedStore, Shards

BUFFER = 1 << 18  # pairs that are shuffled together, in memory
_SLICE = 1024  # pairs that are read together


class EpochPairs(NamedTuple):
    """The pairs of an epoch: `rows` of a store; `numbers` are those of the store's rows in the prepared data."""

    store: ParallelStore
    rows: NDArray[np.int64]
    numbers: NDArray[np.int64] | None = None  # None: the rows themselves


class WholeText:
    """All pairs of a text in the order of its files, or each file by its weight.

    With BPE-dropout or augmentation, each epoch has its own text. The pairs of an epoch depend on data, seed, weights
    and `identity` (JSON values); `remedy` is what helps if one is longer than a batch.
    """

    remedy = "lower model.max_length"

    def __init__(
        self,
        prepared: PreparedData[ParallelStore],
        *,
        seed: int,
        weights: Sequence[float],
        dropout: float,
        longest: int,
        augment: AugmentConfig,
        workers: int = 0,
    ) -> None:
        """Resegment with BPE-dropout and augmentation, if any, in `workers` processes (0: one per core).

        `longest` is the length that they may produce, in subwords with the end symbol.
        """
        shares = augment.model_dump() if augment.active else None
        self.identity = {"dropout": dropout, "augment": shares}
        self._prepared, self._seed, self._weights, self._workers = prepared, seed, weights, workers
        self._anew = Resegmentation(seed, 0, dropout, longest, shares) if dropout or shares else None

    def epochs(self, first: int) -> Generator[EpochPairs, None, None]:
        """Yield the pairs of epoch `first` and all later ones."""
        if self._anew is None:
            store = self._prepared.train
            for epoch in itertools.count(first):
                yield EpochPairs(store, self._rows(store, epoch))
        else:
            with contextlib.closing(EpochStores(self._prepared, self._anew, self._workers)) as stores:
                for epoch in itertools.count(first):
                    store = stores.open(epoch)
                    yield EpochPairs(store, self._rows(store, epoch))

    def _rows(self, store: ParallelStore, epoch: int) -> NDArray[np.int64]:
        if self._weights:
            return mix(store.files, self._weights, seed=self._seed, epoch=epoch)
        return np.arange(len(store))


class Buffers:
    """Buffers of pairs of several corpora, by their weights or, without, their numbers of pairs; see `WholeText`."""

    remedy = "prepare the corpus with a lower --max-length"

    def __init__(self, store: ShardedStore, *, seed: int, weights: Sequence[float], buffer: int) -> None:
        """Cut the corpora into slices; a buffer has at most `buffer` pairs."""
        self._store = store
        size = min(buffer, len(store))
        self.identity = {"buffer": size}
        shares = np.array(weights or [len(corpus) for corpus in store.corpora])
        ends = np.round(np.cumsum(shares / shares.sum()) * size).astype(np.int64)
        counts = [max(1, count) for count in np.diff(ends, prepend=0).tolist()]
        passes = [
            _slices(corpus, store.first(index), (seed, 0x736C, index)) for index, corpus in enumerate(store.corpora)
        ]
        self._corpora = list(zip(passes, counts, strict=True))

    def epochs(self, first: int) -> Generator[EpochPairs, None, None]:  # noqa: D102
        for number in itertools.count(first):
            parts = [passes.between(number * count, (number + 1) * count) for passes, count in self._corpora]
            starts, stops = (np.concatenate(each).tolist() for each in zip(*parts, strict=True))
            ranges = list(zip(starts, stops, strict=True))
            store = self._store.block(ranges)
            numbers = np.concatenate([np.arange(start, stop) for start, stop in ranges])
            yield EpochPairs(store, np.arange(len(store)), numbers)


def _slices(corpus: Shards, first: int, key: tuple[int, ...]) -> Passes:
    """Return passes over a corpus whose pairs are numbered from `first` on; no slice reaches beyond a shard."""
    ends = first + np.cumsum(corpus.sizes)
    starts = [np.arange(end - size, end, _SLICE) for size, end in zip(corpus.sizes, ends, strict=True)]
    stops = [np.minimum(part + _SLICE, end) for part, end in zip(starts, ends, strict=True)]
    return Passes(np.concatenate(starts), np.concatenate(stops), key)
