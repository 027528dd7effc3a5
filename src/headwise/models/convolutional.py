"""Convolutional sequence to sequence learning (ConvS2S, Gehring et al. 2017), in the paper's order.

    embeddings   e_j = w_j + p_j, on both sides (section 3.1)
    blocks       x ← (GLU(conv(x)) + x) √0.5, causal in the decoder (section 3.2)
    attention    in every decoder layer l: d_i = (W h_i + b + g_i) √0.5, a_ij = softmax_j(d_i · z_j),
                 c_i = m √(1/m) Σ_j a_ij (z_j + e_j) √0.5, and (h_i + W c_i) √0.5 is the output (sections 3.3 and 3.4)

z is the encoder's output, g the decoder's embeddings, m the number of source tokens. The paper halves the variance of
residual sums; the sums inside attention are scaled in the same way, as in the authors' implementation. The gradients of
the L attentions to the encoder are divided by L, except those to the source embeddings (section 3.4).

The gated linear unit is GLU([A; B]) = A ⊗ σ(B) of a convolution [A; B]_t = Σ_k W_k x_{t+k} + b (Dauphin et al. 2017).
Weights are normalized (Salimans & Kingma 2016): W = g v / ‖v‖, with one g for each output channel.

Shape legend: batch = sentences, source/target = time, d_model = width of embeddings, channels = width of blocks,
rows = sentences × beams.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from headwise.config import ModelConfig
from headwise.models.base import Memory, State
from headwise.models.embedded import EmbeddedSeq2Seq
from headwise.nn.dropout import dropout
from headwise.nn.layers import Stack
from headwise.nn.linear import linear
from headwise.nn.positions import Positions
from headwise.nn.recurrent import SourceAttention


class NormalizedLinear(nn.Linear):
    """x Wᵀ + b with weight normalization, initialized from N(0, gain / inputs) (Gehring et al. 2017, section 3.5)."""

    def __init__(self, inputs: int, outputs: int, gain: float = 1.0) -> None:
        super().__init__(inputs, outputs)
        nn.init.normal_(self.weight, std=math.sqrt(gain / inputs))
        nn.init.zeros_(self.bias)
        weight_norm(self)

    def forward(self, input: Tensor) -> Tensor:  # noqa: D102
        return linear(input, self.weight.to(input.dtype), self.bias.to(input.dtype))


class GatedConvolution(nn.Module):
    """Convolution with a gated linear unit, (batch, time, channels) to (batch, time - kernel + 1, channels).

    The caller pads the input: on both sides in an encoder, before the first position in a decoder.
    `keep` is the probability with which dropout keeps an input; half of the outputs are gates, hence the 4.
    """

    def __init__(self, channels: int, kernel: int, keep: float) -> None:
        super().__init__()
        self.kernel = kernel
        self.map = NormalizedLinear(kernel * channels, 2 * channels, gain=4 * keep)  # tap by tap

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        positions = x.size(1) - self.kernel + 1
        taps = [x[:, tap : tap + positions] for tap in range(self.kernel)]
        return functional.glu(self.map(torch.cat(taps, dim=-1)), dim=-1)


def half_variance(x: Tensor, y: Tensor) -> Tensor:
    """(x + y) √0.5: keeps the variance of two terms of equal variance (Gehring et al. 2017, section 3.4)."""
    return (x + y) * math.sqrt(0.5)


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """Return x bit for bit, with its gradient multiplied by `factor`."""
    constant = x.detach()
    return constant + (x - constant) * factor


@dataclass(frozen=True)
class ConvolutionalMemory(Memory):
    """An encoded source: `states` is the encoder's output z, `values` (batch, source, d_model) is (z + e) √0.5."""

    values: Tensor


@dataclass(frozen=True)
class ConvolutionalState(State):
    """Decoding state: the last inputs of each layer's convolution per row, and the source per sentence."""

    windows: tuple[Tensor, ...]  # (rows, kernel - 1, channels) each
    position: int  # number of tokens fed so far
    memory: ConvolutionalMemory
    beams: int

    def reorder(self, rows: Tensor) -> ConvolutionalState:  # noqa: D102
        return replace(self, windows=tuple(window[rows] for window in self.windows))

    def keep(self, sentences: Tensor) -> ConvolutionalState:  # noqa: D102
        memory = (part[sentences] for part in (self.memory.states, self.memory.mask, self.memory.values))
        return replace(self.reorder(self.rows_of(sentences)), memory=ConvolutionalMemory(*memory))


class ConvolutionalDecoderLayer(nn.Module):
    """A causal convolution block with its own attention over the source (section 3.3)."""

    def __init__(self, d_model: int, channels: int, kernel: int, drop: float, attention_drop: float) -> None:
        super().__init__()
        self.convolution = GatedConvolution(channels, kernel, 1 - drop)
        self.query = NormalizedLinear(channels, d_model)
        self.cross_attention = SourceAttention(attention_drop)
        self.output = NormalizedLinear(d_model, channels)
        self.dropout = drop

    def forward(
        self, x: Tensor, window: Tensor, embedded: Tensor, memory: ConvolutionalMemory
    ) -> tuple[Tensor, Tensor]:
        """Run over x (rows, time, channels), preceded by the inputs `window` (rows, kernel - 1, channels).

        Returns the output, and the window for the next positions.
        """
        inputs = torch.cat([window, dropout(x, self.dropout, self.training)], dim=1)
        h = self.convolution(inputs)  # (rows, time, channels)
        query = half_variance(self.query(h), embedded)  # (rows, time, d_model)
        sentences = len(memory.mask)
        queries = query.reshape(sentences, -1, query.size(-1))
        context = self.cross_attention(queries, memory.states, memory.values, memory.mask)
        length = memory.mask.sum(1)[:, None, None].to(context.dtype)  # m of each sentence
        context = (context * length.sqrt()).view_as(query)  # m √(1/m) = √m
        h = half_variance(h, self.output(context))
        return half_variance(h, x), inputs[:, x.size(1) :]


class ConvolutionalSeq2Seq(EmbeddedSeq2Seq):
    """ConvS2S, with learned positions for source and target.

    Dropout is applied to the embeddings, the inputs of the convolutions and the decoder's output (section 4.2).
    """

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        self._init_embeddings(0.1)  # Gehring et al. 2017, section 3.5
        d_model, kernel = config.d_model, config.convolutional.kernel
        channels, keep = config.convolutional.channels or d_model, 1 - config.dropout
        self.channels, self.kernel = channels, kernel
        self.source_positions = Positions("learned", config.max_length, d_model)
        self.target_positions = Positions("learned", config.max_length, d_model)
        for positions in (self.source_positions, self.target_positions):
            assert positions.table is not None
            nn.init.normal_(positions.table, std=0.1)
        self.encoder_input = NormalizedLinear(d_model, channels, gain=keep)
        self.encoder = Stack(GatedConvolution(channels, kernel, keep) for _ in range(config.encoder_layers))
        self.encoder_output = NormalizedLinear(channels, d_model)
        self.decoder_input = NormalizedLinear(d_model, channels, gain=keep)
        self.decoder = Stack(
            ConvolutionalDecoderLayer(d_model, channels, kernel, config.dropout, config.attention_dropout)
            for _ in range(config.decoder_layers)
        )
        self.decoder_output = NormalizedLinear(channels, d_model)

    def encode(self, source: Tensor, mask: Tensor) -> ConvolutionalMemory:  # noqa: D102
        embedded = self._drop(self.source_positions(self._look_up(self.source_embedding, source)))
        real = mask[:, :, None]
        x = self.encoder_input(embedded)  # (batch, source, channels)
        padding = self.kernel // 2
        for layer in self.encoder:
            # Inputs outside the sentence are zeros.
            inputs = self._drop(x).masked_fill(~real, 0.0)
            x = half_variance(layer(functional.pad(inputs, (0, 0, padding, padding))), x)
        z = scale_gradient(self.encoder_output(x), 1 / len(self.decoder))  # (batch, source, d_model)
        return ConvolutionalMemory(z, mask, half_variance(z, embedded))

    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:  # noqa: D102
        hidden, _ = self._advance(target_input, self.start(memory))
        return hidden

    def start(self, memory: Memory, beams: int = 1) -> ConvolutionalState:  # noqa: D102
        assert isinstance(memory, ConvolutionalMemory)
        window = memory.states.new_zeros(len(memory.mask) * beams, self.kernel - 1, self.channels)
        return ConvolutionalState((window,) * len(self.decoder), 0, memory, beams)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, ConvolutionalState]:  # noqa: D102
        assert isinstance(state, ConvolutionalState)
        hidden, state = self._advance(tokens[:, None], state)
        return self.log_probabilities(hidden.squeeze(1)), state

    def _advance(self, tokens: Tensor, state: ConvolutionalState) -> tuple[Tensor, ConvolutionalState]:
        """Feed tokens (rows, time); returns the hidden states (rows, time, d_model) and the new state."""
        embedded = self._look_up(self.target_embedding, tokens)
        embedded = self._drop(self.target_positions(embedded, state.position))
        x = self.decoder_input(embedded)  # (rows, time, channels)
        windows = []
        for layer, window in zip(self.decoder, state.windows, strict=True):
            x, next_window = layer(x, window, embedded, state.memory)
            windows.append(next_window)
        state = replace(state, windows=tuple(windows), position=state.position + tokens.size(1))
        return self._drop(self.decoder_output(x)), state
