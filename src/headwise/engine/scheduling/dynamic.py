"""Dynamic batching: whenever a batch is finished, the next one is formed of the sentences that wait."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from headwise.engine.base import Engine
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.scheduling.fair import FairQueue
from headwise.engine.scheduling.load import Load, Meter
from headwise.engine.scheduling.submission import Submission
from headwise.engine.symbols import Symbols


class DynamicBatching:
    """Searches batches of sentences with equal options in one thread, with any engine and any options."""

    def __init__(self, engine: Engine, symbols: Symbols, batch_tokens: int) -> None:
        self._engine, self._symbols, self._batch_tokens = engine, symbols, batch_tokens
        self._changed = threading.Condition()
        self._queue: FairQueue[Submission] = FairQueue()
        self._running: list[Submission] = []
        self._meter = Meter()
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, submission: Submission) -> None:
        """Add a sentence; cancelling its future takes it out of the queue or, step by step, out of the batch."""
        with self._changed:
            assert not self._closed
            number = self._queue.add(submission.client, submission.sentence.cost, submission)
            self._meter.begin()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headwise batches", daemon=True)
                self._thread.start()
            self._changed.notify()
        submission.future.add_done_callback(partial(self._cancel, submission.client, number))

    @property
    def load(self) -> Load:
        """The sentences that wait and run, and the speed."""
        with self._changed:
            tokens = sum(len(submission.sentence.source) for submission in self._queue)
            running = [submission for submission in self._running if not submission.future.cancelled()]
            rows = sum(submission.sentence.options.rows for submission in running)
            return Load(len(self._queue), tokens, len(running), rows, self._meter.rate)

    def close(self, *, finish: bool) -> None:
        """End the thread, after all sentences are finished or at once; then their futures are cancelled."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            submissions = [] if finish else [*self._queue, *self._running]
        for submission in submissions:
            submission.future.cancel()
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
                self._meter.add(sum(len(submission.sentence.source) for submission in batch), idle=not self._queue)
            for submission, result in zip(batch, results, strict=True):
                submission.settle(result)

    def _next_batch(self) -> list[Submission]:
        """Return the sentence whose turn it is and others that can be in its batch."""
        first = self._queue.pop()
        size, largest = 1, first.sentence.cost

        def joins(submission: Submission) -> bool:
            nonlocal size, largest
            larger = max(largest, submission.sentence.cost)
            if submission.sentence.kind != first.sentence.kind or (size + 1) * larger > self._batch_tokens:
                return False
            size, largest = size + 1, larger
            return True

        return [first, *self._queue.pop_where(joins)]

    def _search(self, batch: list[Submission]) -> Sequence[list[Hypothesis] | Exception]:
        """Return each sentence's hypotheses or error."""
        try:
            return self._engine.search(
                [submission.sentence for submission in batch],
                self._symbols,
                batch_tokens=self._batch_tokens,
                given_up=lambda index: batch[index].future.cancelled(),
            )
        except Exception as error:
            if len(batch) == 1:
                return [error]
            # Only one may be at fault.
            return [result for submission in batch for result in self._search([submission])]
