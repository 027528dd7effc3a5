"""A native search job, to which sentences are added at any time and which can be interrupted at any time.

The library's own threads search. A thread that waits for them does so in intervals, between which Python handles
Ctrl-C. The threads check the job's stop flag at every step; freeing the job sets the flag and waits for all threads.
Memory that a thread uses can't be freed early, because only that call frees the job, and the job references the engine.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.engine.base import Ids, SearchSentence
from headwise.engine.hypotheses import Hypothesis, damaged_model_error
from headwise.engine.native.packing import PackedModel
from headwise.engine.options import SearchOptions
from headwise.engine.scheduling.load import Load
from headwise.engine.symbols import Symbols
from headwise.engine.terms import Terms
from headwise.engine.uniforms import uniforms
from headwise.native import library as native

_MAX_OUTPUT = 2**31 - 1  # maximum output length in tokens, far above any real output
_OPEN_MILLISECONDS = 60_000  # of an open search, in which every event ends the wait earlier
_WAIT_MILLISECONDS = 50  # milliseconds until a Ctrl-C is handled, at most
_UNBOUNDED = 2**28  # tokens of a batch, as many as native.cpp accepts


class Forced(IntEnum):
    """Mirror of `Forced` in beam.h: outputs continue the prefixes, or are these, to be scored, with weights or not."""

    BEGINS = 0
    ALL = 1
    WEIGHTS = 2


@dataclass(frozen=True)
class FinishedSearch:
    """A sentence whose open search has ended.

    Attributes:
        number: the sentence's, which `SearchJob.add` returned.
        outputs: target ids, without the end symbol, and log-probabilities of each output, best first.
        failure: the error that ended the search.
        weights: of the cross-attention of a given output, (layers, heads, target, source); None unless asked for.
    """

    number: int
    outputs: Sequence[tuple[tuple[int, ...], tuple[float, ...]]]
    failure: Exception | None
    weights: NDArray[np.float32] | None = None

    def hypotheses(self, alpha: float, position: int) -> list[Hypothesis]:
        """Return the outputs with their scores; `position` is the sentence's in its batch, from 1.

        Raises `failure`, and `CheckpointError` where there are no outputs, because the model's probabilities are not
        finite numbers.
        """
        if self.failure is not None:
            raise self.failure
        if not self.outputs:
            raise damaged_model_error(position)
        return [Hypothesis.scored(tokens, log_probs, alpha) for tokens, log_probs in self.outputs]


class SearchJob:
    """A search job over sources of valid ids; see `NativeEngine.search_at_once` and `NativeEngine.open_search`.

    Sentences are added, before or after the start, and collected as they finish. One thread at a time may collect; all
    other methods may be called by any thread.
    """

    def __init__(self, models: Sequence[PackedModel], symbols: Symbols) -> None:
        """Search with one model, or the mean of several models' probabilities."""
        self._models, self._library, self._symbols = models, models[0].library, symbols
        self._count = 0
        self._recorded: dict[int, tuple[int, int]] = {}  # sizes (target, source) of weights, by sentence
        self._handle = ctypes.c_void_p()
        handles = (ctypes.c_void_p * len(models))(*(model.handle.value for model in models))
        given = (ctypes.c_int32 * len(symbols.given))(*symbols.given)
        self._library.call(
            "job_new",
            *(handles, len(models), native.NativeSymbols(symbols.bos, symbols.eos), given, len(given)),
            *(symbols.continuing, len(symbols.continuing), symbols.lettered, len(symbols.lettered)),
            ctypes.byref(self._handle),
        )

    def __enter__(self) -> SearchJob:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    def __del__(self) -> None:
        self.free()

    def free(self) -> None:
        """Stop the search, wait for its threads, which end within a step, and free the job; repeated calls are safe."""
        self._library.value("job_free", ctypes.byref(self._handle))

    def add(self, sentences: Sequence[SearchSentence], *, client: int = 0, forced: Forced = Forced.BEGINS) -> int:
        """Add sentences of one kind, copied to the library; returns the number of the first.

        `client` is the 64-bit number of the client whose turn they wait for. `forced` tells what the prefixes are.
        """
        options = sentences[0].options
        prefixes = [self._symbols.beginning(each.prefix) for each in sentences]
        limits = [
            min(len(prefix) + 1 if forced else each.limit(len(prefix)), _MAX_OUTPUT)
            for each, prefix in zip(sentences, prefixes, strict=True)
        ]
        # A server adds one source at a time, for which ctypes is faster than NumPy.
        sources = [each.source for each in sentences]
        (ids, offsets), (prefix_ids, prefix_offsets) = _joined(sources), _joined(prefixes)
        most = (ctypes.c_int32 * len(limits))(*limits)
        lists = [listed for each in sentences if (listed := each.all_allowed) is not None]
        list_offsets = _offsets(lists) if lists else None
        list_ids = np.concatenate(lists) if lists else np.zeros(0, np.int32)
        kept: list[NDArray[Any]] = []  # arrays that the terms point to
        terms = None
        if any(each.terms is not None for each in sentences):
            terms = (native.TermArrays * len(sentences))(*(_term_arrays(each.terms, kept) for each in sentences))
        lettered = (ctypes.c_uint8 * len(sources))(*(each.lettered for each in sentences))
        numbers = np.zeros(0)
        if options.sample:
            pairs = zip(sources, limits, strict=True)
            parts = [uniforms(source, options.rows, limit, options.seed).ravel() for source, limit in pairs]
            numbers = np.concatenate(parts)
        to_add = native.Sentences(
            *(len(sources), len(ids), len(prefix_ids), len(list_ids), len(numbers)),
            *(_address(ids), _address(offsets), _address(prefix_ids), _address(prefix_offsets)),
            *(list_ids.ctypes.data, _address(list_offsets), _address(most), _address(terms)),
            *(_address(lettered), numbers.ctypes.data),
        )
        first = ctypes.c_int64()
        native_options = self._native_options(options, forced)
        self._library.call("job_add", self._handle, to_add, native_options, client, ctypes.byref(first))
        if forced == Forced.WEIGHTS:
            self._recorded |= enumerate(zip(limits, map(len, sources), strict=True), first.value)
        self._count = first.value + len(sources)
        return first.value

    def _native_options(self, options: SearchOptions, forced: Forced) -> native.NativeOptions:
        symbols = self._symbols
        banned = [symbols.pad, symbols.bos, *([] if options.allow_unknown else [symbols.unknown])]
        return native.NativeOptions(
            *(options.rows, options.n_best, options.min_length, options.alpha, options.patience),
            *(min(options.no_repeat_ngram, _MAX_OUTPUT), options.sample, options.top_k),
            *(options.temperature, options.top_p, forced),
            native.Banned((ctypes.c_int32 * 3)(*banned), len(banned)),
        )

    def start(self, sentences: int, workers: int, tokens: int = _UNBOUNDED) -> None:
        """Start the search in `workers` threads, each with up to `sentences` sentences at once.

        `tokens` bounds the sum of their source tokens, each times its hypotheses; a longer sentence is searched alone.
        """
        self._library.call("job_start", self._handle, sentences, min(tokens, _UNBOUNDED), workers)

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
        ids, log_probs = np.empty(progress.tokens, dtype=np.int32), np.empty(progress.tokens, np.float32)
        weights = np.empty(progress.weights, dtype=np.float32)
        to = native.Collected(
            *(count, progress.outputs, progress.tokens, progress.weights),
            *(numbers.ctypes.data, counts.ctypes.data, ctypes.addressof(failures), lengths.ctypes.data),
            *(ids.ctypes.data, log_probs.ctypes.data, weights.ctypes.data),
        )
        self._library.call("job_collect", self._handle, ctypes.byref(to))
        next_ids, next_log_probs, next_lengths = (
            iter(ids.tolist()),
            iter(log_probs.tolist()),
            iter(lengths.tolist()),
        )
        searched = []
        for number, outputs, message in zip(numbers.tolist(), counts.tolist(), failures, strict=True):
            each = [
                (tuple(islice(next_ids, length))[:-1], tuple(islice(next_log_probs, length)))
                for length in islice(next_lengths, outputs)
            ]
            failure = None if message is None else native.failure("job_collect", message)
            sizes, found = self._recorded.pop(number, None), None
            if sizes is not None and each:
                found, weights = self._weights(weights, *sizes)
            searched.append(FinishedSearch(number, each, failure, found))
        return searched

    def _weights(
        self, values: NDArray[np.float32], target: int, source: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the weights (layers, heads, target, source) of a sentence from the first values; and the others."""
        parts = []
        for config in (model.config for model in self._models):
            read = source if config.source_end or source == 1 else source - 1
            shape = (config.decoder_layers, target, config.heads, read)
            size = math.prod(shape)
            part = values[:size].reshape(shape).transpose(0, 2, 1, 3)
            parts.append(np.pad(part, ((0, 0), (0, 0), (0, 0), (0, source - read))))
            values = values[size:]
        if len({part.shape[1] for part in parts}) > 1:
            parts = [part.mean(1, keepdims=True) for part in parts]
        return np.concatenate(parts), values

    def finished(self) -> list[FinishedSearch]:
        """Wait for all sentences and return them in the order in which they were added.

        Raises the first failure, which is a `MemoryError` where memory ran out.
        """
        searched = self.collect(self.wait(self._count))
        searched.sort(key=lambda each: (each.failure is None, each.number))
        if searched and searched[0].failure is not None:
            raise searched[0].failure
        if len(searched) < self._count:
            raise ValueError(f"expected {self._count} finished sentences, found {len(searched)}: the job was stopped")
        return searched


def _address(array: ctypes.Array[Any] | None) -> int | None:
    return None if array is None else ctypes.addressof(array)


def _term_arrays(terms: Terms | None, kept: list[NDArray[Any]]) -> native.TermArrays:
    """Return pointers to an automaton's arrays, which are added to `kept` and must outlive them.

    Offsets are those of each node's edges or ends, and of the end.
    """
    if terms is None:
        return native.TermArrays()
    edges = [terms.advancing(node) for node in range(len(terms.ends))]
    arrays = [
        np.array([0, *accumulate(map(len, edges))], dtype=np.int32),
        np.array([token for each in edges for token in each], dtype=np.int32),
        np.array([node for each in edges for node in each.values()], dtype=np.int32),
        np.array([0, *accumulate(map(len, terms.ends))], dtype=np.int32),
        np.array([term for ends in terms.ends for term in ends], dtype=np.int32),
        np.array(terms.distances, dtype=np.int32),  # (nodes, terms)
        np.array(terms.masks, dtype=np.uint64),
    ]
    kept += arrays
    return native.TermArrays(
        *(len(edges), len(terms.masks), len(arrays[1]), len(arrays[4])),
        *(array.ctypes.data for array in arrays),
    )


def _joined(sequences: Ids) -> tuple[ctypes.Array[ctypes.c_int32], ctypes.Array[ctypes.c_int64]]:
    """Return the concatenation of sequences, and the offset of each in it with the total length."""
    offsets = _offsets(sequences)
    return (ctypes.c_int32 * offsets[-1])(*chain.from_iterable(sequences)), offsets


def _offsets(sequences: Sequence[Sized]) -> ctypes.Array[ctypes.c_int64]:
    """Return the offset of each sequence in their concatenation, and the total length."""
    return (ctypes.c_int64 * (len(sequences) + 1))(0, *accumulate(map(len, sequences)))
