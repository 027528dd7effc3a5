"""Batched decoding of many sentences: batches by length, results in input order."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.config import DecodingConfig
from headwise.decoding.search import search
from headwise.engine import repetition_guard as guard
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.ids import check_lists, check_search
from headwise.engine.options import SearchOptions
from headwise.engine.sentences import EncodedSentences
from headwise.engine.symbols import Symbols
from headwise.engine.terms import Terms
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
    terms: Sequence[Terms | None] | None = None,
) -> list[list[Hypothesis]]:
    """Decode every source and return its hypotheses, in the order of `sources`.

    `sources` are ids that end with the end symbol; `prefixes` are the target ids with which each sentence's outputs
    begin. `batch_tokens` bounds a batch's source tokens times the hypotheses of a sentence, padding included; a longer
    sentence is a batch of its own. The batches change the speed and nothing else. `shortlist` returns the target ids
    that a source's outputs may contain besides those of its prefix and terms, in ascending order; probabilities are
    then normalized over these. `terms` are those that each source's outputs must contain.

    Raises `DataError` for ids that aren't in the vocabularies, a shortlist that isn't in order or has no end symbol,
    and terms that don't fit in an output, and `ConfigError` for terms with sampling.
    """
    check_search(model, sources, options, symbols, prefixes=prefixes, terms=terms)
    lists = None if shortlist is None else [shortlist(source) for source in sources]
    if lists is not None:
        check_lists(lists, len(sources), model.target_size, symbols.eos)

    def search_sources(indices: Sequence[int], options: SearchOptions) -> list[list[Hypothesis]]:
        return decode_checked(
            model,
            [sources[index] for index in indices],
            options,
            symbols,
            batch_tokens=batch_tokens,
            prefixes=None if prefixes is None else [prefixes[index] for index in indices],
            lists=None if lists is None else [lists[index] for index in indices],
            terms=None if terms is None else [terms[index] for index in indices],
        )

    found = search_sources(range(len(sources)), options)
    if options.guard:
        suspects = [i for i, each in enumerate(found) if guard.defect(sources[i], each[0], options)]
        for index, second in zip(suspects, search_sources(suspects, guard.again(options)), strict=True):
            found[index], _ = guard.mended(sources[index], found[index], second, options)
    return found


def decode_sentences(
    model: Seq2Seq,
    encoded: EncodedSentences,
    symbols: Symbols,
    *,
    batch_tokens: int,
    shortlist: Callable[[Sequence[int]], NDArray[np.int32]] | None,
) -> list[list[Hypothesis]]:
    """Decode encoded sentences as `decode`, each source with its own options; returns the hypotheses of each source."""
    results: list[list[Hypothesis]] = [[] for _ in encoded.sources]
    groups: dict[SearchOptions, list[int]] = {}
    for index in range(len(encoded.sources)):
        groups.setdefault(encoded.options_of(index), []).append(index)
    for options, group in groups.items():
        found = decode(
            model,
            [encoded.sources[index] for index in group],
            options,
            symbols,
            batch_tokens=batch_tokens,
            prefixes=None if encoded.prefixes is None else [encoded.prefixes[index] for index in group],
            shortlist=shortlist,
            terms=None if encoded.terms is None else [encoded.terms[index] for index in group],
        )
        for index, hypotheses in zip(group, found, strict=True):
            results[index] = hypotheses
    return results


def decode_checked(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    symbols: Symbols,
    *,
    batch_tokens: int,
    prefixes: Sequence[Sequence[int]] | None,
    lists: Sequence[NDArray[np.int32]] | None,
    terms: Sequence[Terms | None] | None = None,
    given_up: Callable[[int], bool] | None = None,
) -> list[list[Hypothesis]]:
    """Decode as `decode`, with valid ids, the shortlist of each sentence and valid terms.

    `given_up` returns whether a sentence, given by its index, is no longer wanted; where the search is step by step,
    such a sentence leaves the batch before the next step and has no hypotheses.
    """
    device = model.device
    results: list[list[Hypothesis]] = [[] for _ in sources]
    if lists is not None and terms is not None:
        lists = [ids if each is None else each.added_to(ids) for ids, each in zip(lists, terms, strict=True)]
    with_terms = terms is not None and any(each is not None for each in terms)
    own_search = model.own_search(options, terms=with_terms) if prefixes is None else None
    if own_search is not None:
        for batch in length_groups([len(source) for source in sources]):
            sentences = batch_tokens // options.rows // len(sources[batch[0]])
            decoded = own_search(
                [sources[index] for index in batch],
                options,
                symbols,
                sentences=max(1, sentences),
                lists=None if lists is None else [lists[index] for index in batch],
                **({"terms": [terms[index] for index in batch]} if terms is not None and with_terms else {}),
            )
            for index, hypotheses in zip(batch, decoded, strict=True):
                results[index] = hypotheses
        return results

    def search_batch(batch: list[int]) -> list[list[Hypothesis]]:
        source, mask = padded([sources[index] for index in batch], symbols.pad, device)
        batch_prefixes = None if prefixes is None else [prefixes[index] for index in batch]
        batch_terms = None if terms is None else [terms[index] for index in batch]
        allowed = None
        if lists is not None:
            allowed = torch.zeros(len(batch), model.target_size, dtype=torch.bool)
            for row, index in enumerate(batch):
                allowed[row, torch.from_numpy(lists[index]).long()] = True
                allowed[row, [] if batch_prefixes is None else list(batch_prefixes[row])] = True
            allowed = allowed.to(device)
        dropped = given_up
        return search(
            model,
            source,
            mask,
            options,
            symbols,
            prefixes=batch_prefixes,
            listed=allowed,
            terms=batch_terms,
            given_up=None if dropped is None else lambda row: dropped(batch[row]),
        )

    work = list(batches([len(source) for source in sources], batch_tokens // options.rows))
    for batch, decoded in zip(work, _in_threads(search_batch, work, model.workers), strict=True):
        for index, hypotheses in zip(batch, decoded, strict=True):
            results[index] = hypotheses
    return results


def _in_threads(
    function: Callable[[list[int]], list[list[Hypothesis]]], items: list[list[int]], threads: int
) -> Iterator[list[list[Hypothesis]]]:
    """Yield the results of a function for each item in order, computed in so many threads."""
    if min(threads, len(items)) < 2:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)


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


def length_groups(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of sentence indices, longest first; none is less than half as long as the longest of its group."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    start = 0
    while start < len(order):
        shortest = lengths[order[start]] / 2
        end = bisect.bisect_right(order, -shortest, lo=start, key=lambda index: -lengths[index])
        yield order[start:end]
        start = end


def padded(sequences: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ids (batch, length), padded on the right, and a mask (batch, length) that is True on real tokens."""
    width = max(map(len, sequences))
    ids = torch.tensor(
        [[*sequence, *[pad] * (width - len(sequence))] for sequence in sequences], device=device
    )
    lengths = torch.tensor([len(sequence) for sequence in sequences], device=device)
    return ids, torch.arange(width, device=device) < lengths[:, None]
