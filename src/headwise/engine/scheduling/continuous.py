"""Continuous batching: an engine's own search stays open, and sentences join and leave its batches at any step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions
from headwise.engine.scheduling.load import Load, Meter
from headwise.engine.scheduling.request import Request
from headwise.engine.terms import Terms

_WAIT_MILLISECONDS = 60_000  # every event ends the wait earlier


class Searched(Protocol):
    """A sentence whose search has ended."""

    @property
    def number(self) -> int:
        """The number that `OpenSearch.add` returned."""
        ...

    def hypotheses(self, alpha: float, position: int) -> list[Hypothesis]:
        """Return the hypotheses with their scores; raises the error that ended the search."""
        ...


class Progress(Protocol):
    """What `OpenSearch.wait` found: whether the search goes on."""

    running: Any


class OpenSearch(Protocol):
    """A search that is open for sentences, with threads of its own; see `headwise.engine.native.job.SearchJob`."""

    def add(
        self,
        sources: Sequence[Sequence[int]],
        options: SearchOptions,
        lists: Sequence[NDArray[np.int32]] | None = None,
        *,
        terms: Sequence[Terms | None] | None = None,
        client: int = 0,
    ) -> int:
        """Add sentences with their shortlists and terms; returns the number of the first."""
        ...

    def cancel(self, number: int) -> None:
        """Give up a sentence that isn't finished: it leaves its batch and is never collected."""
        ...

    def wait(self, least: int, milliseconds: int) -> Any:
        """Wait until `least` sentences are finished or the search has ended; returns a `Progress`."""
        ...

    def collect(self, progress: Any) -> Sequence[Searched]:
        """Return the finished sentences that `wait` found."""
        ...

    def load(self) -> Any:
        """Return the counts `waiting`, `waiting_tokens`, `running` and `rows`."""
        ...

    def close(self) -> None:
        """Add no more sentences: the search ends when all are searched."""
        ...

    def stop(self) -> None:
        """End the search before its next step."""
        ...

    def free(self) -> None:
        """Stop, wait for the threads and free the memory."""
        ...


class ContinuousBatching:
    """Submits sentences to an open search, and hands each back in a thread that waits for them.

    An error that isn't of one sentence ends the search and fails its sentences; the next one opens a new search.
    """

    def __init__(self, search: OpenSearch, reopen: Callable[[], OpenSearch]) -> None:
        """Use an open search; `reopen` opens another one after an error."""
        self._reopen = reopen
        self._lock = threading.RLock()  # protects the members below; the search isn't freed while it is used
        self._requests: dict[int, Request] = {}
        self._meter = Meter()
        self._closed = False
        self._start(search)

    def submit(self, request: Request) -> None:
        """Add a sentence; cancelling its future takes it out of the search."""
        with self._lock:
            assert not self._closed
            search = self._search
            if search is None:
                search = self._reopen()
                self._start(search)
            lists, terms = None, None
            if request.terms is not None:
                terms = [request.terms]
            if request.allowed is not None:
                lists = [request.allowed if terms is None else terms[0].added_to(request.allowed)]
            number = search.add(
                [request.source], request.options, lists, terms=terms, client=hash(request.client)
            )
            self._requests[number] = request
            self._meter.begin()
        request.future.add_done_callback(partial(self._cancel, search, number))

    @property
    def load(self) -> Load:
        """The sentences that wait and run, and the speed."""
        with self._lock:
            if self._search is None:
                return Load(tokens_per_second=self._meter.rate)
            load = self._search.load()
            return Load(load.waiting, load.waiting_tokens, load.running, load.rows, self._meter.rate)

    def close(self, *, finish: bool) -> None:
        """End the search, after all sentences are finished or at once; then their futures are cancelled."""
        with self._lock:
            self._closed = True
            if self._search is not None:
                self._search.close() if finish else self._search.stop()
        if threading.current_thread() is not self._thread:  # else this was called by a future's callback
            self._thread.join()

    def _start(self, search: OpenSearch) -> None:
        self._search: OpenSearch | None = search
        self._thread = threading.Thread(
            target=self._collect, args=(search,), name="headwise scheduler", daemon=True
        )
        self._thread.start()

    def _cancel(self, search: OpenSearch, number: int, future: Future[list[Hypothesis]]) -> None:
        """Take the sentence of a cancelled future out of the search."""
        if not future.cancelled():
            return
        with self._lock:
            if self._search is not search or self._requests.pop(number, None) is None:
                return
            search.cancel(number)
            self._meter.add(0, idle=not self._requests)
        future.set_running_or_notify_cancel()

    def _collect(self, search: OpenSearch) -> None:
        """Hand sentences back until the search ends."""
        error: Exception | None = None
        running = True
        while running and error is None:
            try:
                progress = search.wait(1, _WAIT_MILLISECONDS)
                searched = search.collect(progress)
                running = progress.running
            except Exception as found:
                searched, error = [], found
            with self._lock:
                finished = [
                    (request, each)
                    for each in searched
                    if (request := self._requests.pop(each.number, None)) is not None
                ]
                if finished:
                    tokens = sum(len(request.source) for request, _ in finished)
                    self._meter.add(tokens, idle=not self._requests)
            for request, each in finished:
                request.settle(_result(each, request.options.alpha))
        with self._lock:
            self._search = None
            search.free()
            unfinished, self._requests = list(self._requests.values()), {}
            self._meter.add(0, idle=True)
        for request in unfinished:
            if error is None:  # the search was stopped
                request.future.cancel()
            request.settle(error or [])


def _result(searched: Searched, alpha: float) -> list[Hypothesis] | Exception:
    try:
        return searched.hypotheses(alpha, 1)
    except Exception as error:
        return error
