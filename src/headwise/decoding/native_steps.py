"""The steps of the native engine as a model: a search step by step, in Python, with its encoder and decoder.

Sampling, prefixes and ensembles run so, with the native engine's weights and in its precision.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from headwise.engine.native.engine import NativeEngine
from headwise.errors import DataError
from headwise.models.base import Memory, Seq2Seq, State
from headwise.nn.masks import without_end


class NativeState(State):
    """Decoding state of a batch of sentences, in memory of the library."""

    def __init__(self, engine: NativeEngine, states: Tensor, lengths: Sequence[int], beams: int) -> None:
        self._engine = engine
        self.beams = beams
        self.handle = ctypes.c_void_p()
        counts = np.asarray(lengths, dtype=np.int32)
        assert states.shape == (counts.sum(), engine.config.d_model), states.shape
        engine.library.call(
            "start",
            *(engine.handle, states.data_ptr(), len(states), counts.ctypes.data, len(counts), beams),
            ctypes.byref(self.handle),
        )

    def reorder(self, rows: Tensor) -> NativeState:  # noqa: D102
        rows = rows.to(torch.int64).contiguous()
        self._engine.library.call("reorder", self._engine.handle, self.handle, rows.data_ptr(), len(rows))
        return self

    def keep(self, sentences: Tensor) -> NativeState:  # noqa: D102
        indices = sentences.to(torch.int64).contiguous()
        self._engine.library.call("keep", self._engine.handle, self.handle, indices.data_ptr(), len(indices))
        return self

    def __del__(self) -> None:
        if self.handle:
            self._engine.library.value("drop", self.handle)


class NativeSteps(Seq2Seq):
    """The encoder and the decoder of a native engine, without teacher forcing."""

    def __init__(self, engine: NativeEngine) -> None:
        super().__init__()
        self._engine = engine
        self.source_size, self.target_size = engine.source_size, engine.target_size
        self.max_length = engine.max_length
        self.eval()

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    def encode(self, source: Tensor, mask: Tensor) -> Memory:  # noqa: D102
        if not self._engine.config.source_end:
            mask = without_end(mask)
        lengths = mask.sum(1).to(torch.int32)
        _check(source[mask], self.source_size, "source")
        ids = source[mask].to(torch.int32)
        packed = torch.empty(len(ids), self._engine.config.d_model)
        arguments = (ids.data_ptr(), len(ids), lengths.data_ptr(), len(lengths), packed.data_ptr())
        self._engine.library.call("encode", self._engine.handle, *arguments)
        states = packed.new_zeros(*source.shape, self._engine.config.d_model)
        states[mask] = packed
        return Memory(states, mask)

    def start(self, memory: Memory, beams: int = 1, capacity: int | None = None) -> NativeState:  # noqa: D102
        states = memory.states[memory.mask].float().contiguous()
        return NativeState(self._engine, states, memory.mask.sum(1).tolist(), beams)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, NativeState]:  # noqa: D102
        assert isinstance(state, NativeState)
        _check(tokens, self.target_size, "target")
        ids = tokens.to(torch.int32)
        logits = torch.empty(len(ids), self.target_size)
        self._engine.library.call(
            "step", self._engine.handle, state.handle, ids.data_ptr(), len(ids), logits.data_ptr()
        )
        return logits.log_softmax(-1), state

    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:
        """Not available: scores and attention weights are the PyTorch model's."""
        raise NotImplementedError("the native engine has no teacher forcing")

    @property
    def output_weight(self) -> Tensor:
        """Not available: the projection is part of a step."""
        raise NotImplementedError("the native engine has no projection of its own")


def _check(ids: Tensor, size: int, what: str) -> None:
    """Raise `DataError` unless all ids of a tensor are whole numbers from 0 to size - 1; `what` begins the message."""
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise DataError(f"{what}: expected ids that are whole numbers, found {ids.dtype}")
    if not ids.numel():
        return
    for extreme in torch.stack(ids.aminmax()).tolist():
        if not 0 <= extreme < size:
            raise DataError(f"{what}: expected ids from 0 to {size - 1}, found {extreme}")
