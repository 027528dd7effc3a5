"""Scheduler of sentences: each is submitted on its own and comes back when it is finished.

A thread takes what waits, the clients in turn, and searches sentences with the same options in one batch.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.decoding.batching import BATCH_TOKENS, decode
from headwise.decoding.beam.constraints import Symbols
from headwise.decoding.beam.hypothesis import Hypothesis
from headwise.decoding.options import SearchOptions
from headwise.decoding.scheduling.load import Load
from headwise.models.base import Seq2Seq


@dataclass(frozen=True)
class _Sentence:
    source: tuple[int, ...]
    options: SearchOptions
    client: str
    prefix: tuple[int, ...] | None
    allowed: NDArray[np.int32] | None
    future: Future[list[Hypothesis]]


class Scheduler:
    """Searches sentences of any number of threads with one model."""

    def __init__(self, model: Seq2Seq, symbols: Symbols, *, batch_tokens: int = BATCH_TOKENS) -> None:
        self._model, self._symbols, self._batch_tokens = model, symbols, batch_tokens
        self._waiting: deque[_Sentence] = deque()
        self._running: list[_Sentence] = []
        self._rate = 0.0
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="scheduler", daemon=True)
        self._thread.start()

    def submit(
        self,
        source: Sequence[int],
        options: SearchOptions,
        *,
        client: str = "",
        prefix: Sequence[int] | None = None,
        allowed: NDArray[np.int32] | None = None,
    ) -> Future[list[Hypothesis]]:
        """Submit a sentence; the future has its hypotheses, and cancelling it removes the sentence."""
        future: Future[list[Hypothesis]] = Future()
        fixed = None if prefix is None else tuple(prefix)
        with self._changed:
            if self._closed:
                raise RuntimeError("the scheduler is closed")
            self._waiting.append(_Sentence(tuple(source), options, client, fixed, allowed, future))
            self._changed.notify()
        return future

    @property
    def load(self) -> Load:
        """What waits and runs now."""
        with self._changed:
            waiting = [one for one in self._waiting if not one.future.cancelled()]
            tokens = sum(len(one.source) for one in waiting)
            rows = sum(one.options.rows for one in self._running)
            return Load(len(waiting), tokens, len(self._running), rows, self._rate)

    def close(self, *, finish: bool) -> None:
        """End the thread, after what was accepted is finished, or at once with what waits cancelled."""
        with self._changed:
            self._closed = True
            if not finish:
                for one in self._waiting:
                    one.future.cancel()
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next():
            begun = time.monotonic()
            try:
                found = decode(
                    self._model,
                    [one.source for one in batch],
                    batch[0].options,
                    self._symbols,
                    batch_tokens=self._batch_tokens,
                    prefixes=None if batch[0].prefix is None else [one.prefix or () for one in batch],
                )
            except Exception as error:  # the thread that waits for the future raises it
                for one in batch:
                    one.future.set_exception(error)
                continue
            finally:
                self._running = []
            self._rate = sum(len(one.source) for one in batch) / max(time.monotonic() - begun, 1e-6)
            for one, hypotheses in zip(batch, found, strict=True):
                one.future.set_result(hypotheses)

    def _next(self) -> list[_Sentence]:
        """Wait for sentences and return those of one batch; empty when the scheduler is closed."""
        with self._changed:
            while not self._running:
                self._waiting = deque(one for one in self._waiting if not one.future.cancelled())
                if self._waiting:
                    self._take()
                elif self._closed:
                    break
                else:
                    self._changed.wait()
            return self._running

    def _take(self) -> None:
        """Move sentences with the options of the first one from the queue to the batch."""
        first, tokens = self._waiting[0], 0
        rest: deque[_Sentence] = deque()
        for one in self._waiting:
            like = one.options == first.options and (one.prefix is None) == (first.prefix is None)
            tokens += len(one.source) * one.options.rows
            if not like or (self._running and tokens > self._batch_tokens):
                rest.append(one)
            elif one.future.set_running_or_notify_cancel():
                self._running.append(one)
        self._waiting = rest
