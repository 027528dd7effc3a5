"""A native search job over many sentences, which can be interrupted at any time.

The library's own threads search. The calling thread waits for them in short intervals, between which Python handles
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
from numpy.typing import NDArray

from headwise.decoding.beam.constraints import Symbols
from headwise.decoding.beam.hypothesis import Hypothesis, length_penalty
from headwise.decoding.native import library as native
from headwise.decoding.options import SearchOptions
from headwise.decoding.search import damaged_model_error

_MAX_OUTPUT = 2**31 - 1  # maximum output length in tokens, far above any real output
_WAIT_MILLISECONDS = 50  # milliseconds until a Ctrl-C is handled, at most


class Engine(Protocol):
    """The part of `NativeTransformer` that a search job uses: the library and the handle of its model."""

    library: native.Library
    handle: ctypes.c_void_p


class SearchJob:
    """A search job over sources of valid ids; see `NativeTransformer.search`."""

    def __init__(
        self,
        engine: Engine,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        options: SearchOptions,
        symbols: Symbols,
        lists: Sequence[NDArray[np.int32]] | None,
    ) -> None:
        """Copy the arguments to the library; `limits` are the maximum output lengths, end symbol included."""
        self._engine, self._library = engine, engine.library
        self._options, self._count = options, len(sources)
        self._handle = ctypes.c_void_p()
        offsets = _offsets(sources)
        ids = np.fromiter(itertools.chain.from_iterable(sources), dtype=np.int32, count=int(offsets[-1]))
        least = 1 + len(symbols.given[:1])
        most = np.asarray([min(max(limit, least), _MAX_OUTPUT) for limit in limits], dtype=np.int32)
        list_ids = np.concatenate([np.zeros(0, np.int32), *(lists or [])])
        list_offsets = None if lists is None else _offsets(lists)
        banned = [symbols.pad, symbols.bos, *([] if options.allow_unknown else [symbols.unknown])]
        self._library.call(
            "job_new",
            *(
                engine.handle,
                ids.ctypes.data,
                len(ids),
                offsets.ctypes.data,
                most.ctypes.data,
                len(sources),
            ),
            native.Options(options.beam, options.n_best, options.min_length, options.alpha, options.patience),
            native.Symbols(
                *(symbols.bos, symbols.eos, (ctypes.c_int32 * 3)(*banned), len(banned)),
                *(symbols.given[0] if symbols.given else 0, len(symbols.given[:1])),
            ),
            *(
                list_ids.ctypes.data,
                len(list_ids),
                None if list_offsets is None else list_offsets.ctypes.data,
            ),
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

    def start(self, sentences: int, workers: int) -> None:
        """Start the search in `workers` threads, each with up to `sentences` sentences at once."""
        self._library.call("job_start", self._handle, sentences, workers)

    def stop(self) -> None:
        """Tell the threads to end before their next step; the job then has no results."""
        self._library.value("job_stop", self._handle)

    def wait(self) -> None:
        """Wait until all threads have ended; can be interrupted by Ctrl-C.

        Raises `MemoryError` where a thread ran out of memory, which stops the other threads too.
        """
        running = ctypes.c_int32(1)
        while running.value:
            self._library.call("job_wait", self._handle, _WAIT_MILLISECONDS, ctypes.byref(running))

    def results(self) -> list[list[Hypothesis]]:
        """Wait for the search and return each source's hypotheses, best first.

        Raises `CheckpointError` where a source has none, because the model's probabilities are not finite numbers.
        """
        self.wait()
        size = self._library.value("job_size", self._handle)
        lengths = np.empty((self._count, self._options.n_best), dtype=np.int32)
        tokens, gains = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32)
        pointers = (lengths.ctypes.data, lengths.size, tokens.ctypes.data, gains.ctypes.data, size)
        self._library.call("job_outputs", self._handle, *pointers)
        all_tokens, all_gains = tokens.tolist(), gains.tolist()
        results, start = [], 0
        for number, row_lengths in enumerate(lengths.tolist(), start=1):
            if not row_lengths[0]:
                raise damaged_model_error(number)
            hypotheses = []
            for length in filter(None, row_lengths):
                end = start + length
                log_probs = all_gains[start:end]
                total = sum(log_probs)
                score = total / length_penalty(length, self._options.alpha)
                hypotheses.append(
                    Hypothesis(tuple(all_tokens[start : end - 1]), total, score, tuple(log_probs))
                )
                start = end
            results.append(hypotheses)
        return results


def _offsets(sequences: Sequence[Sized]) -> NDArray[np.int64]:
    """Return the offset of each sequence in their concatenation, and the total length."""
    offsets = np.zeros(len(sequences) + 1, dtype=np.int64)
    np.cumsum([len(sequence) for sequence in sequences], out=offsets[1:])
    return offsets
