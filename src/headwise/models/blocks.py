"""What a Transformer is built from, with every choice of the configuration made in one place.

The encoder-decoder, decoder-only and encoder-only models all take their parts from here.
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from headwise.config import ModelConfig
from headwise.nn.attention import Layer, registered
from headwise.nn.cache import Cache
from headwise.nn.dropout import dropout
from headwise.nn.layers import NORMALIZATIONS, FeedForward, Residual
from headwise.nn.mixing import Mixer, Role
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.positions import AttentionPositions, Positions


def attention(
    config: ModelConfig, role: Role, positions: AttentionPositions | None = None
) -> MultiHeadAttention:
    """Return one attention; raises `ConfigError` for a kind that can't be combined with the rest."""
    other = config.cross_attention if role == "cross" else None
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        key_size=config.key_size,
        value_size=config.value_size,
        key_value_heads=config.key_value_heads,
        bias=config.attention_bias,
        kind=other or config.attention,
        role=role,
        dropout=config.attention_dropout,
        options=config.attention_options,
        positions=positions,
    )


def self_attention(config: ModelConfig, role: Role, positions: AttentionPositions | None) -> Mixer:
    """Return what mixes a layer's own sequence: attention, or the layer that `config.attention` names instead."""
    known = registered(config.attention)
    if isinstance(known, Layer):
        return known.build(config, role, positions)
    return attention(config, role, positions)


def feed_forward(config: ModelConfig) -> FeedForward:
    """Return one feed-forward network."""
    return FeedForward(
        config.d_model,
        config.d_ff,
        config.activation,
        config.activation_dropout,
        gated=config.gated,
        bias=config.feed_forward_bias,
    )


def normalization(config: ModelConfig) -> nn.Module:
    """Return one normalization over d_model."""
    return NORMALIZATIONS[config.normalization](config.d_model, config.norm_epsilon)


def final_norm(config: ModelConfig) -> nn.Module:
    """Return what stands after the last layer of a stack: a normalization where the layers have theirs inside."""
    wanted = config.norm == "pre" if config.final_norm is None else config.final_norm
    return normalization(config) if wanted else nn.Identity()


def residual(config: ModelConfig) -> Residual:
    """Return the connection around one sub-layer."""
    return Residual(config.d_model, config.norm, config.dropout, normalization(config))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside its residual connection (section 3.1).

    In the role `causal` it is the layer of a decoder-only model, and may continue a cache.
    """

    def __init__(
        self, config: ModelConfig, positions: AttentionPositions | None = None, role: Role = "self"
    ) -> None:
        super().__init__()
        self.self_attention = self_attention(config, role, positions)
        self.feed_forward = feed_forward(config)
        self.around_attention = residual(config)
        self.around_feed_forward = residual(config)

    def forward(self, x: Tensor, mask: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """x (batch, time, d_model); mask broadcastable to (batch, heads, time, key), True = may attend."""
        x = self.around_attention(x, lambda y: self.self_attention(y, mask, cache))
        return self.around_feed_forward(x, self.feed_forward)


class Entrance(Positions):
    """From looked-up embeddings to the first layer's input: √d_model E + PE (section 3.4), dropped out (5.4).

    With `embedding_norm` the sum is normalized (Devlin et al. 2019); with `segments` the embedding of each position's
    segment is part of it.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config.positions, config.max_length, config.d_model)
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.dropout = config.dropout
        self.norm = normalization(config) if config.embedding_norm else nn.Identity()
        self.segments = nn.Embedding(config.segments, config.d_model) if config.segments else None
        if self.segments is not None:
            nn.init.normal_(self.segments.weight, std=config.d_model**-0.5)

    def forward(self, x: Tensor, start: int = 0, segments: Tensor | None = None) -> Tensor:
        """x (batch, time, d_model) stands at positions start, start+1, …; segments (batch, time) are all 0 if None.

        Raises ValueError where the sequence runs past the table.
        """
        x = super().forward(x * self.scale, start)
        if self.segments is not None:
            chosen = self.segments.weight[0] if segments is None else self.segments(segments)
            x = x + chosen.to(x.dtype)
        return dropout(self.norm(x), self.dropout, self.training)
