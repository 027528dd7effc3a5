"""A scheduler of sentences: many threads submit them, and each is handed back as soon as it is finished.

An engine with an open search of its own gets sentences of all options and clients as they come, and replaces a finished
one before the next step (continuous batching; see Yu et al. 2022, "Orca: a distributed serving system for
transformer-based generative models", where it is called iteration-level scheduling). With every other engine, sentences
are searched in dynamic batches of equal options.
Both take sentences in the order of `headwise.engine.scheduling.fair`. Results are those of `Engine.search`: bit for bit
in continuous batches, and up to the rounding of PyTorch in others.
"""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future
from functools import partial

from headwise.engine.base import BATCH_TOKENS, Engine, SearchSentence
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.ids import check_sentences
from headwise.engine.scheduling.continuous import ContinuousBatching
from headwise.engine.scheduling.dynamic import DynamicBatching
from headwise.engine.scheduling.load import Load
from headwise.engine.scheduling.submission import Submission
from headwise.engine.symbols import Symbols


class Scheduler:
    """The scheduler of one engine; its methods may be called by any thread.

    At the end of a `with` statement all sentences are finished; after an error, and where the scheduler is neither
    closed nor referenced any more, they are cancelled.
    """

    def __init__(self, engine: Engine, symbols: Symbols, *, batch_tokens: int = BATCH_TOKENS) -> None:
        """`batch_tokens` bounds a batch's source tokens times hypotheses; a longer sentence is a batch of its own."""
        self._engine, self._symbols = engine, symbols
        self._lock = threading.Lock()
        self._closed = False
        open_search = partial(engine.open_search, symbols, batch_tokens)
        search = open_search()
        self._batching = (
            DynamicBatching(engine, symbols, batch_tokens)
            if search is None
            else ContinuousBatching(search, open_search)
        )
        self._finalizer = weakref.finalize(self, self._batching.close, finish=False)

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(finish=kind is None)

    def submit(self, sentence: SearchSentence, *, client: str = "") -> Future[list[Hypothesis]]:
        """Add a sentence; returns the future of its hypotheses, best first.

        Clients share the batches equally, and each client's sentences are searched in order.

        Cancelling the future removes a waiting sentence. A running one leaves its batch before the next step; only in
        an engine that searches whole batches by itself it stays until the batch is finished.

        Raises `DataError` for ids that aren't in the vocabularies and for an invalid shortlist or terms, `ConfigError`
        for options that the engine doesn't support, and `RuntimeError` where the scheduler is closed. The future raises
        `CheckpointError` where the model's probabilities aren't finite numbers, and `MemoryError`. Its callbacks run in
        the scheduler's thread, before the results of other sentences are handed back.
        """
        check_sentences(self._engine, [sentence], self._symbols)
        submission = Submission(sentence, client)
        with self._lock:
            if self._closed:
                raise RuntimeError("the scheduler is closed: it accepts no more sentences")
            self._batching.submit(submission)
        return submission.future

    @property
    def load(self) -> Load:
        """What waits and runs, and the speed."""
        return self._batching.load

    def close(self, *, finish: bool) -> None:
        """Accept no more sentences, and end the threads.

        With `finish`, waits until all that was accepted is finished; otherwise cancels what isn't. An interrupted
        `close(finish=True)` can be followed by `close(finish=False)`.
        """
        with self._lock:
            self._closed = True
        self._batching.close(finish=finish)
        self._finalizer.detach()
