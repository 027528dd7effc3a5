"""The engine `ctranslate2`: a run's parameters in CTranslate2's format, and its beam search with Headwise's results.

The parameters are converted into a temporary directory, which is removed as soon as CTranslate2 has read it.

CTranslate2 ranks finished hypotheses by log P / |Y|^length_penalty. Here they are ranked again by Headwise's score, and
the log-probabilities of the n best are those of forced decoding by CTranslate2. Two differences to Headwise's search
remain: of all finished hypotheses CTranslate2 returns only as many as the beam is wide, and at the length limit it
takes hypotheses as they are, without the end symbol's probability.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.config import ModelConfig
from headwise.decoding.beam.constraints import Symbols
from headwise.decoding.beam.hypothesis import Hypothesis, length_penalty
from headwise.decoding.ctranslate2.conversion import check_installed, convert
from headwise.decoding.ctranslate2.layout import id_tokens, token_id, unsupported
from headwise.decoding.ids import check_ids
from headwise.decoding.options import SearchOptions
from headwise.decoding.search import damaged_model_error
from headwise.errors import ConfigError
from headwise.models.base import Memory, Seq2Seq, State
from headwise.nn.device import find_device, processors

_NO_PENALTY = 1e-9  # in float32 |Y|^1e-9 = 1; without any penalty CTranslate2 ends its search early
_MIN_SENTENCES = 4  # minimum number of sentences that a worker searches at once


class CTranslate2Engine(Seq2Seq):
    """CTranslate2 for one model; everything but the beam search is left to `readable`, the model in PyTorch.

    Attributes:
        version: of CTranslate2.
        precision: CTranslate2's compute type, such as int8_float32.
        workers: sentences are searched by so many threads.
    """

    def __init__(
        self,
        config: ModelConfig,
        source_size: int,
        target_size: int,
        tensors: Callable[[str], Tensor | None],
        *,
        precision: str,
        device: str,
        workers: int,
        readable: Callable[[], Seq2Seq],
    ) -> None:
        """Convert the parameters that `tensors` returns by name; `precision` is a compute type of CTranslate2.

        Raises `ConfigError` where CTranslate2 isn't installed or doesn't support the model or the precision, and
        `DeviceError` for a device that isn't available.
        """
        super().__init__()
        self.version = check_installed("engine")
        if reason := unsupported(config):
            raise ConfigError(f"engine: ctranslate2 can't be used: {reason}")
        self.config = config
        self.source_size, self.target_size, self.max_length = source_size, target_size, config.max_length
        self.workers = workers or processors()
        self._load_readable = readable
        self._loaded: tuple[Seq2Seq] | None = None
        self._sources, targets = id_tokens(source_size), id_tokens(target_size)
        with tempfile.TemporaryDirectory(prefix="headwise-") as folder:
            convert(config, tensors, (self._sources, targets), Path(folder))
            self._translator = _open(folder, find_device(device), precision, self.workers)
        self._targets = targets
        self.precision: str = self._translator.compute_type
        self.eval()

    @property
    def device(self) -> torch.device:
        """The CPU, on which ids are passed."""
        return torch.device("cpu")

    @property
    def readable(self) -> Seq2Seq:
        """The same model in PyTorch, loaded on first access."""
        if self._loaded is None:
            self._loaded = (self._load_readable(),)  # a tuple, which doesn't register its parameters here
        return self._loaded[0]

    @property
    def output_weight(self) -> Tensor:  # noqa: D102
        return self.readable.output_weight

    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:  # noqa: D102
        return self.readable.decode(memory, target_input)

    def encode(self, source: Tensor, mask: Tensor) -> Memory:  # noqa: D102
        _refuse("ensembles and no prefixes of translations")

    def start(self, memory: Memory, beams: int = 1, capacity: int | None = None) -> State:  # noqa: D102
        _refuse("search step by step")

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:  # noqa: D102
        _refuse("search step by step")

    def own_search(self, options: object, *, terms: bool = False) -> Callable[..., list[list[Hypothesis]]]:
        """Return `search`; raises `ConfigError` for options that it doesn't support, and for terms."""
        assert isinstance(options, SearchOptions)
        if terms:
            _refuse("glossaries")
        for name, needed in (("sample", False), ("no_repeat_ngram", 0), ("guard", False)):
            if getattr(options, name) != needed:
                _refuse(f"{name} here")
        if math.isinf(options.patience):
            _refuse("infinite patience")
        return self.search

    def search(
        self,
        sources: Sequence[Sequence[int]],
        options: SearchOptions,
        symbols: Symbols,
        *,
        sentences: int,
        lists: Sequence[NDArray[np.int32]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search every source, `sentences` at once in each of `workers` threads.

        Raises `DataError` for ids that aren't in the vocabularies, and `ConfigError` for shortlists.
        """
        if lists is not None:
            _refuse("shortlists")
        check_ids(sources, self.source_size, "source")
        size = min(sentences, max(_MIN_SENTENCES, math.ceil(len(sources) / self.workers)))
        read = [source if self.config.source_end else source[:-1] or source for source in sources]
        tokens = [[self._sources[i] for i in source] for source in read]
        limits = [options.limit(len(source)) for source in sources]
        waiting: list[tuple[Any, float]] = [(None, 0.0)] * len(sources)
        prefix = [[self._targets[code]] for code in symbols.given[:1]]
        for limit in sorted(set(limits)):  # CTranslate2 has one limit for all sentences of a call
            members = [index for index, each in enumerate(limits) if each == limit]
            arguments = self._arguments(options, symbols, limit, len(sources[members[0]]))
            results = self._translator.translate_batch(
                [tokens[index] for index in members],
                prefix * len(members) or None,
                max_batch_size=size,
                asynchronous=True,
                **arguments,
            )
            for index, result in zip(members, results, strict=True):
                waiting[index] = result, arguments["length_penalty"]
        candidates = [
            _candidates(result.result(), penalty, options, 0 if prefix else limit)
            for (result, penalty), limit in zip(waiting, limits, strict=True)
        ]
        return self._scored(tokens, candidates, options, size, given=bool(prefix))

    def _arguments(
        self, options: SearchOptions, symbols: Symbols, limit: int, source_length: int
    ) -> dict[str, Any]:
        """Return the arguments of CTranslate2's search for outputs of at most `limit` subwords with the end symbol."""
        return {
            "beam_size": options.beam,
            # The exponent with which outputs about as long as the source are ranked as by Headwise's length penalty.
            "length_penalty": max(options.alpha * source_length / (source_length + 5), _NO_PENALTY),
            "patience": math.ceil(options.patience * options.beam) / options.beam,
            "num_hypotheses": options.beam,
            "min_decoding_length": options.min_length,
            "max_decoding_length": max(limit - 1, 1),
            "disable_unk": not options.allow_unknown,
            "suppress_sequences": [[self._targets[banned]] for banned in (symbols.pad, symbols.bos)],
            "return_scores": True,
            "max_input_length": 0,
        }

    def _scored(
        self,
        sources: Sequence[list[str]],
        hypotheses: Sequence[Sequence[list[str]]],
        options: SearchOptions,
        size: int,
        *,
        given: bool,
    ) -> list[list[Hypothesis]]:
        """Return the best hypotheses of each source with their log-probabilities by forced decoding.

        That of the first token is 0 if it is `given`.
        """
        pairs = [
            (source, target) for source, each in zip(sources, hypotheses, strict=True) for target in each
        ]
        scores = iter(
            self._translator.score_batch(
                [source for source, _ in pairs],
                [target for _, target in pairs],
                max_batch_size=size * options.beam,
                max_input_length=0,
            )
        )
        outputs = []
        for number, each in enumerate(hypotheses, start=1):
            scored = []
            for target in each:
                log_probs = next(scores).log_probs
                log_probs = [0.0, *log_probs[1:]] if given else log_probs
                scored.append(_hypothesis(target, log_probs, options.alpha, number))
            outputs.append(sorted(scored, key=lambda each: -each.score)[: options.n_best])
        return outputs


def _open(folder: str, device: torch.device, precision: str, workers: int) -> Any:
    """Open a directory by CTranslate2; raises `ConfigError` where the device doesn't support the precision."""
    import ctranslate2

    if device.type == "mps":
        raise ConfigError("engine: ctranslate2 can't be used: it has no device mps")
    supported = ctranslate2.get_supported_compute_types(device.type, device.index or 0)
    if precision != "auto" and precision not in supported:
        raise ConfigError(
            f"precision: expected auto or one of {', '.join(sorted(supported))}, which CTranslate2 has on this "
            f"{device.type}, found {precision!r}"
        )
    return ctranslate2.Translator(
        folder,
        device=device.type,
        device_index=device.index or 0,
        compute_type=precision,
        inter_threads=workers,
        intra_threads=1,
    )


def _candidates(result: Any, penalty: float, options: SearchOptions, limit: int) -> list[list[str]]:
    """Return the hypotheses that may be among the n best: the n best by the log-probabilities of CTranslate2's search,
    and those that reach the limit, which it finishes without the end symbol. Lengths count the end symbol. After a
    prefix, which its scores don't count, the limit is 0, and all may be.
    """
    unknown, ranked = [], []
    for target, score in zip(result.hypotheses, result.scores, strict=True):
        length = len(target) + 1
        if length >= limit:
            unknown.append(target)
        else:
            total = score * length**penalty
            ranked.append((total / length_penalty(length, options.alpha), target))
    ranked.sort(key=lambda each: -each[0])
    return unknown + [target for _, target in ranked[: options.n_best]]


def _hypothesis(
    target: list[str], log_probabilities: Sequence[float], alpha: float, number: int
) -> Hypothesis:
    """Return a hypothesis of sentence `number`; raises `CheckpointError` for a probability that isn't a number."""
    total = math.fsum(log_probabilities)
    if not math.isfinite(total):
        raise damaged_model_error(number)
    return Hypothesis(
        tuple(map(token_id, target)),
        total,
        total / length_penalty(len(target) + 1, alpha),
        tuple(log_probabilities),
    )


def _refuse(what: str) -> NoReturn:
    raise ConfigError(f"engine: ctranslate2 has no {what}; take --engine native or pytorch")
