"""Batches of sentence pairs, padded on the right, with decoder inputs and targets for teacher forcing."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.config import AugmentConfig
from headwise.data.plans import plan_batches
from headwise.data.ragged import gather
from headwise.data.stream import Epoch, ResumableStream
from headwise.errors import DataError
from headwise.text.preparation.parallel import AnyPrepared, PreparedData
from headwise.text.preparation.sampling import BUFFER, Buffers, EpochPairs, WholeText
from headwise.text.preparation.stores import ParallelStore, ShardedStore
from headwise.text.tokens.subwords import BOS, EOS, PAD


@dataclass(frozen=True)
class Batch:
    """Sentence pairs of one training step, padded on the right; tensors are on the CPU."""

    source: torch.Tensor  # (batch, source) int64 ids, EOS at the end
    source_mask: torch.Tensor  # (batch, source) bool, True = not padding
    target_input: torch.Tensor  # (batch, target) int64, BOS + ids
    target_output: torch.Tensor  # (batch, target) int64, ids + EOS
    rows: list[int]  # row indices in the store, for messages
    target_tokens: int  # tokens of target_output, without padding


def make_batch(store: ParallelStore, rows: Sequence[int] | NDArray[Any]) -> Batch:
    """Build a batch from rows of the store, padded on the right to the longest."""
    rows = np.asarray(rows, np.int64)
    source_ids, source_lengths = gather(store.source_table, rows)
    target_ids, target_lengths = gather(store.target_table, rows)
    source_mask = _length_mask(source_lengths, int(source_lengths.max()))
    source = np.full(source_mask.shape, PAD, np.int64)
    source[source_mask] = source_ids
    target_mask = _length_mask(target_lengths, int(target_lengths.max()) + 1)  # one more for BOS or EOS
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


class BatchStream(ResumableStream[Batch]):
    """Resumable iterator over batches of sentence pairs within a token budget, prefetched by a thread."""

    ahead = True

    def __init__(
        self,
        prepared: AnyPrepared,
        tokens: int,
        *,
        seed: int,
        dropout: float = 0.0,
        augment: AugmentConfig = AugmentConfig(),  # noqa: B008 -- which nobody changes
        weights: Sequence[float] = (),
        max_length: int = 512,
        buffer: int = BUFFER,
        workers: int = 0,
    ) -> None:
        """Start at the beginning of epoch 0.

        Args:
            prepared: the data, prepared with its text where there is dropout or augmentation.
            tokens: token budget of a batch, for each side.
            seed: seed of all orders, of BPE-dropout and of augmentation.
            dropout: rate of BPE-dropout; the text is resegmented for every epoch.
            augment: share of the pairs that gets each change, anew in every epoch.
            weights: sampling weight of each training file, or of each corpus in shards; empty: as many as it has pairs.
            max_length: longest sentence in subwords that BPE-dropout and augmentation may produce, EOS included.
            buffer: most pairs of an epoch of corpora in shards.
            workers: processes that encode the text of an epoch with BPE-dropout or augmentation; 0: one per core.
        """
        self.tokens = tokens
        if isinstance(prepared.train, ShardedStore):
            self._sampler: WholeText | Buffers = Buffers(prepared.train, seed=seed, weights=weights, buffer=buffer)
        else:
            longest = min(max_length, tokens)
            whole = cast("PreparedData[ParallelStore]", prepared)
            self._sampler = WholeText(
                whole,
                seed=seed,
                weights=weights,
                dropout=dropout,
                longest=longest,
                augment=augment,
                workers=workers,
            )
        identity = {
            "tokens": tokens,
            "seed": seed,
            "weights": list(weights),
            **self._sampler.identity,
            "data": prepared.checksum,
            "subwords": prepared.subwords.digest(),
            "pairs": len(prepared.train),
        }
        super().__init__(identity, seed=seed)

    def epochs(self, first: int) -> Generator[Epoch[Batch], None, None]:  # noqa: D102
        with contextlib.closing(self._sampler.epochs(first)) as epochs:
            for epoch, pairs in enumerate(epochs, start=first):
                yield self._plan(pairs, epoch), functools.partial(_make_batch, pairs)

    def _plan(self, pairs: EpochPairs, epoch: int) -> list[NDArray[np.int64]]:
        """Plan one epoch; returns the rows of each batch, in order."""
        sources, targets = pairs.store.source_lengths, pairs.store.target_lengths
        longest = np.maximum(sources, targets)
        if longest.max() > self.tokens:
            row = int(longest.argmax())
            raise DataError(
                f"{pairs.store.locate([row])} has {int(longest[row])} subwords on one side, more than a batch of "
                f"{self.tokens} tokens holds; raise batch.tokens or {self._sampler.remedy}"
            )
        rows = pairs.rows
        plan = plan_batches(sources[rows], targets[rows], self.tokens, seed=self.seed, epoch=epoch)
        return [rows[batch] for batch in plan]


def _make_batch(pairs: EpochPairs, _: int, rows: NDArray[np.int64]) -> Batch:
    batch = make_batch(pairs.store, rows)
    return batch if pairs.numbers is None else replace(batch, rows=pairs.numbers[rows].tolist())


def _length_mask(lengths: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
    return np.arange(width) < lengths[:, None]
