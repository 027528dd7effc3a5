"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017), in the paper's order.

Shape legend: batch = sentences, source/target = time, d_model = width, rows = sentences × beams.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.models.base import Memory, State
from headwise.models.blocks import attention, feed_forward, final_norm, residual, self_attention
from headwise.models.embedded import EmbeddedSeq2Seq
from headwise.nn.cache import Cache
from headwise.nn.dropout import dropout
from headwise.nn.layers import Stack
from headwise.nn.masks import padding_mask, without_end
from headwise.nn.mixing import Role
from headwise.nn.positions import AttentionPositions, Positions, attention_positions


class InputEmbedding(Positions):
    """Input of the first layer: Dropout(√d_model E + PE) (sections 3.4, 3.5 and 5.4), with E the embeddings."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config.positions, config.max_length, config.d_model)
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.dropout = config.dropout

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Embed x (batch, time, d_model) at positions start, start+1, …

        Raises `DataError` if the sequence is longer than the table of positions.
        """
        return dropout(self.add_positions(x, start), self.dropout, self.training)

    def add_positions(self, x: Tensor, start: int) -> Tensor:
        """Return √d_model E + PE."""
        return super().forward(x * self.scale, start)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside its residual connection (section 3.1).

    In the paper `pre_norm` is the identity and `post_norm` is LayerNorm; with `norm: pre` it is the reverse. In the
    role `causal` this is the layer of a decoder-only model, which may use a cache.
    """

    def __init__(self, config: ModelConfig, positions: AttentionPositions | None = None, role: Role = "self") -> None:
        super().__init__()
        self.self_attention = self_attention(config, role, positions)
        self.feed_forward = feed_forward(config)
        self.around_attention = residual(config)
        self.around_feed_forward = residual(config)

    def forward(self, x: Tensor, mask: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """Encode x (batch, time, d_model); mask broadcastable to (batch, heads, time, key), True = may attend."""
        around = self.around_attention
        x = around.post_norm(around.add(x, self.self_attention(around.pre_norm(x), mask, cache)))
        around = self.around_feed_forward
        return around.post_norm(around.add(x, self.feed_forward(around.pre_norm(x))))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, then feed-forward (section 3.1)."""

    def __init__(self, config: ModelConfig, positions: AttentionPositions | None = None) -> None:
        super().__init__()
        self.self_attention = self_attention(config, "causal", positions)
        self.cross_attention = attention(config, "cross")
        self.feed_forward = feed_forward(config)
        self.around_self_attention = residual(config)
        self.around_cross_attention = residual(config)
        self.around_feed_forward = residual(config)

    def forward(
        self,
        x: Tensor,  # (batch, target, d_model)
        memory: tuple[Tensor, Tensor],  # keys and values (batch, heads, source, d_k and d_v)
        memory_mask: Tensor,  # (batch, 1, 1, source)
        cache: Cache | None = None,
    ) -> Tensor:
        """Decode x; with a cache, x is the newest position of each row, and beams share the memory of a sentence."""
        around = self.around_self_attention
        x = around.post_norm(around.add(x, self.self_attention(around.pre_norm(x), cache=cache)))
        around = self.around_cross_attention
        x = around.post_norm(around.add(x, self._attend_to_source(around.pre_norm(x), memory, memory_mask)))
        around = self.around_feed_forward
        return around.post_norm(around.add(x, self.feed_forward(around.pre_norm(x))))

    def _attend_to_source(self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        """Attend over the source; the beams of a sentence are queries over its single memory."""
        sentences = memory[0].size(0)
        queries = x.reshape(sentences, -1, x.size(-1))
        return self.cross_attention.cross_attend(queries, memory, mask).view_as(x)


@dataclass
class TransformerState(State):
    """Decoding state: self-attention caches per row, and the source's keys and values per sentence."""

    caches: list[Cache]
    memories: list[tuple[Tensor, Tensor]]
    mask: Tensor  # (sentences, 1, 1, source)
    beams: int

    @property
    def position(self) -> int:
        """Number of tokens fed so far."""
        return self.caches[0].length

    def reorder(self, rows: Tensor) -> TransformerState:  # noqa: D102
        for cache in self.caches:
            cache.select(rows)
        return self

    def keep(self, sentences: Tensor) -> TransformerState:  # noqa: D102
        self.reorder(self.rows_of(sentences))
        self.memories = [(k[sentences], v[sentences]) for k, v in self.memories]
        self.mask = self.mask[sentences]
        return self


class Transformer(EmbeddedSeq2Seq):
    """Encoder, decoder, and embeddings shared three ways (section 3.4).

    Raises `ConfigError` for unknown kinds of attention and positions, and for those that can't be combined;
    `build_model` checks that the vocabularies fit `share_embeddings`.
    """

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        self.positions = InputEmbedding(config)
        inside = attention_positions(config, config.encoder_layers, causal=False)
        self.encoder = Stack(EncoderLayer(config, positions) for positions in inside)
        inside = attention_positions(config, config.decoder_layers, causal=True)
        self.decoder = Stack(DecoderLayer(config, positions) for positions in inside)
        self.encoder_norm = final_norm(config)
        self.decoder_norm = final_norm(config)
        self._init_embeddings(config.d_model**-0.5)

    def encode(self, source: Tensor, mask: Tensor) -> Memory:  # noqa: D102
        if not self.config.source_end:
            mask = without_end(mask)
        attendable = padding_mask(mask)
        x = self._embed(self.source_embedding, source)  # (batch, source, d_model)
        for layer in self.encoder:
            x = layer(x, attendable)
        return Memory(self.encoder_norm(x), mask)

    def decode(self, memory: Memory, target_input: Tensor) -> Tensor:  # noqa: D102
        # Padding follows the real tokens, so the causal mask alone keeps them from attending to it.
        attendable = padding_mask(memory.mask)
        x = self._embed(self.target_embedding, target_input)  # (batch, target, d_model)
        for layer in self.decoder:
            x = layer(x, layer.cross_attention.project_memory(memory.states), attendable)
        return self.decoder_norm(x)

    def start(self, memory: Memory, beams: int = 1) -> TransformerState:  # noqa: D102
        memories = [layer.cross_attention.project_memory(memory.states) for layer in self.decoder]
        caches = [layer.self_attention.new_cache() for layer in self.decoder]
        return TransformerState(caches, memories, padding_mask(memory.mask), beams)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, TransformerState]:  # noqa: D102
        assert isinstance(state, TransformerState)
        x = self._embed(self.target_embedding, tokens[:, None], start=state.position)  # (rows, 1, d_model)
        for layer, cache, memory in zip(self.decoder, state.caches, state.memories, strict=True):
            x = layer(x, memory, state.mask, cache)
        return self.log_probabilities(self.decoder_norm(x).squeeze(1)), state

    def _embed(self, embedding: nn.Embedding, tokens: Tensor, start: int = 0) -> Tensor:
        """Scale embeddings by √d_model (section 3.4), add positions (section 3.5), apply dropout (section 5.4)."""
        return self.positions(self._look_up(embedding, tokens), start)
