"""Builders of the Transformer's sub-layers from the configuration.

The encoder-decoder, decoder-only and encoder-only models all use them.
"""

from __future__ import annotations

from torch import nn

from headwise.config import ModelConfig
from headwise.nn.attention import Layer, registered
from headwise.nn.layers import NORMALIZATIONS, FeedForward, Residual
from headwise.nn.mixing import Role, SequenceMixer
from headwise.nn.multihead import MultiHeadAttention
from headwise.nn.positions import AttentionPositions


def attention(config: ModelConfig, role: Role, positions: AttentionPositions | None = None) -> MultiHeadAttention:
    """Return a multi-head attention; raises `ConfigError` for a kind that doesn't support the configuration."""
    cross_kind = config.cross_attention if role == "cross" else None
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        key_size=config.key_size,
        value_size=config.value_size,
        key_value_heads=config.key_value_heads,
        bias=config.attention_bias,
        kind=cross_kind or config.attention,
        role=role,
        dropout=config.attention_dropout,
        options=config.attention_options,
        positions=positions,
    )


def self_attention(config: ModelConfig, role: Role, positions: AttentionPositions | None) -> SequenceMixer:
    """Return the self-attention of a layer, or the layer that `config.attention` names in its place.

    Raises `ConfigError` if that lacks a feature that the configuration needs.
    """
    kind = registered(config.attention)
    if isinstance(kind, Layer):
        kind.require_all(role=role, dropout=config.attention_dropout, positions=positions)
        return kind.make(config, causal=role == "causal")
    return attention(config, role, positions)


def feed_forward(config: ModelConfig) -> FeedForward:
    """Return a feed-forward network."""
    return FeedForward(
        config.d_model,
        config.d_ff,
        config.activation,
        config.activation_dropout,
        gated=config.gated,
        bias=config.feed_forward_bias,
    )


def normalization(config: ModelConfig) -> nn.Module:
    """Return a normalization over d_model."""
    return NORMALIZATIONS[config.normalization](config.d_model, config.norm_epsilon)


def final_norm(config: ModelConfig) -> nn.Module:
    """Return the normalization after the last layer of a stack, or the identity."""
    return normalization(config) if config.ends_normalized else nn.Identity()


def residual(config: ModelConfig) -> Residual:
    """Return the residual connection around a sub-layer."""
    return Residual(config.d_model, config.norm, config.dropout, normalization(config), connected=config.residual)
