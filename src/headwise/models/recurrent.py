"""Recurrent encoder–decoders, from models without attention to GNMT, as one configurable model.

    encoder   h_j: stacked LSTM or GRU layers, uni- or bidirectional; residual connections from the third layer on
    decoder   s_i: as many layers, each initialized from the final state of the encoder layer of the same index
    query     previous: the query of c_i is the bottom layer's s_{i-1}, and c_i is an input of every layer
                        (Bahdanau et al. 2015, appendix A; Wu et al. 2016, section 3 and figure 1)
              current:  the query of c_i is the top layer's s_i (Luong et al. 2015, section 3)
    readout   maxout:   max of each pair in W [s_i; y_{i-1}; c_i] (Bahdanau, appendix A.2.2, with equation 4's s_i)
              tanh:     tanh(W [c_i; s_i]) (Luong, equation 5), with input feeding also a part of the next input
              state:    s_i (Sutskever et al. 2014; GNMT), through a linear map if its width isn't d_model

Without attention, the decoder depends on the source through the final state only (Cho et al. 2014; Sutskever et al.
2014).

Shape legend: batch = sentences, source/target = time, d_model = width of embeddings and readout, size = width of a
state, rows = sentences × beams.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.errors import ConfigError
from headwise.models.base import Memory, State
from headwise.models.embedded import EmbeddedSeq2Seq
from headwise.nn.layers import Stack
from headwise.nn.linear import Linear
from headwise.nn.recurrent import SCORES, Parts, Recurrence, SourceAttention, reverse

_FIRST_RESIDUAL = 2  # the third layer (Wu et al. 2016, figure 1)


@dataclass(frozen=True)
class RecurrentMemory(Memory):
    """The encoder's outputs, and the final state of each layer, tensors (batch, directions, size)."""

    final: tuple[Parts, ...]


@dataclass(frozen=True)
class RecurrentState(State):
    """Decoding state: layer states per row; keys, values and mask per sentence, shared by its beams."""

    layers: tuple[Parts, ...]  # tensors (rows, size)
    fed: Tensor | None  # input feeding: the last readout (rows, d_model)
    keys: Tensor | None  # (sentences, source, size); None without attention
    values: Tensor  # (sentences, source, memory size)
    mask: Tensor  # (sentences, source)
    beams: int

    def reorder(self, rows: Tensor) -> RecurrentState:  # noqa: D102
        layers = tuple(tuple(part[rows] for part in parts) for parts in self.layers)
        return replace(self, layers=layers, fed=None if self.fed is None else self.fed[rows])

    def keep(self, sentences: Tensor) -> RecurrentState:  # noqa: D102
        return replace(
            self.reorder(self.rows_of(sentences)),
            keys=None if self.keys is None else self.keys[sentences],
            values=self.values[sentences],
            mask=self.mask[sentences],
        )


class Bridge(nn.Module):
    """Map from the final state of an encoder layer to the initial state of a decoder layer.

    For a bidirectional layer it is tanh(W h) of the backward state, which read the first word last (Bahdanau et al.
    2015, appendix A.2.2), and W c for the cell of an LSTM; for any other layer it is the identity (Sutskever et al.
    2014, section 2).
    """

    def __init__(self, layer: Recurrence) -> None:
        super().__init__()
        count = layer.parts if layer.bidirectional else 0
        self.maps = nn.ModuleList(Linear(layer.size, layer.size) for _ in range(count))

    def forward(self, final: Parts) -> Parts:
        """Map a final state, tensors (batch, directions, size), to an initial one, tensors (batch, size)."""
        parts = [part[:, -1] for part in final]  # the backward direction is last
        for index, module in enumerate(self.maps):
            parts[index] = module(parts[index])
        if self.maps:
            parts[0] = torch.tanh(parts[0])
        return tuple(parts)


class Readout(nn.Module):
    """Map from the top layer's state, the context and the input to the hidden state for the output projection."""

    def __init__(self, kind: str, size: int, context: int, d_model: int) -> None:
        super().__init__()
        self.kind = kind
        if kind == "maxout":
            self.map = Linear(size + d_model + context, 2 * d_model)
        elif kind == "tanh":
            self.map = Linear(context + size, d_model, bias=False)
        else:
            self.map = nn.Identity() if size == d_model else Linear(size, d_model, bias=False)

    def forward(self, top: Tensor, embedded: Tensor, context: Tensor | None) -> Tensor:
        """Map tensors (…, their own width) to (…, d_model)."""
        contexts = [] if context is None else [context]
        if self.kind == "maxout":
            return self.map(torch.cat([top, embedded, *contexts], dim=-1)).unflatten(-1, (-1, 2)).amax(-1)
        if self.kind == "tanh":
            return torch.tanh(self.map(torch.cat([*contexts, top], dim=-1)))
        return self.map(top)


class RecurrentSeq2Seq(EmbeddedSeq2Seq):
    """Recurrent encoder–decoder configured by `ModelConfig.recurrent` (see the top of this file).

    Dropout is applied to the embeddings, between layers, and to the readout, never to the recurrent connections
    (Zaremba et al. 2014). Raises `ConfigError` if encoder and decoder layers don't match.
    """

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        _check_layers(config)
        super().__init__(config, source_size, target_size)
        self._init_embeddings(0.1)  # Gehring et al. 2017, section 3.5
        self.options = options = config.recurrent
        self.size = size = options.size or config.d_model
        self.encoder: Stack[Recurrence] = Stack()
        width = config.d_model
        for index in range(config.encoder_layers):
            bidirectional = options.reading == "both" or (options.reading == "both-first" and index == 0)
            self.encoder.append(Recurrence(options.cell, width, size, bidirectional=bidirectional))
            width = 2 * size if bidirectional else size
        self.cross_attention: SourceAttention | None = None
        context = 0
        if options.attention != "none":
            self.cross_attention = SCORES[options.attention](size, width, config.attention_dropout)
            context = width
        context_input = context if options.query == "previous" else 0
        feed_input = config.d_model if options.input_feeding else 0
        self.bridges = nn.ModuleList(Bridge(layer) for layer in self.encoder)
        self.decoder: Stack[Recurrence] = Stack()
        for index in range(config.decoder_layers):
            layer_input = size if index else config.d_model + feed_input
            self.decoder.append(Recurrence(options.cell, layer_input + context_input, size))
        self.readout = Readout(options.readout, size, context, config.d_model)

    def encode(self, source: Tensor, mask: Tensor) -> RecurrentMemory:  # noqa: D102
        lengths = mask.sum(1).cpu()
        backward = self.options.reading == "backward"
        x = self._drop(self._look_up(self.source_embedding, source))  # (batch, source, d_model)
        x = reverse(x, mask) if backward else x
        final = []
        for index, layer in enumerate(self.encoder):
            out, state = layer.encode(self._drop(x) if index else x, lengths)
            x = self._add_residual(index, x, out)
            final.append(state)
        return RecurrentMemory(reverse(x, mask) if backward else x, mask, tuple(final))

    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:  # noqa: D102
        state = self.start(memory)
        embedded = self._drop(self._look_up(self.target_embedding, target_input))  # (batch, target, d_model)
        if self._is_sequential():
            return self._decode_by_steps(embedded, state)
        x = embedded
        for index, (layer, parts) in enumerate(zip(self.decoder, state.layers, strict=True)):
            x = self._add_residual(index, x, layer.run(self._drop(x) if index else x, parts))
        return self._drop(self.readout(x, embedded, self._attend(x, state)))

    def start(self, memory: Memory, beams: int = 1) -> RecurrentState:  # noqa: D102
        assert isinstance(memory, RecurrentMemory)
        layers = [bridge(final) for bridge, final in zip(self.bridges, memory.final, strict=True)]
        rows = len(memory.mask) * beams
        feeding = self.options.input_feeding
        return RecurrentState(
            tuple(tuple(part.repeat_interleave(beams, dim=0) for part in parts) for parts in layers),
            memory.states.new_zeros(rows, self.config.d_model) if feeding else None,
            self.cross_attention.project_memory(memory.states) if self.cross_attention is not None else None,
            memory.states,
            memory.mask,
            beams,
        )

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, RecurrentState]:  # noqa: D102
        assert isinstance(state, RecurrentState)
        embedded = self._look_up(self.target_embedding, tokens)  # (rows, d_model)
        top, context, state = self._advance(embedded, state, self._weights(embedded.dtype))
        hidden = self.readout(top, embedded, context)
        if self.options.input_feeding:
            state = replace(state, fed=hidden)
        return self.log_probabilities(hidden), state

    def _is_sequential(self) -> bool:
        """Return whether a step depends on the previous one by more than the layers' own states."""
        attends_first = self.cross_attention is not None and self.options.query == "previous"
        return attends_first or self.options.input_feeding

    def _decode_by_steps(self, embedded: Tensor, state: RecurrentState) -> Tensor:
        attention = self.cross_attention
        assert attention is not None
        weights = self._weights(embedded.dtype)
        tops, contexts, readouts = [], [], []
        try:
            for position, y in enumerate(embedded.unbind(1)):
                attention.continues = position > 0
                top, context, state = self._advance(y, state, weights)
                if self.options.input_feeding:
                    readouts.append(self._drop(self.readout(top, y, context)))
                    state = replace(state, fed=readouts[-1])
                else:
                    tops.append(top)
                    contexts.append(context)
        finally:
            attention.continues = False
        if self.options.input_feeding:
            return torch.stack(readouts, dim=1)
        return self._drop(self.readout(torch.stack(tops, dim=1), embedded, torch.stack(contexts, dim=1)))

    def _advance(
        self, embedded: Tensor, state: RecurrentState, weights: list[list[Tensor]]
    ) -> tuple[Tensor, Tensor | None, RecurrentState]:
        """Decode one position; returns the top layer's output, the context, and the new state without its readout."""
        attends_first = self.options.query == "previous"
        context = self._attend_rows(state.layers[0][0], state) if attends_first else None
        contexts = [] if context is None else [context]
        x = embedded
        layers = []
        for index, (parts, weight) in enumerate(zip(state.layers, weights, strict=True)):
            inputs = [self._drop(x)] if index else [x] if state.fed is None else [x, state.fed]
            layers.append(Recurrence.step(torch.cat([*inputs, *contexts], dim=-1), parts, weight))
            x = self._add_residual(index, x, layers[-1][0])
        if not attends_first:
            context = self._attend_rows(x, state)
        return x, context, replace(state, layers=tuple(layers))

    def _add_residual(self, index: int, x: Tensor, out: Tensor) -> Tensor:
        """Add a layer's input to its output if the layer has a residual connection (Wu et al. 2016, equation 6)."""
        return out + x if self.options.residual and index >= _FIRST_RESIDUAL else out

    def _attend(self, query: Tensor, state: RecurrentState) -> Tensor | None:
        """Return the contexts (sentences, queries, memory size) of queries (sentences, queries, size)."""
        if self.cross_attention is None:
            return None
        return self.cross_attention(query, state.keys, state.values, state.mask)

    def _attend_rows(self, query: Tensor, state: RecurrentState) -> Tensor | None:
        """Return the contexts (rows, memory size) of queries (rows, size)."""
        # The beams of a sentence are queries over its memory.
        context = self._attend(query.view(len(state.mask), -1, self.size), state)
        return None if context is None else context.flatten(0, 1)

    def _weights(self, dtype: torch.dtype) -> list[list[Tensor]]:
        return [layer.weights(dtype) for layer in self.decoder]


def _check_layers(config: ModelConfig) -> None:
    """Raise `ConfigError` if encoder and decoder layers don't match, or residual connections have no layer."""
    if config.encoder_layers != config.decoder_layers:
        raise ConfigError(
            "model.decoder_layers: each recurrent decoder layer begins from the encoder layer at its height, "
            f"expected {config.encoder_layers} as in the encoder, found {config.decoder_layers}"
        )
    if config.recurrent.residual and config.encoder_layers <= _FIRST_RESIDUAL:
        raise ConfigError(
            "model.recurrent.residual: residual connections begin at the third layer, "
            f"found {config.encoder_layers} layers"
        )
