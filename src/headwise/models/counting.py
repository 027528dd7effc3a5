"""Number of parameters (see docs/models.md) and of floating-point operations of a model, by formula.

Only matrix products are counted, multiplications and additions separately. Softmax, normalization, activations and the
elementwise products of LSTM and GRU cells are ignored, as usual. The backward pass computes two products for each one
of the forward pass, so `training_flops` is three times `forward_flops`. A test compares the formulas with torch's
counter.

n source tokens, m target tokens, end symbols included; d = d_model.
"""

from __future__ import annotations

import math

from torch import nn

from headwise.config import Config, ModelConfig
from headwise.engine.native.shapes import parameter_shapes

TRAINING = 3  # cost of forward and backward pass, in forward passes


def forward_flops(model: ModelConfig, target_size: int, n: int, m: int) -> int:
    """Return the operations of a forward pass over one sentence pair, including the output projection."""
    count_layers = {
        "transformer": _transformer,
        "recurrent": _recurrent,
        "convolutional": _convolutional,
    }[model.architecture]
    return count_layers(model, n, m) + projection_flops(model, target_size, m)


def training_flops(config: Config, target_tokens: float, sentence: int) -> float:
    """Return the operations of training on `target_tokens` tokens, in pairs with `sentence` tokens on each side."""
    pair = forward_flops(config.model, config.subwords.size, sentence, sentence)
    return TRAINING * pair / sentence * target_tokens


def attention_flops(model: ModelConfig, queries: int, keys: int) -> int:
    """Return the operations of one multi-head attention: projections, scores, and weighted sum of the values."""
    d, h, g = model.d_model, model.heads, model.groups
    d_k, d_v = model.key_size, model.value_size
    projections = queries * d * h * (d_k + d_v) + keys * d * g * (d_k + d_v)
    return 2 * (projections + queries * keys * h * (d_k + d_v))


def feed_forward_flops(model: ModelConfig, tokens: int) -> int:
    """Return the operations of one feed-forward network: two products, three if it is gated."""
    return 2 * (3 if model.gated else 2) * tokens * model.d_model * model.d_ff


def projection_flops(model: ModelConfig, target_size: int, tokens: int) -> int:
    """Return the operations of the projection of `tokens` hidden states to the vocabulary."""
    return 2 * tokens * model.d_model * target_size


def _transformer(model: ModelConfig, n: int, m: int) -> int:
    encoder = attention_flops(model, n, n) + feed_forward_flops(model, n)
    decoder = attention_flops(model, m, m) + attention_flops(model, m, n) + feed_forward_flops(model, m)
    return model.encoder_layers * encoder + model.decoder_layers * decoder


def _recurrent(model: ModelConfig, n: int, m: int) -> int:
    options, d = model.recurrent, model.d_model
    size = options.size or d
    gates = {"lstm": 4, "gru": 3}[options.cell]

    def layer(inputs: int) -> int:
        return 2 * gates * size * (inputs + size)  # per token

    total, width = 0, d
    for index in range(model.encoder_layers):
        bidirectional = options.reading == "both" or (options.reading == "both-first" and index == 0)
        total += n * layer(width) * (2 if bidirectional else 1)
        bridges = (2 if options.cell == "lstm" else 1) if bidirectional else 0
        total += bridges * 2 * size * size
        width = 2 * size if bidirectional else size
    memory = width if options.attention != "none" else 0
    context_input = memory if options.query == "previous" else 0
    feed_input = d if options.input_feeding else 0
    for index in range(model.decoder_layers):
        total += m * layer((size if index else d + feed_input) + context_input)
    if options.attention != "none":
        total += 2 * n * memory * size + 2 * m * n * (size + memory)  # keys; scores and contexts
        if options.attention == "additive":
            total += 2 * m * size * size  # queries
    if options.readout == "maxout":
        total += 2 * m * (size + d + memory) * 2 * d
    elif options.readout == "tanh":
        total += 2 * m * (memory + size) * d
    elif size != d:
        total += 2 * m * size * d
    return total


def _convolutional(model: ModelConfig, n: int, m: int) -> int:
    d = model.d_model
    channels = model.convolutional.channels or d
    block = 2 * model.convolutional.kernel * channels * 2 * channels  # per token
    projections = 4 * d * channels  # from d_model to channels and back, per token
    attention = m * projections + 4 * m * n * d
    return (
        n * projections
        + m * projections
        + model.encoder_layers * n * block
        + model.decoder_layers * (m * block + attention)
    )


def parameter_count(model: nn.Module) -> int:
    """Return the number of parameters; shared ones count once."""
    return sum(p.numel() for p in model.parameters())


def parameter_formula(model: ModelConfig, source_size: int, target_size: int) -> int:
    """Return the number of parameters of an encoder-decoder Transformer by formula, without building it.

    Per encoder layer: attention d·(h + g)·(d_k + d_v) with g key/value heads, feed-forward
    2·d·d_ff + d_ff + d (gated: d·d_ff + d_ff more), two norms 4·d (rms: 2·d); per decoder layer one more attention and
    one more norm; embeddings once per vocabulary that isn't shared; a bias of the logits; and learned positions.
    """
    return sum(map(math.prod, parameter_shapes(model, source_size, target_size).values()))
