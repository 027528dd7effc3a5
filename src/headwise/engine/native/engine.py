"""The native engine: encoder, decoder and search of a Transformer in C++; it doesn't import PyTorch."""

from __future__ import annotations

import bisect
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.config import ModelConfig
from headwise.config.support import FULL_ATTENTION, Support
from headwise.engine.base import BATCH_TOKENS, Ids, SearchSentence, in_batches
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.ids import check_one_vocabulary, check_pairs
from headwise.engine.native.job import FinishedSearch, Forced, SearchJob
from headwise.engine.native.packing import ACTIVATIONS, PackedModel
from headwise.engine.native.positions import ADDED, INSIDE, too_large
from headwise.engine.options import SearchOptions
from headwise.engine.symbols import Symbols

_MIN_SENTENCES = 4  # minimum number of sentences that a worker searches at once
_MOST_SENTENCES = 1024  # of an open search, at once in each worker
_GREEDY = SearchOptions(beam=1)

_SUPPORT = Support(
    *("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "d_k", "d_v", "key_value_heads"),
    *("norm", "final_norm", "normalization", "norm_epsilon", "gated", "feed_forward_bias", "attention_bias"),
    *("share_embeddings", "scale_embeddings", "logit_bias", "source_end", "max_length"),
    architecture=("transformer",),
    activation=ACTIVATIONS,
    positions=(*ADDED, *INSIDE),
    attention=FULL_ATTENTION,
    cross_attention=(None, *FULL_ATTENTION),
)


def unsupported(config: ModelConfig) -> str | None:
    """Return a phrase that says why the native engine doesn't support a model; None where it does."""
    if problems := _SUPPORT.problems(config):
        return f"it can't do {', '.join(problems)}"
    if too_large(config):
        return f"its table of distances would be too large with model.positions={config.positions}"
    return None


class NativeEngine:
    """The native engine for one model, or the mean of several models' probabilities.

    In float32 its results equal the PyTorch model's up to rounding, as sums are in another order. bfloat16 and int8
    round weights and activations (int8: with one scale for each output of a linear map and one for each row of its
    input), so that nearly tied hypotheses may change places.
    """

    def __init__(self, models: Sequence[PackedModel], *, open_pytorch: Callable[[], Any], workers: int = 1) -> None:
        """Use packed models; `workers` are threads, each of which searches its own sentences.

        `open_pytorch` returns the `headwise.decoding.engine.PyTorchEngine` of the same models, for analysis. Raises
        `ConfigError` for vocabularies of other sizes.
        """
        check_one_vocabulary(models)
        self.models, self.workers = tuple(models), workers
        self.library = models[0].library
        self.source_size, self.target_size = models[0].source_size, models[0].target_size
        self.max_length = min(model.config.max_length for model in models)
        self._open_pytorch, self._pytorch, self._lock = open_pytorch, None, threading.Lock()

    def __copy__(self) -> NativeEngine:
        return self  # it is immutable, and the library's memory has one owner

    def __deepcopy__(self, memo: object) -> NativeEngine:
        return self

    @property
    def description(self) -> str:
        """The engine's name with the instruction set, the precisions of its models and the number of workers."""
        precisions = " and ".join(dict.fromkeys(model.precision for model in self.models))
        workers = f"{self.workers} worker{'s' * (self.workers > 1)}"
        return f"native engine ({self.library.variant}), {precisions}, {workers}"

    @property
    def pytorch(self) -> Any:
        """The PyTorch engine of the same models, loaded on first access."""
        with self._lock:
            if self._pytorch is None:
                self._pytorch = self._open_pytorch()
            return self._pytorch

    def search(
        self,
        sentences: Sequence[SearchSentence],
        symbols: Symbols,
        *,
        batch_tokens: int = BATCH_TOKENS,
        given_up: Callable[[int], bool] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search sentences as `Engine.search`; those of similar length together, which is fastest."""
        found: dict[int, list[Hypothesis]] = {}
        for batch in in_batches(sentences, length_groups):
            searched = [sentences[index] for index in batch]
            at_once = max(1, batch_tokens // searched[0].cost)
            found |= zip(batch, self.search_at_once(searched, symbols, at_once), strict=True)
        return [found[index] for index in range(len(sentences))]

    def search_at_once(
        self, sentences: Sequence[SearchSentence], symbols: Symbols, at_once: int
    ) -> list[list[Hypothesis]]:
        """Search sentences of one kind, `at_once` at the same time in each of the workers.

        The results equal those of `headwise.decoding.search.search`. Ids that aren't valid are a `ValueError` of the
        library.
        """
        found, alpha = self._run(sentences, symbols, at_once, Forced.BEGINS), sentences[0].options.alpha
        return [each.hypotheses(alpha, each.number + 1) for each in found]

    def _run(
        self, sentences: Sequence[SearchSentence], symbols: Symbols, at_once: int, forced: Forced
    ) -> list[FinishedSearch]:
        # Divide the sentences among the workers, but give none so few that reading the weights dominates.
        at_once = min(at_once, max(_MIN_SENTENCES, math.ceil(len(sentences) / self.workers)))
        workers = min(self.workers, math.ceil(len(sentences) / at_once))
        with SearchJob(self.models, symbols) as job:
            job.add(sentences, forced=forced)
            job.close()
            job.start(at_once, workers)
            return job.finished()

    def open_search(self, symbols: Symbols, batch_tokens: int) -> SearchJob:
        """Return a started job that stays open for sentences, with the results of `search`."""
        job = SearchJob(self.models, symbols)
        job.start(_MOST_SENTENCES, self.workers, batch_tokens)
        return job

    def score(
        self, sources: Ids, targets: Ids, symbols: Symbols, *, alpha: float, batch_tokens: int = BATCH_TOKENS
    ) -> list[Hypothesis]:
        """Score given outputs as `Engine.score`, in the precision of the search."""
        found = self._force(sources, targets, symbols, batch_tokens, Forced.ALL)
        return [each.hypotheses(alpha, number)[0] for number, each in enumerate(found, start=1)]

    def cross_attention(
        self, sources: Ids, targets: Ids, symbols: Symbols, *, batch_tokens: int = BATCH_TOKENS
    ) -> list[NDArray[np.float32]]:
        """Return attention weights as `Engine.cross_attention`."""
        weights = []
        found = self._force(sources, targets, symbols, batch_tokens, Forced.WEIGHTS)
        for number, each in enumerate(found, start=1):
            each.hypotheses(0.0, number)  # raises the error of a damaged model
            assert each.weights is not None
            weights.append(each.weights)
        return weights

    def _force(
        self, sources: Ids, targets: Ids, symbols: Symbols, batch_tokens: int, forced: Forced
    ) -> list[FinishedSearch]:
        """Decode given outputs by force: as prefixes, of which nothing is left to search."""
        lengths = check_pairs(self, sources, targets)
        results: dict[int, FinishedSearch] = {}
        for group in length_groups(lengths):
            sentences = [SearchSentence(sources[index], _GREEDY, targets[index]) for index in group]
            at_once = max(1, batch_tokens // lengths[group[0]])
            results |= zip(group, self._run(sentences, symbols, at_once, forced), strict=True)
        return [results[index] for index in range(len(sources))]


def length_groups(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of sentence indices, longest first; none is less than half as long as the longest of its group."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        shortest = lengths[order[start]] / 2
        end = bisect.bisect_right(order, -shortest, lo=start, key=lambda index: -lengths[index])
        yield order[start:end]
        start = end
