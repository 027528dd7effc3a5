"""Validation of ids before any engine looks them up, with the same error message in all engines.

An id outside the vocabulary would crash native code, raise an IndexError from PyTorch on the CPU, and fail an
assertion on a GPU, which ends the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headwise.engine.base import Engine, Ids, SearchSentence
from headwise.engine.symbols import Symbols
from headwise.engine.terms import Terms
from headwise.errors import ConfigError, DataError


def check_sentences(engine: Engine, sentences: Sequence[SearchSentence], symbols: Symbols) -> None:
    """Check all ids of a search, once for every engine; the native library refuses others as the last line.

    Raises `DataError` for ids that aren't in the vocabularies, a shortlist that isn't in order or has no end symbol,
    and terms that don't fit in an output; `ConfigError` for terms with sampling. A message has the number, from 1, of
    the first invalid sentence.
    """
    check_ids([sentence.source for sentence in sentences], engine.source_size, "source")
    check_ids([sentence.prefix or () for sentence in sentences], engine.target_size, "prefix", empty=True)
    assert len(symbols.lettered) == engine.target_size or not any(each.lettered for each in sentences)
    for number, sentence in enumerate(sentences, start=1):
        if sentence.allowed is not None:
            label = f"shortlist of sentence {number}"
            _check_allowed(sentence.allowed, engine.target_size, symbols.eos, label)
        if sentence.terms is not None:
            _check_terms(sentence, sentence.terms, engine, symbols, f"terms of sentence {number}")


class _Sizes(Protocol):
    source_size: int
    target_size: int


def check_one_vocabulary(models: Sequence[_Sizes]) -> None:
    """Raise `ConfigError` unless the vocabularies of an ensemble's models have the same sizes."""
    first = models[0]
    for number, model in enumerate(models[1:], start=2):
        sizes = (model.source_size, model.target_size)
        if sizes != (first.source_size, first.target_size):
            raise ConfigError(
                f"ensemble: expected vocabularies of {first.source_size} source and {first.target_size} "
                f"target subwords, as in model 1, found {sizes[0]} and {sizes[1]} in model {number}"
            )


def check_pairs(engine: _Sizes, sources: Ids, targets: Ids) -> list[int]:
    """Check the ids of forced decoding; return the length of the longer side of each pair, the end symbol included.

    Raises `DataError` for ids that aren't in the vocabularies.
    """
    check_ids(sources, engine.source_size, "source")
    check_ids(targets, engine.target_size, "target", empty=True)
    return [max(len(s), len(t) + 1) for s, t in zip(sources, targets, strict=True)]


def check_ids(sequences: Ids, size: int, what: str, *, empty: bool = False) -> None:
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


def _check_allowed(allowed: NDArray[np.int32], size: int, eos: int, label: str) -> None:
    """Raise `DataError` unless these are int32 ids from 0 to size - 1, in ascending order and with the end symbol."""
    if allowed.ndim != 1 or allowed.dtype != np.int32:
        raise DataError(f"{label}: expected int32 ids, found {allowed.dtype} of shape {allowed.shape}")
    if len(allowed) and (np.diff(allowed) <= 0).any():
        raise DataError(f"{label}: expected ids in ascending order, found others")
    if len(allowed) and (allowed[0] < 0 or allowed[-1] >= size):
        invalid = allowed[0] if allowed[0] < 0 else allowed[-1]
        raise DataError(f"{label}: expected ids from 0 to {size - 1}, found {invalid}")
    if allowed[np.searchsorted(allowed, eos) :][:1].tolist() != [eos]:
        raise DataError(f"{label}: expected the end symbol {eos} among its ids, found none")


def _check_terms(sentence: SearchSentence, terms: Terms, engine: Engine, symbols: Symbols, label: str) -> None:
    """Raise `DataError` unless forms hold ids without special symbols, and all terms fit in an output.

    Raises `ConfigError` for terms with sampling.
    """
    if sentence.options.sample:
        raise ConfigError("terms: expected beam search with them, found sampling")
    special = {symbols.pad, symbols.unknown, symbols.bos, symbols.eos, *symbols.given}
    check_ids([form for term in terms.terms for form in term.forms], engine.target_size, f"{label}, form")
    if found := terms.tokens & special:
        raise DataError(f"{label}: expected no special symbols, found {min(found)}")
    room = engine.max_length - 1 - len(symbols.beginning(sentence.prefix)) - sentence.lettered
    if terms.length > room:
        raise DataError(f"{label}: expected at most {room} tokens together, found {terms.length}")
