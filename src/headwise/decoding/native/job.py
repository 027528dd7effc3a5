"""One native search over many sentences, which may be interrupted at any moment.

The library's own threads search, and the thread that asked waits for them, a little while at a time: in between Python
hears a Ctrl-C. The threads look at the job's flag at every step; freeing the job sets it and waits for the last of
them. Nothing can free what a thread still uses, as the job is freed only there, and it keeps the engine.
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
from headwise.decoding.search import damaged

_LONGEST = 2**31 - 1  # tokens; no output comes near
_HEARING = 50  # milliseconds, after which a Ctrl-C is heard at the latest


class Engine(Protocol):
    """What a search needs of `NativeTransformer`: the library, and its model."""

    library: native.Library
    handle: ctypes.c_void_p


class SearchJob:
    """A search of these sources, ids that were checked, with these options; see `NativeTransformer.search`."""

    def __init__(
        self,
        engine: Engine,
        sources: Sequence[Sequence[int]],
        options: SearchOptions,
        symbols: Symbols,
        lists: Sequence[NDArray[np.int32]] | None,
    ) -> None:
        """Copy all of it to the library."""
        self._engine, self._library = engine, engine.library
        self._options, self._count = options, len(sources)
        self._handle = ctypes.c_void_p()
        offsets = _offsets(sources)
        ids = np.fromiter(itertools.chain.from_iterable(sources), dtype=np.int32, count=int(offsets[-1]))
        limits = np.asarray([min(options.limit(len(source)), _LONGEST) for source in sources], dtype=np.int32)
        listed = np.concatenate([np.zeros(0, np.int32), *(lists or [])])
        begins = None if lists is None else _offsets(lists)
        banned = [symbols.pad, symbols.bos, *([] if options.allow_unknown else [symbols.unknown])]
        self._library.call(
            "job_new",
            *(
                engine.handle,
                ids.ctypes.data,
                len(ids),
                offsets.ctypes.data,
                limits.ctypes.data,
                len(sources),
            ),
            native.Options(options.beam, options.n_best, options.min_length, options.alpha, options.patience),
            native.Symbols(symbols.bos, symbols.eos, (ctypes.c_int32 * 3)(*banned), len(banned)),
            *(listed.ctypes.data, len(listed), None if begins is None else begins.ctypes.data),
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
        """End the search, wait until its threads have ended, within a step, and free it. Twice is once."""
        self._library.value("job_free", ctypes.byref(self._handle))

    def start(self, sentences: int, workers: int) -> None:
        """Begin the search in so many threads, each with up to `sentences` at once."""
        self._library.call("job_start", self._handle, sentences, workers)

    def stop(self) -> None:
        """Ask the threads to end before their next step; there are no results then."""
        self._library.value("job_stop", self._handle)

    def wait(self) -> None:
        """Wait until all threads have ended, for interruptions too.

        Raises `MemoryError` where one of them failed for want of it, which stopped the others.
        """
        running = ctypes.c_int32(1)
        while running.value:
            self._library.call("job_wait", self._handle, _HEARING, ctypes.byref(running))

    def results(self) -> list[list[Hypothesis]]:
        """Wait, and return each source's hypotheses, best first.

        Raises `CheckpointError` where one has none, as the model's probabilities were not numbers.
        """
        self.wait()
        size = self._library.value("job_size", self._handle)
        lengths = np.empty((self._count, self._options.n_best), dtype=np.int32)
        tokens, gains = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32)
        places = (lengths.ctypes.data, lengths.size, tokens.ctypes.data, gains.ctypes.data, size)
        self._library.call("job_outputs", self._handle, *places)
        all_tokens, all_gains = tokens.tolist(), gains.tolist()
        results, place = [], 0
        for number, row in enumerate(lengths.tolist(), start=1):
            if not row[0]:
                raise damaged(number)
            found = []
            for length in filter(None, row):
                end = place + length
                parts = all_gains[place:end]
                total = sum(parts)
                score = total / length_penalty(length, self._options.alpha)
                found.append(Hypothesis(tuple(all_tokens[place : end - 1]), total, score, tuple(parts)))
                place = end
            results.append(found)
        return results


def _offsets(rows: Sequence[Sized]) -> NDArray[np.int64]:
    """Return where each row begins when they stand one after the other, and the end."""
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return offsets
