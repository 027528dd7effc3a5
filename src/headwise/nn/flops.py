"""How much arithmetic a Transformer needs, by formula: the limit that a speed is measured against."""

from __future__ import annotations

from headwise.config import ModelConfig


def training_flops(model: ModelConfig, vocabulary: int, source: float, target: float) -> float:
    """Floating-point operations of a training step for one target token, with its share of the source.

    Matrix products alone, two operations for each multiplication, and twice as many again in the backward pass:
    6 for every weight that a token meets, 12 · length · d for each attention (half of it, where it is causal).

    Args:
        model: the shape.
        vocabulary: of the output projection.
        source: mean tokens of a source.
        target: mean tokens of a target.
    """
    d, heads = model.d_model, model.heads
    keys = d * (model.key_value_heads or heads) * (model.key_size + model.value_size)  # keys and values
    queries = d * heads * (model.key_size + model.value_size)  # queries and the output projection
    width = heads * (model.key_size + model.value_size) / 2
    feed_forward = 2 * d * model.d_ff
    ratio = source / target
    encoder = model.encoder_layers * ratio * (keys + queries + feed_forward + 2 * source * width)
    decoder = model.decoder_layers * (
        keys + queries + feed_forward + target * width + queries + ratio * keys + 2 * source * width
    )
    return 6 * (encoder + decoder + d * vocabulary)
