"""A Transformer whose encoder, decoder and search are native code, behind the protocol of `headwise.models.base`.

Shapes as in `headwise.models.transformer`; heads are padded to a multiple of 16 with zeros, which change nothing.
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
from headwise.decoding.beam.constraints import Symbols
from headwise.decoding.beam.hypothesis import Hypothesis
from headwise.decoding.ids import check_ids, check_lists, check_tensor
from headwise.decoding.native import library as native
from headwise.decoding.native.job import SearchJob
from headwise.decoding.native.packing import ACTIVATIONS, Packing
from headwise.decoding.options import SearchOptions
from headwise.models.base import Memory, Seq2Seq, State
from headwise.nn.positions import position_encoding

_KINDS = ("fused", "reference", "memory_efficient")  # they compute the same function
_SHARE = 4  # sentences
_MOST_BEAMS = 1024


# Keys that the engine reads, or that mean nothing to it. Any other, one that is yet to be invented too, must be as it
# is by default.
_KNOWN = {
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
        "max_length",
    ),
    *("attention", "cross_attention", "attention_options", "positions", "position_options"),
    *("dropout", "attention_dropout", "activation_dropout"),
}


def unsupported(config: ModelConfig) -> str | None:
    """Say in a phrase why the native engine can't run a model; None where it can."""
    kinds = {config.attention, config.cross_attention or config.attention}
    if config.architecture != "transformer":
        return f"it knows Transformers only, found {config.architecture}"
    if not kinds <= set(_KINDS):
        return f"it knows full attention only, found {', '.join(sorted(kinds - set(_KINDS)))}"
    if position_encoding(config.positions).inside is not None:
        return f"it knows positions that are added to the embeddings only, found {config.positions}"
    if config.activation not in ACTIVATIONS:
        return f"it has no activation {config.activation}"
    for name, field in ModelConfig.model_fields.items():
        value = getattr(config, name)
        if name not in _KNOWN and value != field.get_default(call_default_factory=True):
            return f"it can't do model.{name}={value}"
    return None


class NativeState(State):
    """Sentences in the middle of their search; the memory is the library's."""

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
        kept = sentences.to(torch.int64).contiguous()
        self._engine.library.call("keep", self._engine.handle, self.handle, kept.data_ptr(), len(kept))
        return self

    def __del__(self) -> None:
        if self.handle:
            self._engine.library.value("drop", self.handle)


class NativeTransformer(Seq2Seq):
    """The engine for one model; `tensors` gives its parameters by their names in `Transformer`.

    float32 gives what the readable model gives, up to the rounding of sums taken in another order. bfloat16 and int8
    round weights and activations (int8: with a scale for each output of a product and each row of its input), so that
    hypotheses that are nearly tied may change places.
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
        """Pack the parameters, one after the other; `readable` gives the same model for what isn't native.

        Raises `CheckpointError` for a parameter that isn't finite, which low precision would hide.
        """
        super().__init__()
        assert unsupported(config) is None
        self.config, self.library, self.precision = config, library, precision
        self.source_size, self.target_size, self.max_length = source_size, target_size, config.max_length
        self.workers = 1
        self._load_readable = readable
        self._loaded: tuple[Seq2Seq] | None = None
        self.handle = Packing(config, source_size, target_size, tensors, library).pack(precision)
        self.eval()

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.library.value("free", self.handle)

    def __copy__(self) -> NativeTransformer:
        return self  # it never changes, and the library's memory has one owner

    def __deepcopy__(self, memo: object) -> NativeTransformer:
        return self

    @property
    def device(self) -> torch.device:
        """Always the CPU."""
        return torch.device("cpu")

    def encode(self, source: Tensor, mask: Tensor) -> Memory:  # noqa: D102
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
        """The same model in PyTorch, loaded when it is first asked for."""
        if self._loaded is None:
            self._loaded = (self._load_readable(),)  # a tuple, as its parameters aren't this module's
        return self._loaded[0]

    @property
    def output_weight(self) -> Tensor:  # noqa: D102
        return self.readable.output_weight

    def search(
        self,
        sources: Sequence[Sequence[int]],
        options: SearchOptions,
        symbols: Symbols,
        *,
        sentences: int,
        lists: Sequence[NDArray[np.int32]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Search every source, all in native code, `sentences` at once in each of `workers` threads.

        The same results as `headwise.decoding.search.search`, for the options that `own_search` accepts. `lists` name
        the only tokens that each sentence's outputs may hold, in ascending order, the end symbol among them;
        probabilities are then taken among these. Sources are best given by length. Raises `DataError` for ids that
        aren't in the vocabularies, and lists that aren't like that.
        """
        assert self.own_search(options)
        check_ids(sources, self.source_size, "source")
        if lists is not None:
            check_lists(lists, len(sources), self.target_size, symbols.eos)
        # A share for each worker, but not so small that the weights are read for next to nothing.
        sentences = min(sentences, max(_SHARE, math.ceil(len(sources) / self.workers)))
        workers = max(1, min(self.workers, math.ceil(len(sources) / sentences)))
        with SearchJob(self, sources, options, symbols, lists) as job:
            job.start(sentences, workers)
            return job.results()

    def own_search(self, options: object) -> Callable[..., list[list[Hypothesis]]] | None:
        """Return `search` where it knows these options; with others the search goes step by step."""
        assert isinstance(options, SearchOptions)
        known = not (options.sample or options.no_repeat_ngram or options.beam > _MOST_BEAMS)
        return self.search if known else None
