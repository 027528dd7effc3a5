"""Batches of sequences of similar length, for a search and for forced decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.engine.ids import check_ids
from headwise.engine.symbols import Symbols
from headwise.models.base import Seq2Seq


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yield batches of sentence indices, longest first; sentences times the longest length is at most `tokens`.

    A sentence that is longer than `tokens` is a batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    start = 0
    while start < len(order):
        size = max(1, tokens // lengths[order[start]])
        yield order[start : start + size]
        start += size


def padded(sequences: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ids (batch, length), padded on the right, and a mask (batch, length) that is True on real tokens."""
    width = max(map(len, sequences))
    ids = torch.tensor(
        [[*sequence, *[pad] * (width - len(sequence))] for sequence in sequences], device=device
    )
    lengths = torch.tensor([len(sequence) for sequence in sequences], device=device)
    return ids, torch.arange(width, device=device) < lengths[:, None]


@dataclass(frozen=True)
class ForcedBatch:
    """Sentence pairs whose targets are decoded by force.

    Attributes:
        rows: the number of each pair.
        source: ids (batch, source).
        mask: (batch, source), True on real tokens.
        inputs: ids of the decoder's inputs (batch, target), which begin with the start symbol.
    """

    rows: list[int]
    source: Tensor
    mask: Tensor
    inputs: Tensor


def forced_batches(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    symbols: Symbols,
    tokens: int,
) -> Iterator[ForcedBatch]:
    """Yield batches of pairs, on the model's device, longest first; `tokens` bounds them as in `batches`.

    `sources` are ids that end with the end symbol, `targets` ids without special symbols. Raises `DataError` for ids
    that aren't in the vocabularies.
    """
    check_ids(sources, model.source_size, "source")
    check_ids(targets, model.target_size, "target", empty=True)
    lengths = [max(len(s), len(t) + 1) for s, t in zip(sources, targets, strict=True)]
    for rows in batches(lengths, tokens):
        source, mask = padded([sources[row] for row in rows], symbols.pad, model.device)
        inputs, _ = padded([[symbols.bos, *targets[row]] for row in rows], symbols.pad, model.device)
        yield ForcedBatch(rows, source, mask, inputs)
