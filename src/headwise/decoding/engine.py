"""The PyTorch engine: it searches step by step with any model, on any device, and computes scores and attention."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.config import Config, ModelConfig
from headwise.decoding.batching import batches, padded
from headwise.decoding.ensemble import Ensemble
from headwise.decoding.scoring import token_log_probs
from headwise.decoding.search import search
from headwise.engine.base import BATCH_TOKENS, Engine, Ids, SearchSentence, in_batches
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.ids import check_pairs
from headwise.engine.native.engine import NativeEngine, unsupported
from headwise.engine.native.packing import PackedModel
from headwise.engine.symbols import Symbols
from headwise.errors import ConfigError
from headwise.models.base import Seq2Seq
from headwise.models.build import load_model
from headwise.native.library import find_library
from headwise.nn.device import find_device, find_precision
from headwise.nn.recording import private_copy, recording
from headwise.text.tokens.subwords import Subwords


class PyTorchEngine:
    """The PyTorch engine of one model or ensemble; its methods may be called by any thread."""

    def __init__(self, model: Seq2Seq, *, description: str = "") -> None:
        """Use a model."""
        self.model, self.description = model, description
        self._lock = threading.Lock()
        self.source_size, self.target_size = model.source_size, model.target_size
        self.max_length = model.max_length

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
        found: dict[int, list[Hypothesis]] = {}
        for batch in in_batches(sentences, lambda costs: batches(costs, batch_tokens)):
            unwanted = None if given_up is None else lambda row, of=batch: given_up(of[row])
            searched = [sentences[index] for index in batch]
            found |= zip(batch, search(self.model, searched, symbols, given_up=unwanted), strict=True)
        return [found[index] for index in range(len(sentences))]

    def open_search(self, symbols: Symbols, batch_tokens: int) -> None:
        """Return None: a batch is searched to its end."""

    @torch.inference_mode()
    def score(
        self, sources: Ids, targets: Ids, symbols: Symbols, *, alpha: float, batch_tokens: int = BATCH_TOKENS
    ) -> list[Hypothesis]:
        """Score given outputs as `Engine.score`."""
        model = self.model
        given = torch.tensor(symbols.given, dtype=torch.long, device=model.device)
        found: dict[int, Hypothesis] = {}
        for rows, inputs in self._forced(sources, targets, symbols, batch_tokens):
            outputs, _ = padded([[*targets[row], symbols.eos] for row in rows], symbols.pad, model.device)
            log_probs = token_log_probs(model, *inputs, outputs)
            log_probs[:, 0].masked_fill_(torch.isin(outputs[:, 0], given), 0.0)
            for row, values in zip(rows, log_probs.tolist(), strict=True):
                found[row] = Hypothesis.scored(targets[row], values[: len(targets[row]) + 1], alpha)
        return [found[row] for row in range(len(sources))]

    @torch.inference_mode()
    def cross_attention(
        self, sources: Ids, targets: Ids, symbols: Symbols, *, batch_tokens: int = BATCH_TOKENS
    ) -> list[NDArray[np.float32]]:
        """Return attention weights as `Engine.cross_attention`, one batch at a time."""
        found: dict[int, NDArray[np.float32]] = {}
        for rows, inputs in self._forced(sources, targets, symbols, batch_tokens):
            with self._lock, recording(self._recorded) as records:
                self._recorded(*inputs)
            layers = [each[0] for name, each in records.weights.items() if name.endswith("cross_attention")]
            if not layers:
                raise ConfigError("alignments: expected a model with cross-attention, found none in this one")
            if len({layer.shape[1] for layer in layers}) > 1:
                layers = [layer.mean(1, keepdim=True) for layer in layers]
            weights = torch.stack(layers, dim=1).float().cpu()  # (batch, layers, heads, target, source)
            for row, each in zip(rows, weights.numpy(), strict=True):
                found[row] = each[:, :, : len(targets[row]) + 1, : len(sources[row])]
        return [found[row] for row in range(len(sources))]

    def _forced(
        self, sources: Ids, targets: Ids, symbols: Symbols, tokens: int
    ) -> Iterator[tuple[list[int], tuple[Tensor, Tensor, Tensor]]]:
        """Yield batches of pairs as their numbers and the model's arguments: source, mask and target inputs."""
        device = self.model.device
        for rows in batches(check_pairs(self, sources, targets), tokens):
            source, mask = padded([sources[row] for row in rows], symbols.pad, device)
            inputs, _ = padded([[symbols.bos, *targets[row]] for row in rows], symbols.pad, device)
            yield rows, (source, mask, inputs)


@torch.inference_mode(False)  # a search that looks into its model opens it, and analysis needs gradients
def open_engine(path: Path, config: Config, subwords: Subwords, device: str, precision: str) -> PyTorchEngine:
    """Load a run's model; raises `CheckpointError`, `ConfigError` or `DeviceError`."""
    torch_device = find_device(device)
    dtype = find_precision(precision, torch_device)
    model = load_model(path, subwords.source_size, subwords.target_size, config).to(torch_device)
    model.compute_dtype = dtype
    description = f"pytorch engine ({torch_device}), {str(dtype).removeprefix('torch.')}"
    return PyTorchEngine(model, description=description)


def ensemble(engines: Sequence[Engine], description: str = "") -> PyTorchEngine:
    """Return the engine of several engines' models; raises `ConfigError` for vocabularies of other sizes."""
    models = [pytorch_engine(engine).model for engine in engines]
    return PyTorchEngine(Ensemble(models), description=description)


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
    packed = PackedModel(
        config,
        subwords.source_size,
        subwords.target_size,
        arrays.get,
        library=library,
        precision="bfloat16" if model.compute_dtype == torch.bfloat16 else "float32",
    )
    return NativeEngine([packed], open_pytorch=lambda: PyTorchEngine(model), workers=torch.get_num_threads())
