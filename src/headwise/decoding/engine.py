"""The PyTorch engine: it searches step by step with any model, on any device, and computes scores and attention.

It also serves beside the native engine and in ensembles: then the steps are those of native encoders and decoders
(`headwise.decoding.native_steps`), and the PyTorch model is loaded when a score, attention weights or the model itself
are asked for.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.config import Config, ModelConfig
from headwise.decoding.alignment import cross_attention
from headwise.decoding.batching import batches
from headwise.decoding.ensemble import Ensemble
from headwise.decoding.native_steps import NativeSteps
from headwise.decoding.scoring import score
from headwise.decoding.search import search
from headwise.engine.base import BATCH_TOKENS, Engine, SearchSentence, by_kind
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.native.engine import NativeEngine, unsupported
from headwise.engine.symbols import Symbols
from headwise.models.base import Seq2Seq
from headwise.models.build import load_model
from headwise.native.library import find_library
from headwise.nn.device import find_device, find_precision
from headwise.nn.recording import private_copy
from headwise.text.tokens.subwords import Subwords


class PyTorchEngine:
    """The PyTorch engine of one model or ensemble; its methods may be called by any thread."""

    def __init__(
        self,
        model: Seq2Seq | Callable[[], Seq2Seq],
        *,
        steps: Seq2Seq | None = None,
        workers: int = 1,
        description: str = "",
    ) -> None:
        """Use a model, or a function that loads it.

        `steps` searches in its place, with the same vocabularies, in `workers` threads, each with its own batches; more
        than 1 only where operations don't use several threads themselves.
        """
        assert isinstance(model, Seq2Seq) or steps is not None
        self._loaded, self._load = (model, None) if isinstance(model, Seq2Seq) else (None, model)
        self._lock = threading.RLock()
        self._steps, self._workers = steps, workers
        self.description = description
        searched = self.steps
        self.source_size, self.target_size = searched.source_size, searched.target_size
        self.max_length = searched.max_length

    @property
    def model(self) -> Seq2Seq:
        """The PyTorch model, loaded on first access."""
        with self._lock:
            if self._loaded is None:
                assert self._load is not None
                with torch.inference_mode(False):
                    self._loaded = self._load()
            return self._loaded

    @property
    def steps(self) -> Seq2Seq:
        """What encodes sources and computes the steps of a search."""
        return self.model if self._steps is None else self._steps

    @property
    def workers(self) -> int:
        """The number of threads that search at once."""
        return self._workers

    @functools.cached_property
    def _recorded(self) -> Seq2Seq:
        return private_copy(self.model)

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

        def search_batch(batch: list[int]) -> list[list[Hypothesis]]:
            unwanted = None if given_up is None else lambda row, dropped=given_up: dropped(batch[row])
            return search(self.steps, [sentences[index] for index in batch], symbols, given_up=unwanted)

        for group in by_kind(sentences):
            lengths = [len(sentences[index].source) for index in group]
            tokens = batch_tokens // sentences[group[0]].options.rows
            work = [[group[row] for row in rows] for rows in batches(lengths, tokens)]
            for batch, found in zip(work, _in_threads(search_batch, work, self._workers), strict=True):
                for index, hypotheses in zip(batch, found, strict=True):
                    results[index] = hypotheses
        return results

    def open_search(self, symbols: Symbols, batch_tokens: int) -> None:
        """Return None: a batch is searched to its end."""

    def joins(self, sentence: SearchSentence) -> bool:
        """Return False, as no search stays open."""
        return False

    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        symbols: Symbols,
        *,
        alpha: float,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[Hypothesis]:
        """Score given outputs as `Engine.score`."""
        return score(self.model, sources, targets, symbols, alpha=alpha, batch_tokens=batch_tokens)

    def cross_attention(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        symbols: Symbols,
        *,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[NDArray[np.float32]]:
        """Return attention weights as `Engine.cross_attention`, one call at a time."""
        with self._lock:
            weights = cross_attention(self._recorded, sources, targets, symbols, batch_tokens=batch_tokens)
        return [each.numpy() for each in weights]

    def prepare_reading(self) -> None:
        """Load the model."""
        _ = self.model


def _in_threads(
    function: Callable[[list[int]], list[list[Hypothesis]]], items: list[list[int]], threads: int
) -> Iterator[list[list[Hypothesis]]]:
    """Yield the results of a function for each item in order, computed in so many threads."""
    if min(threads, len(items)) < 2:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)


def open_engine(path: Path, config: Config, subwords: Subwords, device: str, precision: str) -> PyTorchEngine:
    """Load a run's model; raises `CheckpointError`, `ConfigError` or `DeviceError`."""
    torch_device = find_device(device)
    dtype = find_precision(precision, torch_device)
    model = load_model(path, subwords.source_size, subwords.target_size, config).to(torch_device)
    model.compute_dtype = dtype
    description = f"pytorch engine ({torch_device}), {str(dtype).removeprefix('torch.')}"
    return PyTorchEngine(model, description=description)


def beside(native: NativeEngine, path: Path, config: Config, precision: str) -> PyTorchEngine:
    """Return the engine that searches step by step with a native one, and reads the model of its run.

    `precision` is the one of the model's activations: float32 or bfloat16.
    """

    def load() -> Seq2Seq:
        model = load_model(path, native.source_size, native.target_size, config)
        model.compute_dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        return model

    return PyTorchEngine(load, steps=NativeSteps(native), workers=native.workers)


def ensemble(engines: Sequence[Engine]) -> PyTorchEngine:
    """Return the engine of several engines' models; raises `ConfigError` for vocabularies of other sizes."""
    parts = [pytorch_engine(engine) for engine in engines]
    return PyTorchEngine(
        lambda: Ensemble([part.model for part in parts]),
        steps=Ensemble([part.steps for part in parts]),
        workers=min(part.workers for part in parts),
        description=engines[0].description,
    )


def pytorch_engine(engine: Engine) -> PyTorchEngine:
    """Return the PyTorch engine that an engine is, or has beside it."""
    if isinstance(engine, PyTorchEngine):
        return engine
    assert isinstance(engine, NativeEngine)
    return engine.pytorch


def fastest_engine(model: Seq2Seq, config: ModelConfig, subwords: Subwords) -> Engine:
    """Return what decodes fastest with the parameters that a model has now, in the precision that it computes in.

    This is the native engine, with as many workers as PyTorch has threads, or the PyTorch engine where the native one
    doesn't support the model, it isn't on the CPU, or a parameter isn't finite.
    """
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    if any(p.device.type != "cpu" or not bool(torch.isfinite(p).all()) for p in parameters.values()):
        return PyTorchEngine(model)
    library = unsupported(config) or find_library()
    if isinstance(library, str):
        return PyTorchEngine(model)
    arrays = {name: parameter.float().numpy() for name, parameter in parameters.items()}
    return NativeEngine(
        config,
        subwords.source_size,
        subwords.target_size,
        arrays.get,
        library=library,
        open_pytorch=lambda native: PyTorchEngine(model, steps=NativeSteps(native), workers=native.workers),
        precision="bfloat16" if model.compute_dtype == torch.bfloat16 else "float32",
        workers=torch.get_num_threads(),
    )
