"""The names and shapes of a Transformer's parameters that the native engine reads.

They equal those of `headwise.models.transformer`, which the engine doesn't import, because it imports PyTorch.
"""

from __future__ import annotations

from headwise.config import ModelConfig
from headwise.engine.native.positions import table_sizes

Shape = tuple[int, ...]


def parameter_shapes(config: ModelConfig, source_size: int, target_size: int) -> dict[str, Shape]:
    """Return the name and shape of every parameter of a Transformer that the engine supports, in the model's order."""
    d_model, shared = config.d_model, config.share_embeddings
    shapes: dict[str, Shape] = {"logit_bias": (target_size,)} if config.logit_bias else {}
    shapes["source_embedding.weight"] = (source_size, d_model)
    if shared != "all":
        shapes["target_embedding.weight"] = (target_size, d_model)
    if shared == "none":
        shapes["output_projection.weight"] = (target_size, d_model)
    if config.positions == "learned":
        shapes["positions.table"] = (config.max_length, d_model)
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(layers):
            layer, around = f"{side}.{number}", ["around_attention", "around_feed_forward"]
            shapes |= _attention(f"{layer}.self_attention", config)
            shapes |= _positions(f"{layer}.self_attention.positions", config, first=number == 0)
            if side == "decoder":
                shapes |= _attention(f"{layer}.cross_attention", config)
                around[:1] = "around_self_attention", "around_cross_attention"
            for part in ("w1", "gate") if config.gated else ("w1",):
                shapes |= _linear(f"{layer}.feed_forward.{part}", config.d_ff, d_model, config.feed_forward_bias)
            shapes |= _linear(f"{layer}.feed_forward.w2", d_model, config.d_ff, config.feed_forward_bias)
            for residual in around:
                shapes |= _norm(f"{layer}.{residual}.norm", config)
    if config.ends_normalized:
        shapes |= _norm("encoder_norm", config) | _norm("decoder_norm", config)
    return shapes


def _positions(name: str, config: ModelConfig, *, first: bool) -> dict[str, Shape]:
    """Return the tables of distances of a layer, the first one of its stack or not."""
    if config.positions == "t5" and first:
        return {f"{name}.table": (config.position_options.t5.buckets, config.heads)}
    sizes, shapes = table_sizes(config), {}
    if sizes.key_tables:
        shapes[f"{name}.keys"] = (sizes.key_tables, 2 * sizes.reach + 1, config.key_size)
    if sizes.value_tables:
        shapes[f"{name}.added"] = (sizes.value_tables, 2 * sizes.reach + 1, config.value_size)
    return shapes


def _attention(name: str, config: ModelConfig) -> dict[str, Shape]:
    d_model, heads, shared = config.d_model, config.heads, config.groups
    rows = {
        "query": heads * config.key_size,
        "key": shared * config.key_size,
        "value": shared * config.value_size,
    }
    shapes: dict[str, Shape] = {}
    for part, size in rows.items():
        shapes |= _linear(f"{name}.{part}", size, d_model, config.attention_bias)
    return shapes | _linear(f"{name}.output", d_model, heads * config.value_size, config.attention_bias)


def _linear(name: str, outputs: int, inputs: int, bias: bool) -> dict[str, Shape]:
    return {f"{name}.weight": (outputs, inputs)} | ({f"{name}.bias": (outputs,)} if bias else {})


def _norm(name: str, config: ModelConfig) -> dict[str, Shape]:
    return {f"{name}.{part}": (config.d_model,) for part in norm_parts(config)}


def norm_parts(config: ModelConfig) -> tuple[str, ...]:
    """Return the names of a normalization's parameters; RMSNorm has no bias."""
    return ("weight",) if config.normalization == "rms" else ("weight", "bias")
