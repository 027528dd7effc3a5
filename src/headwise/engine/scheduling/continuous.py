"""Continuous batching: an engine's own search stays open, and sentences join and leave its batches at any step."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from headwise.engine.hypotheses import Hypothesis
from headwise.engine.native.job import FinishedSearch, SearchJob
from headwise.engine.scheduling.load import Load, Meter
from headwise.engine.scheduling.submission import Submission


class ContinuousBatching:
    """Submits sentences to an open search, and hands each back in a thread that waits for them.

    An error that isn't of one sentence ends the search and fails its sentences; the next one opens a new search.
    """

    def __init__(self, search: SearchJob, reopen: Callable[[], SearchJob | None]) -> None:
        """Use an open search; `reopen` opens another one after an error."""
        self._reopen = reopen
        self._lock = threading.RLock()  # protects the members below; the search isn't freed while it is used
        self._submissions: dict[int, Submission] = {}
        self._meter = Meter()
        self._closed = False
        self._start(search)

    def submit(self, submission: Submission) -> None:
        """Add a sentence; cancelling its future takes it out of the search."""
        with self._lock:
            assert not self._closed
            search = self._search
            if search is None:
                search = self._reopen()
                assert search is not None
                self._start(search)
            number = search.add([submission.sentence], client=hash(submission.client))
            self._submissions[number] = submission
            self._meter.begin()
        submission.future.add_done_callback(partial(self._cancel, search, number))

    @property
    def load(self) -> Load:
        """The sentences that wait and run, and the speed."""
        with self._lock:
            if self._search is None:
                return Load(tokens_per_second=self._meter.rate)
            return dataclasses.replace(self._search.load(), tokens_per_second=self._meter.rate)

    def close(self, *, finish: bool) -> None:
        """End the search, after all sentences are finished or at once; then their futures are cancelled."""
        with self._lock:
            self._closed = True
            if self._search is not None:
                self._search.close() if finish else self._search.stop()
        if threading.current_thread() is not self._thread:  # else this was called by a future's callback
            self._thread.join()

    def _start(self, search: SearchJob) -> None:
        self._search: SearchJob | None = search
        self._thread = threading.Thread(target=self._collect, args=(search,), name="headwise scheduler", daemon=True)
        self._thread.start()

    def _cancel(self, search: SearchJob, number: int, future: Future[list[Hypothesis]]) -> None:
        """Take the sentence of a cancelled future out of the search."""
        if not future.cancelled():
            return
        with self._lock:
            if self._search is not search or self._submissions.pop(number, None) is None:
                return
            search.cancel(number)
            self._meter.add(0, idle=not self._submissions)
        future.set_running_or_notify_cancel()

    def _collect(self, search: SearchJob) -> None:
        """Hand sentences back until the search ends."""
        error: Exception | None = None
        running = True
        while running and error is None:
            try:
                searched, running = search.next_finished()
            except Exception as found:
                searched, error = [], found
            with self._lock:
                finished = [
                    (submission, each)
                    for each in searched
                    if (submission := self._submissions.pop(each.number, None)) is not None
                ]
                if finished:
                    tokens = sum(len(submission.sentence.source) for submission, _ in finished)
                    self._meter.add(tokens, idle=not self._submissions)
            for submission, each in finished:
                submission.settle(_result(each, submission.sentence.options.alpha))
        with self._lock:
            self._search = None
            search.free()
            unfinished, self._submissions = list(self._submissions.values()), {}
            self._meter.add(0, idle=True)
        for submission in unfinished:
            if error is None:  # the search was stopped
                submission.future.cancel()
            submission.settle(error or [])


def _result(searched: FinishedSearch, alpha: float) -> list[Hypothesis] | Exception:
    try:
        return searched.hypotheses(alpha, 1)
    except Exception as error:
        return error
