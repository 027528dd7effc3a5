"""The protocol of engines, which search sentences: `Translator`, the scheduler and the server know only this.

An engine searches with a model, but isn't one: a model is a `headwise.models.base.Seq2Seq`, which only the PyTorch
engine (`headwise.decoding.engine`) knows. The native engine is `headwise.engine.native.engine`. Both are chosen and
made by `headwise.engine.loading`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from headwise.config import DecodingConfig
from headwise.engine.guards.numbers import SourceNumbers
from headwise.engine.guards.quotations import SourceQuotations
from headwise.engine.guards.words import DictionaryWords
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.options import SearchOptions
from headwise.engine.symbols import Symbols
from headwise.engine.terms import Terms

if TYPE_CHECKING:
    from headwise.engine.native.job import SearchJob

BATCH_TOKENS = DecodingConfig().batch_tokens
Ids = Sequence[Sequence[int]]  # of several sentences


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
        quotations: those of its text, likewise.
    """

    source: Sequence[int]
    options: SearchOptions
    prefix: Sequence[int] | None = None
    allowed: NDArray[np.int32] | None = None
    terms: Terms | None = None
    lettered: bool = False
    numbers: SourceNumbers | None = None
    words: DictionaryWords | None = None
    quotations: SourceQuotations | None = None

    def limit(self, prefix: int) -> int:
        """Return the largest |Y|, which leaves room for `prefix` tokens, the terms and a token with a letter."""
        needed = prefix + (0 if self.terms is None else self.terms.length) + self.lettered
        return max(self.options.limit(len(self.source)), needed + 1)

    @property
    def cost(self) -> int:
        """The part of a batch that it takes: source tokens times hypotheses."""
        return len(self.source) * self.options.rows

    @property
    def kind(self) -> tuple[SearchOptions, bool, bool]:
        """What all sentences of a batch have in common."""
        return self.options, self.prefix is None, self.allowed is None

    @property
    def all_allowed(self) -> NDArray[np.int32] | None:
        """The allowed target ids with those of prefix and terms, in ascending order; None: all."""
        more = [*(self.prefix or ()), *(() if self.terms is None else self.terms.tokens)]
        if self.allowed is None or not more:
            return self.allowed
        return np.union1d(self.allowed, np.array(more, np.int32))


def in_batches(
    sentences: Sequence[SearchSentence], divide: Callable[[list[int]], Iterable[list[int]]]
) -> Iterator[list[int]]:
    """Yield the indices of sentences that are searched together: those of a kind, as `divide` groups their costs."""
    kinds: dict[object, list[int]] = {}
    for index, sentence in enumerate(sentences):
        kinds.setdefault(sentence.kind, []).append(index)
    for kind in kinds.values():
        for places in divide([sentences[index].cost for index in kind]):
            yield [kind[place] for place in places]


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

    def open_search(self, symbols: Symbols, batch_tokens: int) -> SearchJob | None:
        """Start a search that stays open for sentences; None where the engine has none.

        It searches up to `batch_tokens` source tokens times hypotheses at once in each thread.
        """
        ...

    def score(
        self, sources: Ids, targets: Ids, symbols: Symbols, *, alpha: float, batch_tokens: int = BATCH_TOKENS
    ) -> list[Hypothesis]:
        """Return the log-probabilities of given outputs by forced decoding.

        `sources` are ids that end with the end symbol, `targets` ids without special symbols. The values are those that
        the search reports for these tokens; `alpha` is the length penalty's exponent. Raises `DataError` for ids that
        aren't in the vocabularies.
        """
        ...

    def cross_attention(
        self, sources: Ids, targets: Ids, symbols: Symbols, *, batch_tokens: int = BATCH_TOKENS
    ) -> list[NDArray[np.float32]]:
        """Return the cross-attention weights (layers, heads, target, source) of each sentence pair.

        Row t of the target axis has the weights with which target token t was predicted; the last row is for the end
        symbol. An ensemble has the layers of all its models, averaged over heads where their numbers of heads differ.
        Raises `ConfigError` for a model without cross-attention.
        """
        ...
