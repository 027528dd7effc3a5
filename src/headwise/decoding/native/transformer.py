"""A Transformer whose encoder, decoder and search are native code, behind the protocol of `headwise.models.base`.

Shapes as in `headwise.models.transformer`; heads are padded to a multiple of 16 with zeros, which change nothing.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.config import ModelConfig
from headwise.decoding.constraints import Symbols
from headwise.decoding.native import library as native
from headwise.decoding.options import SearchOptions
from headwise.decoding.search import Hypothesis, damaged, length_penalty
from headwise.errors import CheckpointError
from headwise.models.base import Memory, Seq2Seq, State
from headwise.nn.positions import position_encoding

_ACTIVATIONS = {"relu": 0, "gelu": 1, "silu": 2}
_KINDS = ("fused", "reference", "memory_efficient")  # they compute the same function
_UNIT = 16  # heads are padded to a multiple of it
_SHARE = 4  # sentences


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
    if config.activation not in _ACTIVATIONS:
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
        engine.library.call(
            "start",
            *(engine.handle, states.data_ptr(), counts.ctypes.data, len(counts), beams),
            ctypes.byref(self.handle),
        )

    def reorder(self, rows: Tensor) -> NativeState:  # noqa: D102
        rows = rows.contiguous()
        self._engine.library.call("reorder", self._engine.handle, self.handle, rows.data_ptr())
        return self

    def keep(self, sentences: Tensor) -> NativeState:  # noqa: D102
        kept = sentences.contiguous()
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
        self._tensors = tensors
        padded = [math.ceil(size / _UNIT) * _UNIT for size in (config.key_size, config.value_size)]
        shape = native.Shape(
            d_model=config.d_model,
            d_ff=config.d_ff,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            target_size=target_size,
            heads=config.heads,
            shared_heads=config.key_value_heads or config.heads,
            key_size=padded[0],
            value_size=padded[1],
            pre_norm=config.norm == "pre",
            activation=_ACTIVATIONS[config.activation],
            key_scale=config.key_size**-0.5,
            epsilon=config.norm_epsilon,
        )
        self.handle = library.value("new", ctypes.byref(shape), native.PRECISIONS[precision])
        if self.handle is None:
            raise MemoryError("there is not enough memory")
        self._pack()
        del self._tensors
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
        ids = source[mask].to(torch.int32)
        packed = torch.empty(len(ids), self.config.d_model)
        arguments = (ids.data_ptr(), lengths.data_ptr(), len(lengths), packed.data_ptr())
        self.library.call("encode", self.handle, *arguments)
        states = packed.new_zeros(*source.shape, self.config.d_model)
        states[mask] = packed
        return Memory(states, mask)

    def start(self, memory: Memory, beams: int = 1, capacity: int | None = None) -> NativeState:  # noqa: D102
        states = memory.states[memory.mask].contiguous()
        return NativeState(self, states, memory.mask.sum(1).tolist(), beams)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, NativeState]:  # noqa: D102
        assert isinstance(state, NativeState)
        ids = tokens.to(torch.int32)
        logits = torch.empty(len(ids), self.target_size)
        self.library.call("step", self.handle, state.handle, ids.data_ptr(), logits.data_ptr())
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

        The same results as `headwise.decoding.search.search`, for the options that `searches` accepts. `lists` name
        the only tokens that each sentence's outputs may hold, in ascending order, the end symbol among them;
        probabilities are then taken among these. Sources are best given by length.
        """
        assert self.searches(options)
        offsets = _offsets(sources)
        ids = np.fromiter(itertools.chain.from_iterable(sources), dtype=np.int32, count=int(offsets[-1]))
        limits = np.asarray([options.limit(len(source)) for source in sources], dtype=np.int32)
        listed = np.concatenate([np.zeros(0, np.int32), *(lists or [])])
        begins = None if lists is None else _offsets(lists)
        banned = [symbols.pad, symbols.bos, *([] if options.allow_unknown else [symbols.unknown])]
        job = ctypes.c_void_p()
        self.library.call(
            "job_new",
            *(ids.ctypes.data, offsets.ctypes.data, limits.ctypes.data, len(sources)),
            native.Options(options.beam, options.n_best, options.min_length, options.alpha, options.patience),
            native.Symbols(symbols.bos, symbols.eos, (ctypes.c_int32 * 3)(*banned), len(banned)),
            *(listed.ctypes.data, None if begins is None else begins.ctypes.data),
            ctypes.byref(job),
        )
        try:
            # A share for each worker, but not so small that the weights are read for next to nothing.
            sentences = min(sentences, max(_SHARE, math.ceil(len(sources) / self.workers)))
            self._run(job, sentences, min(self.workers, math.ceil(len(sources) / sentences)))
            return self._outputs(job, len(sources), options)
        finally:
            self.library.value("job_free", job)

    @staticmethod
    def searches(options: SearchOptions) -> bool:
        """Tell whether `search` knows these options; a search with others goes step by step."""
        return not (options.sample or options.no_repeat_ngram or options.beam > 1024)

    def _run(self, job: ctypes.c_void_p, sentences: int, workers: int) -> None:
        def work() -> None:
            self.library.call("job_run", self.handle, job, sentences)

        if workers <= 1:
            work()
            return
        with ThreadPoolExecutor(workers) as pool:
            for running in [pool.submit(work) for _ in range(workers)]:
                running.result()

    def _outputs(self, job: ctypes.c_void_p, count: int, options: SearchOptions) -> list[list[Hypothesis]]:
        size = self.library.value("job_size", job)
        lengths = np.empty((count, options.n_best), dtype=np.int32)
        tokens, gains = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float32)
        self.library.value("job_outputs", job, lengths.ctypes.data, tokens.ctypes.data, gains.ctypes.data)
        all_tokens, all_gains = tokens.tolist(), gains.tolist()
        results, place = [], 0
        for number, row in enumerate(lengths.tolist(), start=1):
            if not row[0]:
                raise damaged(number)
            found = []
            for length in filter(None, row):
                end = place + length
                parts = all_gains[place:end]
                total = sum(parts)
                score = total / length_penalty(length, options.alpha)
                found.append(Hypothesis(tuple(all_tokens[place : end - 1]), total, score, tuple(parts)))
                place = end
            results.append(found)
        return results

    def _pack(self) -> None:
        config = self.config
        shared, target = config.share_embeddings == "all", config.share_embeddings != "none"
        names = {
            "source_embedding": "source_embedding.weight",
            "target_embedding": "source_embedding.weight" if shared else "target_embedding.weight",
        }
        output = names["target_embedding"] if target else "output_projection.weight"
        for name, parameter in names.items():
            self._table(name, self._tensor(parameter))
        self._linear("vocabulary", self._tensor(output), None)
        table = self._positions()
        if table is not None:
            self._table("positions", table)
        for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
            for number in range(layers):
                self._layer(f"{side}.{number}", decoder=side == "decoder")
            if config.norm == "pre":
                self._norm(f"{side}_norm", f"{side}_norm")

    def _positions(self) -> Tensor | None:
        learned = self._tensors("positions.table")
        if learned is not None:
            return learned
        maker = position_encoding(self.config.positions).table
        assert maker is not None
        return maker(self.config.max_length, self.config.d_model)

    def _layer(self, name: str, *, decoder: bool) -> None:
        self_attention, around = f"{name}.self_attention", f"{name}.around_attention"
        self._attention(self_attention, {"in": ("query", "key", "value"), "out": ("output",)})
        self._norm(
            f"{name}.around_self_attention",
            f"{name}.around_self_attention.norm" if decoder else f"{around}.norm",
        )
        if decoder:
            parts = {"in": ("query",), "memory": ("key", "value"), "out": ("output",)}
            self._attention(f"{name}.cross_attention", parts)
            self._norm(f"{name}.around_cross_attention", f"{name}.around_cross_attention.norm")
        for part in ("w1", "w2"):
            prefix = f"{name}.feed_forward.{part}"
            self._linear(f"{name}.{part}", self._tensor(f"{prefix}.weight"), self._tensors(f"{prefix}.bias"))
        self._norm(f"{name}.around_feed_forward", f"{name}.around_feed_forward.norm")

    def _attention(self, name: str, parts: Mapping[str, tuple[str, ...]]) -> None:
        """Join the products that have one input; pad the heads on the side where they stand."""
        config = self.config
        shared = config.key_value_heads or config.heads
        heads = {"query": config.heads, "key": shared, "value": shared, "output": config.heads}
        for packed, members in parts.items():
            weights, biases = [], []
            for member in members:
                weight = self._tensor(f"{name}.{member}.weight")
                bias = self._tensors(f"{name}.{member}.bias")
                if member == "output":
                    weight = padded_heads(weight.T, heads[member]).T
                else:
                    weight = padded_heads(weight, heads[member])
                    bias = None if bias is None else padded_heads(bias, heads[member])
                weights.append(weight)
                biases += [] if bias is None else [bias]
            self._linear(f"{name}.{packed}", torch.cat(weights), torch.cat(biases) if biases else None)

    def _tensor(self, name: str) -> Tensor:
        tensor = self._tensors(name)
        assert tensor is not None, name
        if not bool(tensor.isfinite().all()):
            raise CheckpointError(
                f"{name}: expected finite numbers, found others; the parameters are damaged"
            )
        return tensor

    def _linear(self, name: str, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.float().contiguous()
        bias = None if bias is None else bias.float().contiguous()
        place = None if bias is None else bias.data_ptr()
        self.library.call("linear", self.handle, name.encode(), weight.data_ptr(), place, *weight.shape)

    def _norm(self, name: str, module: str) -> None:
        for part in ("weight", "bias"):
            values = self._tensor(f"{module}.{part}").float().contiguous()
            key = f"{name}.{part}".encode()
            self.library.call("vector", self.handle, key, values.data_ptr(), len(values))

    def _table(self, name: str, values: Tensor) -> None:
        values = values.detach().float().contiguous()
        self.library.call("table", self.handle, name.encode(), values.data_ptr(), len(values))


def _offsets(rows: Sequence[Sized]) -> NDArray[np.int64]:
    """Return where each row begins when they stand one after the other, and the end."""
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return offsets


def padded_heads(weight: Tensor, heads: int) -> Tensor:
    """Pad each head's rows of a weight (heads * size, …) with zeros to a multiple of 16."""
    rows = weight.detach().unflatten(0, (heads, -1))
    missing = -rows.size(1) % _UNIT
    if not missing:
        return weight.detach()
    zeros = rows.new_zeros(heads, missing, *rows.shape[2:])
    return torch.cat([rows, zeros], dim=1).flatten(0, 1)
