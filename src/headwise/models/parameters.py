"""How many parameters a model has: counted, and by the formula of its configuration (see docs/parameters.md)."""

from __future__ import annotations

from torch import nn

from headwise.config import ModelConfig


def parameter_count(model: nn.Module) -> int:
    """Count the parameters, shared ones once."""
    return sum(p.numel() for p in model.parameters())


def parameter_formula(model: ModelConfig, source_size: int, target_size: int) -> int:
    """Count the parameters of an encoder-decoder Transformer by formula.

    Per encoder layer: attention d·(h + g)·(d_k + d_v) with g heads of keys and values, feed-forward
    2·d·d_ff + d_ff + d (gated: d·d_ff + d_ff more), two norms 4·d (rms: 2·d); per decoder layer one more attention and
    one more norm; embeddings once per vocabulary that isn't shared; and what positions learn.
    """
    d, h, g = model.d_model, model.heads, model.key_value_heads or model.heads
    attention = d * (h + g) * (model.key_size + model.value_size)
    if model.attention_bias:
        attention += h * model.key_size + g * (model.key_size + model.value_size) + d
    inner = 2 if model.gated else 1  # matrices from d_model to d_ff
    feed_forward = (inner + 1) * d * model.d_ff
    if model.feed_forward_bias:
        feed_forward += inner * model.d_ff + d
    norm = d if model.normalization == "rms" else 2 * d
    encoder = model.encoder_layers * (attention + feed_forward + 2 * norm)
    decoder = model.decoder_layers * (2 * attention + feed_forward + 3 * norm)
    with_final = model.norm == "pre" if model.final_norm is None else model.final_norm
    final_norms = 2 * norm if with_final else 0
    embeddings = {
        "all": source_size,
        "target": source_size + target_size,
        "none": source_size + 2 * target_size,
    }
    return (
        encoder + decoder + final_norms + d * embeddings[model.share_embeddings] + _learned_positions(model)
    )


def _learned_positions(model: ModelConfig) -> int:
    relative, t5 = model.position_options.relative, model.position_options.t5
    a_distance = (model.heads if relative.per_head else 1) * (
        model.key_size + (model.value_size if relative.values else 0)
    )
    learned = {
        "learned": model.max_length * model.d_model,
        "relative": (model.encoder_layers + model.decoder_layers) * (2 * relative.reach + 1) * a_distance,
        "t5": 2 * t5.buckets * model.heads,  # a table for each of the two stacks
    }
    return learned.get(model.positions, 0)
