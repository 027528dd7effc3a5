"""Searching many sentences: batches by length, results in the order of the input."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.config import DecodingConfig
from headwise.decoding.beam.constraints import Symbols
from headwise.decoding.beam.hypothesis import Hypothesis
from headwise.decoding.ids import check_ids, check_lists
from headwise.decoding.options import SearchOptions
from headwise.decoding.search import search
from headwise.models.base import Seq2Seq

BATCH_TOKENS = DecodingConfig().batch_tokens


def decode(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    symbols: Symbols,
    *,
    batch_tokens: int = BATCH_TOKENS,
    prefixes: Sequence[Sequence[int]] | None = None,
    shortlist: Callable[[Sequence[int]], NDArray[np.int32]] | None = None,
) -> list[list[Hypothesis]]:
    """Search every source, ids that end with the end symbol; returns the results in the order of `sources`.

    `batch_tokens` bounds a batch's source tokens times the hypotheses of a sentence, padding included; a longer
    sentence makes a batch of its own. The batches change the speed and nothing else. `shortlist` gives for a source
    the only tokens that its outputs may hold, in ascending order, besides those of its prefix; probabilities are then
    taken among these.

    Raises `DataError` for ids that aren't in the vocabularies, or a list that isn't in order or has no end symbol.
    """
    device = model.device
    check_ids(sources, model.source_size, "source")
    check_ids(prefixes or [], model.target_size, "prefix", empty=True)
    lists = None if shortlist is None else [shortlist(source) for source in sources]
    if lists is not None:
        check_lists(lists, len(sources), model.target_size, symbols.eos)
    results: list[list[Hypothesis]] = [[] for _ in sources]
    own = model.own_search(options) if prefixes is None else None
    if own is not None:
        for rows in similar([len(source) for source in sources]):
            room = batch_tokens // options.rows // len(sources[rows[0]])
            found = own(
                [sources[row] for row in rows],
                options,
                symbols,
                sentences=max(1, room),
                lists=None if lists is None else [lists[row] for row in rows],
            )
            for row, hypotheses in zip(rows, found, strict=True):
                results[row] = hypotheses
        return results
    for rows in batches([len(source) for source in sources], batch_tokens // options.rows):
        source, mask = padded([sources[row] for row in rows], symbols.pad, device)
        given = None if prefixes is None else [prefixes[row] for row in rows]
        listed = None
        if lists is not None:
            listed = torch.zeros(len(rows), model.target_size, dtype=torch.bool)
            for place, row in enumerate(rows):
                listed[place, torch.from_numpy(lists[row]).long()] = True
                listed[place, [] if given is None else list(given[place])] = True
            listed = listed.to(device)
        found = search(model, source, mask, options, symbols, prefixes=given, listed=listed)
        for row, hypotheses in zip(rows, found, strict=True):
            results[row] = hypotheses
    return results


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Group rows of similar length, longest first, so that rows times the longest stays within `tokens`."""
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    start = 0
    while start < len(order):
        size = max(1, tokens // lengths[order[start]])
        yield order[start : start + size]
        start += size


def similar(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Group rows, longest first, so that no row of a group is less than half as long as its longest."""
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    start = 0
    while start < len(order):
        shortest = lengths[order[start]] / 2
        end = bisect.bisect_right(order, -shortest, lo=start, key=lambda row: -lengths[row])
        yield order[start:end]
        start = end


def padded(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ids (batch, length), padded on the right, and a mask that is True on real tokens."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, torch.arange(width, device=device) < lengths[:, None]
