"""A native search job, to which sentences are added at any time and which can be interrupted at any time.

The library's own threads search. A thread that waits for them does so in intervals, between which Python handles
Ctrl-C. The threads check the job's stop flag at every step; freeing the job sets the flag and waits for all threads.
Memory that a thread uses can't be freed early, because only that call frees the job, and the job references the engine.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence, Sized
from types import TracebackType
from typing import Protocol

import numpy as np

from headwise.config import ModelConfig
from headwise.engine.base import FinishedSearch, SearchSentence
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions
from headwise.engine.scheduling.load import Load
from headwise.engine.symbols import Symbols
from headwise.engine.terms import Arrays, Terms
from headwise.native import library as native

_MAX_OUTPUT = 2**31 - 1  # maximum output length in tokens, far above any real output
_OPEN_MILLISECONDS = 60_000  # of an open search, in which every event ends the wait earlier
_WAIT_MILLISECONDS = 50  # milliseconds until a Ctrl-C is handled, at most
_UNBOUNDED = 2**28  # tokens of a batch, as many as native.cpp accepts


class Packed(Protocol):
    """The part of `NativeEngine` that a search job uses: the library, and its model's handle and configuration."""

    library: native.Library
    handle: ctypes.c_void_p
    config: ModelConfig


class SearchJob:
    """A search job over sources of valid ids; see `NativeEngine.search_at_once` and `NativeEngine.open_search`.

    Sentences are added, before or after the start, and collected as they finish. One thread at a time may collect; all
    other methods may be called by any thread.
    """

    def __init__(self, engine: Packed, symbols: Symbols) -> None:
        self._engine, self._library, self._symbols = engine, engine.library, symbols
        self._count = 0
        self._handle = ctypes.c_void_p()
        given = symbols.given[0] if symbols.given else 0
        native_symbols = native.NativeSymbols(symbols.bos, symbols.eos, given, len(symbols.given[:1]))
        self._library.call(
            "job_new",
            *(engine.handle, native_symbols, symbols.continuing, len(symbols.continuing)),
            ctypes.byref(self._handle),
        )

    def __enter__(self) -> SearchJob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()

    def __del__(self) -> None:
        self.free()

    def free(self) -> None:
        """Stop the search, wait for its threads, which end within a step, and free the job; repeated calls are safe."""
        self._library.value("job_free", ctypes.byref(self._handle))

    def add(self, sentences: Sequence[SearchSentence], *, client: int = 0) -> int:
        """Add sentences of one kind, copied to the library; returns the number of the first.

        `client` is the 64-bit number of the client whose turn they wait for.
        """
        given, options = len(self._symbols.given[:1]), sentences[0].options
        limits = [
            min(max(options.limit(len(each.source)), 1 + given + _needed(each.terms)), _MAX_OUTPUT)
            for each in sentences
        ]
        arrays = [None if each.terms is None else each.terms.arrays() for each in sentences]
        with_terms = any(each is not None for each in arrays)
        term_arrays = (native.TermArrays * len(arrays))(*map(_term_arrays, arrays)) if with_terms else None
        sources = [each.source for each in sentences]
        if not self._engine.config.source_end:
            sources = [source[:-1] or source for source in sources]
        allowed = [each.allowed_with_terms for each in sentences]
        lists = [ids for ids in allowed if ids is not None]
        # A server adds one source at a time, for which ctypes is faster than NumPy.
        offsets, most = _offsets(sources), (ctypes.c_int32 * len(limits))(*limits)
        ids = (ctypes.c_int32 * offsets[-1])(*itertools.chain.from_iterable(sources))
        list_ids = np.concatenate(lists) if lists else np.zeros(0, np.int32)
        list_offsets = _offsets(lists) if lists else None
        first = ctypes.c_int64()
        self._library.call(
            "job_add",
            *(self._handle, ids, len(ids), offsets, most, len(sources)),
            self._native_options(options),
            *(list_ids.ctypes.data, len(list_ids), list_offsets),
            None if term_arrays is None else ctypes.addressof(term_arrays),
            *(client, ctypes.byref(first)),
        )
        self._count = first.value + len(sources)
        return first.value

    def _native_options(self, options: SearchOptions) -> native.NativeOptions:
        symbols = self._symbols
        banned = [symbols.pad, symbols.bos, *([] if options.allow_unknown else [symbols.unknown])]
        return native.NativeOptions(
            *(options.beam, options.n_best, options.min_length, options.alpha, options.patience),
            min(options.no_repeat_ngram, _MAX_OUTPUT),
            native.Banned((ctypes.c_int32 * 3)(*banned), len(banned)),
        )

    def start(self, sentences: int, workers: int, tokens: int = _UNBOUNDED) -> None:
        """Start the search in `workers` threads, each with up to `sentences` sentences at once.

        `tokens` bounds the sum of their source tokens, each times its hypotheses; a longer sentence is searched alone.
        """
        self._library.call("job_start", self._handle, sentences, tokens, workers)

    def close(self) -> None:
        """Add no more sentences: the threads end when all are searched."""
        self._library.value("job_close", self._handle)

    def stop(self) -> None:
        """Tell the threads to end before their next step."""
        self._library.value("job_stop", self._handle)

    def cancel(self, number: int) -> None:
        """Give up a sentence that isn't finished: it leaves its batch before the next step and is never collected."""
        self._library.value("job_cancel", self._handle, number)

    def load(self) -> Load:
        """Return how many sentences wait and run."""
        load = native.NativeLoad()
        self._library.value("job_load", self._handle, ctypes.byref(load))
        return Load(load.waiting, load.waiting_tokens, load.running, load.rows)

    def next_finished(self) -> tuple[list[FinishedSearch], bool]:
        """Wait until sentences are finished or the search has ended; returns these, and whether it is running."""
        progress = self.wait(1, _OPEN_MILLISECONDS)
        return self.collect(progress), bool(progress.running)

    def wait(self, least: int = 2**62, milliseconds: int = _WAIT_MILLISECONDS) -> native.NativeProgress:
        """Wait until `least` sentences can be collected, one has failed, or all threads have ended.

        Can be interrupted by Ctrl-C, once in `milliseconds`. Raises `MemoryError` where a thread ran out of memory
        without a sentence, which stops the other threads too.
        """
        progress = native.NativeProgress(running=1)
        while progress.running and progress.sentences < least and not progress.failed:
            self._library.call("job_wait", self._handle, milliseconds, least, ctypes.byref(progress))
        return progress

    def collect(self, progress: native.NativeProgress) -> list[FinishedSearch]:
        """Return what `wait` found finished, in the order in which it was finished."""
        count = progress.sentences
        numbers, counts = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int32)
        failures = (ctypes.c_char_p * count)()
        lengths = np.empty(progress.outputs, dtype=np.int32)
        ids, token_log_probs = (
            np.empty(progress.tokens, dtype=np.int32),
            np.empty(progress.tokens, dtype=np.float32),
        )
        to = native.Collected(
            *(count, progress.outputs, progress.tokens, numbers.ctypes.data, counts.ctypes.data),
            *(ctypes.addressof(failures), lengths.ctypes.data, ids.ctypes.data, token_log_probs.ctypes.data),
        )
        self._library.call("job_collect", self._handle, ctypes.byref(to))
        all_ids, all_token_log_probs, all_lengths = (
            ids.tolist(),
            token_log_probs.tolist(),
            iter(lengths.tolist()),
        )
        searched, start = [], 0
        for number, outputs, message in zip(numbers.tolist(), counts.tolist(), failures, strict=True):
            each = []
            for length in itertools.islice(all_lengths, outputs):
                end = start + length
                each.append((tuple(all_ids[start : end - 1]), tuple(all_token_log_probs[start:end])))
                start = end
            failure = None if message is None else native.failure("job_collect", message)
            searched.append(FinishedSearch(number, each, failure))
        return searched

    def results(self, alpha: float) -> list[list[Hypothesis]]:
        """Wait for all sentences and return the hypotheses of each, best first, in the order in which they were added.

        Raises `MemoryError` where memory ran out, and `CheckpointError` where a source has no hypotheses, because the
        model's probabilities are not finite numbers.
        """
        searched = self.collect(self.wait(self._count))
        searched.sort(key=lambda each: (each.failure is None, each.number))
        results = [each.hypotheses(alpha, each.number + 1) for each in searched]
        if len(results) < self._count:
            raise ValueError(
                f"expected {self._count} finished sentences, found {len(results)}: the job was stopped"
            )
        return results


def _needed(terms: Terms | None) -> int:
    return 0 if terms is None else terms.length


def _term_arrays(arrays: Arrays | None) -> native.TermArrays:
    """Return pointers to an automaton's arrays, valid while `arrays` exists."""
    if arrays is None:
        return native.TermArrays()
    return native.TermArrays(
        *(len(arrays.distances), len(arrays.masks), len(arrays.edge_tokens), len(arrays.ends)),
        *(arrays.edge_offsets.ctypes.data, arrays.edge_tokens.ctypes.data, arrays.edge_nodes.ctypes.data),
        *(arrays.end_offsets.ctypes.data, arrays.ends.ctypes.data),
        *(arrays.distances.ctypes.data, arrays.masks.ctypes.data),
    )


def _offsets(sequences: Sequence[Sized]) -> ctypes.Array[ctypes.c_int64]:
    """Return the offset of each sequence in their concatenation, and the total length."""
    return (ctypes.c_int64 * (len(sequences) + 1))(0, *itertools.accumulate(map(len, sequences)))
