"""The native Transformer: encoder, decoder and search in C++, behind the protocol of `headwise.models.base`.

Shapes are those of `headwise.models.transformer`; head sizes are padded with zeros to a multiple of 16, which doesn't
change results.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.config import ModelConfig
from headwise.engine.hypotheses import Hypothesis
from headwise.engine.ids import check_tensor
from headwise.engine.native.job import SearchJob
from headwise.engine.native.packing import ACTIVATIONS, Packing
from headwise.engine.options import SearchOptions
from headwise.engine.symbols import Symbols
from headwise.engine.terms import Terms
from headwise.models.base import Memory, Seq2Seq, State
from headwise.native import library as native
from headwise.nn.masks import without_end
from headwise.nn.positions import position_encoding

_ATTENTION_KINDS = ("fused", "reference", "memory_efficient")  # they compute the same function
_MIN_SENTENCES = 4  # minimum number of sentences that a worker searches at once
_MOST_SENTENCES = 1024  # of an open search, at once in each worker
_MAX_BEAM = 1024


# Configuration keys that the engine reads or that don't affect it. All other keys, including future ones, must have
# their default values.
_SUPPORTED_KEYS = {
    *(
        "architecture",
        "encoder_layers",
        "decoder_layers",
        "d_model",
        "d_ff",
        "heads",
        "d_k",
        "d_v",
        "key_value_heads",
    ),
    *(
        "norm",
        "norm_epsilon",
        "activation",
        "feed_forward_bias",
        "attention_bias",
        "share_embeddings",
        "scale_embeddings",
        "logit_bias",
        "source_end",
        "max_length",
    ),
    *("attention", "cross_attention", "attention_options", "positions", "position_options"),
    *("dropout", "attention_dropout", "activation_dropout"),
}


def unsupported(config: ModelConfig) -> str | None:
    """Return a phrase that says why the native engine doesn't support a model; None where it does."""
    kinds = {config.attention, config.cross_attention or config.attention}
    if config.architecture != "transformer":
        return f"it knows Transformers only, found {config.architecture}"
    if not kinds <= set(_ATTENTION_KINDS):
        return f"it knows full attention only, found {', '.join(sorted(kinds - set(_ATTENTION_KINDS)))}"
    if position_encoding(config.positions).inside is not None:
        return f"it knows positions that are added to the embeddings only, found {config.positions}"
    if config.activation not in ACTIVATIONS:
        return f"it has no activation {config.activation}"
    for name, field in ModelConfig.model_fields.items():
        value = getattr(config, name)
        if name not in _SUPPORTED_KEYS and value != field.get_default(call_default_factory=True):
            return f"it can't do model.{name}={value}"
    return None


class NativeState(State):
    """Decoding state of a batch of sentences, in memory of the library."""

    def __init__(self, engine: NativeTransformer, states: Tensor, lengths: Sequence[int], beams: int) -> None:
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


class NativeTransformer(Seq2Seq):
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
        tensors: Callable[[str], Tensor | None],
        *,
        library: native.Library,
        precision: str = "float32",
        readable: Callable[[], Seq2Seq],
    ) -> None:
        """Pack the parameters one by one; `readable` loads the PyTorch model for operations that aren't native.

        Raises `CheckpointError` for a parameter that isn't finite, which low precision would hide.
        """
        super().__init__()
        assert unsupported(config) is None
        self.config, self.library, self.precision = config, library, precision
        self.source_size, self.target_size, self.max_length = source_size, target_size, config.max_length
        self._load_readable = readable
        self._loaded: tuple[Seq2Seq] | None = None
        self.handle = Packing(config, source_size, target_size, tensors, library).pack(precision)
        self.eval()

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.library.value("free", self.handle)

    def __copy__(self) -> NativeTransformer:
        return self  # it is immutable, and the library's memory has one owner

    def __deepcopy__(self, memo: object) -> NativeTransformer:
        return self

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    def encode(self, source: Tensor, mask: Tensor) -> Memory:  # noqa: D102
        if not self.config.source_end:
            mask = without_end(mask)
        lengths = mask.sum(1).to(torch.int32)
        check_tensor(source[mask], self.source_size, "source")
        ids = source[mask].to(torch.int32)
        packed = torch.empty(len(ids), self.config.d_model)
        arguments = (ids.data_ptr(), len(ids), lengths.data_ptr(), len(lengths), packed.data_ptr())
        self.library.call("encode", self.handle, *arguments)
        states = packed.new_zeros(*source.shape, self.config.d_model)
        states[mask] = packed
        return Memory(states, mask)

    def start(self, memory: Memory, beams: int = 1, capacity: int | None = None) -> NativeState:  # noqa: D102
        states = memory.states[memory.mask].float().contiguous()
        return NativeState(self, states, memory.mask.sum(1).tolist(), beams)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, NativeState]:  # noqa: D102
        assert isinstance(state, NativeState)
        check_tensor(tokens, self.target_size, "target")
        ids = tokens.to(torch.int32)
        logits = torch.empty(len(ids), self.target_size)
        self.library.call("step", self.handle, state.handle, ids.data_ptr(), len(ids), logits.data_ptr())
        return logits.log_softmax(-1), state

    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:  # noqa: D102
        return self.readable.decode(memory, target_input)

    @property
    def readable(self) -> Seq2Seq:
        """The same model in PyTorch, loaded on first access."""
        if self._loaded is None:
            self._loaded = (self._load_readable(),)  # a tuple, which doesn't register its parameters here
        return self._loaded[0]

    @property
    def output_weight(self) -> Tensor:  # noqa: D102
        return self.readable.output_weight

    @property
    def output_bias(self) -> Tensor | None:  # noqa: D102
        return self.readable.output_bias

    def search(
        self,
        sources: Sequence[Sequence[int]],
        options: SearchOptions,
        symbols: Symbols,
        *,
        sentences: int,
        lists: Sequence[NDArray[np.int32]] | None = None,
        terms: Sequence[Terms | None] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search every source in native code, `sentences` at once in each of `workers` threads.

        The results equal those of `headwise.decoding.search.search`, for the options that `own_search` supports.
        `lists` are shortlists: the target ids that each sentence's outputs may contain, in ascending order and with the
        end symbol; probabilities are then normalized over these. `terms` are those that each sentence's outputs must
        contain; a shortlist has their tokens. Sources sorted by length are fastest. All ids are valid (see
        `headwise.engine.ids.check_search`): what isn't is a `ValueError` of the library.
        """
        assert self.own_search(options)
        # Divide the sentences among the workers, but give none so few that reading the weights dominates.
        sentences = min(sentences, max(_MIN_SENTENCES, math.ceil(len(sources) / self.workers)))
        workers = max(1, min(self.workers, math.ceil(len(sources) / sentences)))
        with SearchJob(self, symbols) as job:
            job.add(sources, options, lists, terms=terms)
            job.close()
            job.start(sentences, workers)
            return job.results(options)

    def open_search(self, symbols: object, batch_tokens: int) -> SearchJob:
        """Return a started job that stays open for sentences with options that `own_search` supports.

        `workers` threads search, each up to `batch_tokens` source tokens times hypotheses at once. Results equal those
        of `search`.
        """
        assert isinstance(symbols, Symbols)
        job = SearchJob(self, symbols)
        job.start(_MOST_SENTENCES, max(1, self.workers), batch_tokens)
        return job

    def own_search(
        self, options: object, *, terms: bool = False
    ) -> Callable[..., list[list[Hypothesis]]] | None:
        """Return `search` where it supports the options; otherwise None, for a step-by-step search in PyTorch."""
        assert isinstance(options, SearchOptions)
        return None if options.sample or options.beam > _MAX_BEAM else self.search
