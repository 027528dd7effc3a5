"""Dynamic batching: whenever a batch is finished, the next one is formed of the sentences that wait."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from headwise.decoding.batching import decode_checked
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions
from headwise.engine.scheduling.fair import FairQueue
from headwise.engine.scheduling.load import Load, Meter
from headwise.engine.scheduling.request import Request
from headwise.engine.symbols import Symbols
from headwise.models.base import Seq2Seq


class DynamicBatching:
    """Searches batches of sentences with equal options in one thread, with any model and any options."""

    def __init__(self, model: Seq2Seq, symbols: Symbols, batch_tokens: int) -> None:
        self._model, self._symbols, self._batch_tokens = model, symbols, batch_tokens
        self._changed = threading.Condition()
        self._queue: FairQueue[Request] = FairQueue()
        self._running: list[Request] = []
        self._meter = Meter()
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, request: Request) -> None:
        """Add a sentence; cancelling its future takes it out of the queue or, step by step, out of the batch."""
        with self._changed:
            assert not self._closed
            number = self._queue.add(request.client, request.cost, request)
            self._meter.begin()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headwise batches", daemon=True)
                self._thread.start()
            self._changed.notify()
        request.future.add_done_callback(partial(self._cancel, request.client, number))

    @property
    def load(self) -> Load:
        """The sentences that wait and run, and the speed."""
        with self._changed:
            tokens = sum(len(request.source) for request in self._queue)
            running = [request for request in self._running if not request.future.cancelled()]
            rows = sum(request.options.rows for request in running)
            return Load(len(self._queue), tokens, len(running), rows, self._meter.rate)

    def close(self, *, finish: bool) -> None:
        """End the thread, after all sentences are finished or at once; then their futures are cancelled."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            requests = [] if finish else [*self._queue, *self._running]
        for request in requests:
            request.future.cancel()
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join()

    def _cancel(self, client: str, number: int, future: Future[list[Hypothesis]]) -> None:
        """Take the sentence of a cancelled future out of the queue."""
        if not future.cancelled():
            return
        with self._changed:
            if not self._queue.remove(client, number):
                return
            self._meter.add(0, idle=not (self._queue or self._running))
        future.set_running_or_notify_cancel()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._queue) or self._closed)
                if not self._queue:
                    return
                self._running = batch = self._next_batch()
            results = self._search(batch)
            with self._changed:
                self._running = []
                self._meter.add(sum(len(request.source) for request in batch), idle=not self._queue)
            for request, result in zip(batch, results, strict=True):
                request.settle(result)

    def _next_batch(self) -> list[Request]:
        """Return the sentence whose turn it is and others that can be in its batch."""
        first = self._queue.pop()
        most = self._batch_tokens // first.options.rows  # sentences times the longest length
        size, longest = 1, len(first.source)

        def joins(request: Request) -> bool:
            nonlocal size, longest
            if _kind(request) != _kind(first) or (size + 1) * max(longest, len(request.source)) > most:
                return False
            size, longest = size + 1, max(longest, len(request.source))
            return True

        return [first, *self._queue.pop_where(joins)]

    def _search(self, batch: list[Request]) -> Sequence[list[Hypothesis] | Exception]:
        """Return each sentence's hypotheses or error."""
        prefixes = [request.prefix for request in batch if request.prefix is not None]
        lists = [request.allowed for request in batch if request.allowed is not None]
        try:
            return decode_checked(
                self._model,
                [request.source for request in batch],
                batch[0].options,
                self._symbols,
                batch_tokens=self._batch_tokens,
                prefixes=prefixes or None,
                lists=lists or None,
                terms=[request.terms for request in batch],
                given_up=lambda index: batch[index].future.cancelled(),
            )
        except Exception as error:
            if len(batch) == 1:
                return [error]
            return [
                result for request in batch for result in self._search([request])
            ]  # only one may be at fault


def _kind(request: Request) -> tuple[SearchOptions, bool, bool]:
    """Return what all sentences of a batch have in common."""
    return request.options, request.prefix is None, request.allowed is None
