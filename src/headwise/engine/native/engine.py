"""The native engine: encoder, decoder and search of a Transformer in C++; it doesn't import PyTorch.

What its search doesn't support is searched step by step with its encoder and decoder, by the PyTorch engine (see
`headwise.decoding.native_steps`), which also computes scores and attention weights with the PyTorch model. Both are
opened when they are needed.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.config import ModelConfig
from headwise.config.support import FULL_ATTENTION, Support
from headwise.engine.base import BATCH_TOKENS, SearchSentence, by_kind
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.native.job import SearchJob
from headwise.engine.native.packing import ACTIVATIONS, Packing
from headwise.engine.native.positions import ADDED, INSIDE, too_large
from headwise.engine.symbols import Symbols
from headwise.native import library as native

_MIN_SENTENCES = 4  # minimum number of sentences that a worker searches at once
_MOST_SENTENCES = 1024  # of an open search, at once in each worker
_MAX_BEAM = 1024


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
    """The native engine for one model; `tensors` returns its parameters by their names in `Transformer`.

    In float32 its results equal the PyTorch model's up to rounding, as sums are in another order. bfloat16 and int8
    round weights and activations (int8: with one scale for each output of a linear map and one for each row of its
    input), so that nearly tied hypotheses may change places.
    """

    def __init__(
        self,
        config: ModelConfig,
        source_size: int,
        target_size: int,
        tensors: Callable[[str], NDArray[np.float32] | None],
        *,
        library: native.Library,
        open_pytorch: Callable[[NativeEngine], Any],
        precision: str = "float32",
        workers: int = 1,
    ) -> None:
        """Pack the parameters one by one; `workers` are threads, each of which searches its own sentences.

        `open_pytorch` returns the `headwise.decoding.engine.PyTorchEngine` that searches step by step with this engine,
        and has the same model in PyTorch. Raises `CheckpointError` for a parameter that isn't finite, which low
        precision would hide.
        """
        assert unsupported(config) is None
        self.config, self.library, self.precision, self.workers = config, library, precision, workers
        self.source_size, self.target_size, self.max_length = source_size, target_size, config.max_length
        self._open_pytorch = open_pytorch
        self.handle = Packing(config, source_size, target_size, tensors, library).pack(precision)

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.library.value("free", self.handle)

    def __copy__(self) -> NativeEngine:
        return self  # it is immutable, and the library's memory has one owner

    def __deepcopy__(self, memo: object) -> NativeEngine:
        return self

    @property
    def description(self) -> str:
        """The engine's name with the instruction set, the precision and the number of workers."""
        workers = f"{self.workers} worker{'s' * (self.workers > 1)}"
        return f"native engine ({self.library.variant}), {self.precision}, {workers}"

    @functools.cached_property
    def pytorch(self) -> Any:
        """The PyTorch engine that searches step by step with this one, opened on first access."""
        return self._open_pytorch(self)

    def joins(self, sentence: SearchSentence) -> bool:
        """Whether the native search supports a sentence."""
        options = sentence.options
        return sentence.prefix is None and not options.sample and options.beam <= _MAX_BEAM

    def search(
        self,
        sentences: Sequence[SearchSentence],
        symbols: Symbols,
        *,
        batch_tokens: int = BATCH_TOKENS,
        given_up: Callable[[int], bool] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search sentences as `Engine.search`."""
        results: list[list[Hypothesis]] = [[] for _ in sentences]
        for group in by_kind(sentences):
            alike = [sentences[index] for index in group]
            if self.joins(alike[0]):
                found = self._search_natively(alike, symbols, batch_tokens)
            else:
                unwanted = (
                    None if given_up is None else lambda row, dropped=given_up, of=group: dropped(of[row])
                )
                found = self.pytorch.search(alike, symbols, batch_tokens=batch_tokens, given_up=unwanted)
            for index, hypotheses in zip(group, found, strict=True):
                results[index] = hypotheses
        return results

    def _search_natively(
        self, sentences: Sequence[SearchSentence], symbols: Symbols, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """Search sentences of one kind; those of similar length together, which is fastest."""
        results: list[list[Hypothesis]] = [[] for _ in sentences]
        for group in length_groups([len(sentence.source) for sentence in sentences]):
            longest = sentences[group[0]]
            at_once = batch_tokens // longest.options.rows // len(longest.source)
            found = self.search_at_once([sentences[index] for index in group], symbols, max(1, at_once))
            for index, hypotheses in zip(group, found, strict=True):
                results[index] = hypotheses
        return results

    def search_at_once(
        self, sentences: Sequence[SearchSentence], symbols: Symbols, at_once: int
    ) -> list[list[Hypothesis]]:
        """Search sentences of one kind, `at_once` at the same time in each of the workers.

        The results equal those of `headwise.decoding.search.search`. Ids that aren't valid are a `ValueError` of the
        library.
        """
        # Divide the sentences among the workers, but give none so few that reading the weights dominates.
        at_once = min(at_once, max(_MIN_SENTENCES, math.ceil(len(sentences) / self.workers)))
        workers = max(1, min(self.workers, math.ceil(len(sentences) / at_once)))
        with SearchJob(self, symbols) as job:
            job.add(sentences)
            job.close()
            job.start(at_once, workers)
            return job.results(sentences[0].options.alpha)

    def open_search(self, symbols: Symbols, batch_tokens: int) -> SearchJob:
        """Return a started job that stays open for the sentences that it `joins`, with the results of `search`."""
        job = SearchJob(self, symbols)
        job.start(_MOST_SENTENCES, max(1, self.workers), batch_tokens)
        return job

    def score(self, *arguments: Any, **keywords: Any) -> list[Hypothesis]:
        """Score given outputs with the PyTorch model, as `Engine.score`."""
        return self.pytorch.score(*arguments, **keywords)

    def cross_attention(self, *arguments: Any, **keywords: Any) -> list[NDArray[np.float32]]:
        """Return attention weights of the PyTorch model, as `Engine.cross_attention`."""
        return self.pytorch.cross_attention(*arguments, **keywords)

    def prepare_reading(self) -> None:
        """Load the PyTorch model."""
        self.pytorch.prepare_reading()


def length_groups(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of sentence indices, longest first; none is less than half as long as the longest of its group."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    start = 0
    while start < len(order):
        shortest = lengths[order[start]] / 2
        end = bisect.bisect_right(order, -shortest, lo=start, key=lambda index: -lengths[index])
        yield order[start:end]
        start = end
