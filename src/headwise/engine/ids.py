"""Validation of ids before any engine looks them up, with the same error message in all engines.

An id outside the vocabulary would crash native code, raise an IndexError from PyTorch on the CPU, and fail an
assertion on a GPU, which ends the process.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.engine.options import SearchOptions
from headwise.engine.symbols import Symbols
from headwise.engine.terms import Terms
from headwise.errors import ConfigError, DataError
from headwise.models.base import Seq2Seq


def check_search(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    symbols: Symbols,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    lists: Sequence[NDArray[np.int32]] | None = None,
    terms: Sequence[Terms | None] | None = None,
) -> None:
    """Check all ids of a search, once for every engine; the native library refuses others as the last line.

    Raises `DataError` for ids that aren't in the vocabularies, invalid shortlists, and terms that don't fit in an
    output; `ConfigError` for terms with sampling.
    """
    check_ids(sources, model.source_size, "source")
    check_ids(prefixes or [], model.target_size, "prefix", empty=True)
    if lists is not None:
        check_lists(lists, len(sources), model.target_size, symbols.eos)
    longest = model.max_length - 1 - max(map(len, prefixes or []), default=0)
    check_terms(terms, len(sources), model.target_size, longest, symbols, options)


def check_ids(sequences: Sequence[Sequence[int]], size: int, what: str, *, empty: bool = False) -> None:
    """Raise `DataError` unless all ids are whole numbers from 0 to size - 1.

    The message has the number, from 1, of the first invalid sequence, after `what`. Empty sequences are errors too
    unless `empty` is set.
    """
    for number, sequence in enumerate(sequences, start=1):
        if not len(sequence):
            if empty:
                continue
            raise DataError(f"{what} {number}: expected ids, the end symbol at least, found none")
        if set(map(type, sequence)) <= {int} and min(sequence) >= 0 and max(sequence) < size:
            continue
        for token_id in sequence:  # NumPy integers, or an error
            if isinstance(token_id, bool) or not isinstance(token_id, int | np.integer):
                raise DataError(f"{what} {number}: expected ids that are whole numbers, found {token_id!r}")
            if not 0 <= token_id < size:
                raise DataError(f"{what} {number}: expected ids from 0 to {size - 1}, found {token_id}")


def check_tensor(ids: Tensor, size: int, what: str) -> None:
    """Raise `DataError` unless all ids of a tensor are whole numbers from 0 to size - 1; `what` begins the message."""
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise DataError(f"{what}: expected ids that are whole numbers, found {ids.dtype}")
    if not ids.numel():
        return
    for extreme in torch.stack(ids.aminmax()).tolist():
        if not 0 <= extreme < size:
            raise DataError(f"{what}: expected ids from 0 to {size - 1}, found {extreme}")


def check_lists(lists: Sequence[NDArray[np.int32]], sentences: int, size: int, eos: int) -> None:
    """Raise `DataError` unless there is a valid shortlist of target ids for each of `sentences` sentences.

    A shortlist holds int32 ids from 0 to size - 1 in ascending order and contains the end symbol `eos`.
    """
    if len(lists) != sentences:
        raise DataError(f"shortlist: expected a list for each of {sentences} sentences, found {len(lists)}")
    for number, ids in enumerate(lists, start=1):
        label = f"shortlist of sentence {number}"
        if ids.ndim != 1 or ids.dtype != np.int32:
            raise DataError(f"{label}: expected int32 ids, found {ids.dtype} of shape {ids.shape}")
        if len(ids) and (np.diff(ids) <= 0).any():
            raise DataError(f"{label}: expected ids in ascending order, found others")
        if len(ids) and (ids[0] < 0 or ids[-1] >= size):
            invalid = ids[0] if ids[0] < 0 else ids[-1]
            raise DataError(f"{label}: expected ids from 0 to {size - 1}, found {invalid}")
        if ids[np.searchsorted(ids, eos) :][:1].tolist() != [eos]:
            raise DataError(f"{label}: expected the end symbol {eos} among its ids, found none")


def check_terms(
    terms: Sequence[Terms | None] | None,
    sentences: int,
    size: int,
    longest: int,
    symbols: Symbols,
    options: SearchOptions,
) -> None:
    """Raise `DataError` unless there are valid terms, or None, for each of `sentences` sentences.

    Forms hold ids from 0 to size - 1 without special symbols, and the terms of a sentence fit in an output of `longest`
    tokens. Raises `ConfigError` for terms with sampling.
    """
    if terms is None:
        return
    if len(terms) != sentences:
        raise DataError(f"terms: expected those of each of {sentences} sentences, found {len(terms)}")
    if options.sample and any(each is not None for each in terms):
        raise ConfigError("terms: expected beam search with them, found sampling")
    special = {symbols.pad, symbols.unknown, symbols.bos, symbols.eos, *symbols.given}
    for number, each in enumerate(terms, start=1):
        if each is None:
            continue
        label = f"terms of sentence {number}"
        check_ids([form for term in each.terms for form in term.forms], size, f"{label}, form")
        if found := each.tokens & special:
            raise DataError(f"{label}: expected no special symbols, found {min(found)}")
        room = longest - len(symbols.given[:1])
        if each.length > room:
            raise DataError(f"{label}: expected at most {room} tokens together, found {each.length}")
