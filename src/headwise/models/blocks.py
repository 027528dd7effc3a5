"""What a Transformer is built from, with every choice of the configuration made in one place.

The encoder-decoder, decoder-only and encoder-only models all take their parts from here.
"""

from __future__ import annotations

from torch import nn

from headwise.config import ModelConfig
from headwise.nn.attention import Layer, registered
from headwise.nn.layers import NORMALIZATIONS, FeedForward, Residual
from headwise.nn.mixing import Role, SequenceMixer
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.positions import AttentionPositions


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


def self_attention(config: ModelConfig, role: Role, positions: AttentionPositions | None) -> SequenceMixer:
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
