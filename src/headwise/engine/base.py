"""The protocol of engines, which search sentences: `Translator`, the scheduler and the server know only this.

An engine searches with a model, but isn't one: a model is a `headwise.models.base.Seq2Seq`, which only the PyTorch
engine (`headwise.decoding.engine`) knows. The native engine is `headwise.engine.native.engine`. Both are chosen and
made by `headwise.engine.loading`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headwise.config import DecodingConfig
from headwise.engine.hypotheses import Hypothesis, damaged_model_error
from headwise.engine.number_guard import SourceNumbers
from headwise.engine.options import SearchOptions
from headwise.engine.scheduling.load import Load
from headwise.engine.symbols import Symbols
from headwise.engine.terms import Terms
from headwise.engine.word_guard import SeldomWords

BATCH_TOKENS = DecodingConfig().batch_tokens


@dataclass(frozen=True, eq=False)
class SearchSentence:
    """A sentence that an engine searches.

    Attributes:
        source: ids that end with the end symbol.
        options: the search options.
        prefix: target ids with which its outputs begin; they count in the score like any other token.
        allowed: the target ids that its outputs may contain besides those of prefix and terms, int32 in ascending order
            and with the end symbol; probabilities are then normalized over the shortlist. None: all.
        terms: what its outputs must contain, not when sampling.
        lettered: whether its outputs must contain a token with a letter or a digit.
        numbers: those of its text, which the guard looks for in its best output.
        words: those of its text that are in the run's dictionary, likewise.
    """

    source: Sequence[int]
    options: SearchOptions
    prefix: Sequence[int] | None = None
    allowed: NDArray[np.int32] | None = None
    terms: Terms | None = None
    lettered: bool = False
    numbers: SourceNumbers | None = None
    words: SeldomWords | None = None

    def limit(self, prefix: int) -> int:
        """Return the largest |Y|, which leaves room for `prefix` tokens, the terms and a token with a letter."""
        needed = prefix + (0 if self.terms is None else self.terms.length) + self.lettered
        return max(self.options.limit(len(self.source)), needed + 1)

    @property
    def kind(self) -> tuple[SearchOptions, bool, bool]:
        """What all sentences of a batch have in common."""
        return self.options, self.prefix is None, self.allowed is None

    @property
    def allowed_with_terms(self) -> NDArray[np.int32] | None:
        """The allowed target ids with those of the terms, in ascending order; None: all."""
        return (
            self.allowed if self.allowed is None or self.terms is None else self.terms.added_to(self.allowed)
        )


def by_kind(sentences: Sequence[SearchSentence]) -> Iterable[list[int]]:
    """Return the indices of the sentences of each kind, in order."""
    groups: dict[object, list[int]] = {}
    for index, sentence in enumerate(sentences):
        groups.setdefault(sentence.kind, []).append(index)
    return groups.values()


@dataclass(frozen=True)
class FinishedSearch:
    """A sentence whose open search has ended.

    Attributes:
        number: the sentence's, which `OpenSearch.add` returned.
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


class OpenSearch(Protocol):
    """A search that stays open, with threads of its own; see `headwise.engine.native.job.SearchJob`."""

    def add(self, sentences: Sequence[SearchSentence], *, client: int = 0) -> int:
        """Add sentences of one kind; returns the number of the first."""
        ...

    def cancel(self, number: int) -> None:
        """Give up a sentence that isn't finished: it leaves its batch and is never collected."""
        ...

    def next_finished(self) -> tuple[Sequence[FinishedSearch], bool]:
        """Wait until sentences are finished or the search has ended; returns these, and whether it is running."""
        ...

    def load(self) -> Load:
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


class Engine(Protocol):
    """What searches sentences; all ids that it gets are valid (see `headwise.engine.ids.check_sentences`).

    `max_length` is the largest number of tokens of a sequence.
    """

    source_size: int
    target_size: int
    max_length: int

    @property
    def description(self) -> str:
        """A phrase about the engine and its precision."""
        ...

    def search(
        self,
        sentences: Sequence[SearchSentence],
        symbols: Symbols,
        *,
        batch_tokens: int = BATCH_TOKENS,
        given_up: Callable[[int], bool] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search sentences and return the hypotheses of each, in their order: by score, or when sampling as drawn.

        `batch_tokens` bounds a batch's source tokens times the hypotheses of a sentence, padding included; a longer
        sentence is a batch of its own. The batches change the speed and nothing else. `given_up` returns whether a
        sentence, given by its index, is no longer wanted; where the search is step by step, such a sentence leaves the
        batch before the next step and has no hypotheses. Raises `CheckpointError` where the model's probabilities
        aren't numbers.
        """
        ...

    def open_search(self, symbols: Symbols, batch_tokens: int) -> OpenSearch | None:
        """Start a search that stays open for sentences; None where the engine has none.

        It searches up to `batch_tokens` source tokens times hypotheses at once in each thread.
        """
        ...

    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        symbols: Symbols,
        *,
        alpha: float,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[Hypothesis]:
        """Return the log-probabilities of given outputs by forced decoding; see `headwise.decoding.scoring`."""
        ...

    def cross_attention(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        symbols: Symbols,
        *,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[NDArray[np.float32]]:
        """Return the cross-attention weights (layers, heads, target, source) of each sentence pair.

        Row t of the target axis has the weights with which target token t was predicted; the last row is for the end
        symbol. An ensemble has the layers of all its models, averaged over heads where their numbers of heads differ.
        Raises `ConfigError` for a model without cross-attention.
        """
        ...
