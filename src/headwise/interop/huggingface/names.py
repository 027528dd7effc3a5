"""Parameter names of the BART family in `transformers` (Marian, Pegasus), beside Headwise's."""

from __future__ import annotations

from headwise.config import ModelConfig

# Headwise's part of a layer's parameter name, and theirs.
_SUBLAYERS = {
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "around_attention.norm": "self_attn_layer_norm",  # of an encoder layer
    "around_self_attention.norm": "self_attn_layer_norm",
    "around_cross_attention.norm": "encoder_attn_layer_norm",
    "around_feed_forward.norm": "final_layer_norm",
    "feed_forward.w1": "fc1",
    "feed_forward.w2": "fc2",
}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


# Their names of activations, and ours.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "swish": "silu",
    "silu": "silu",
}
THEIR_ACTIVATIONS = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}


def layer_names(config: ModelConfig) -> dict[str, str]:
    """Return the name in `transformers` of each parameter of the layers, by its name in Headwise."""
    names: dict[str, str] = {}
    parts = ("weight", "bias") if config.attention_bias else ("weight",)
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        norms = ("attention",) if side == "encoder" else ("self_attention", "cross_attention")
        attentions = ("self_attention",) if side == "encoder" else ("self_attention", "cross_attention")
        for number in range(layers):
            ours, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
            for attention in attentions:
                for projection, name in _PROJECTIONS.items():
                    for part in parts:
                        names[f"{ours}.{attention}.{projection}.{part}"] = (
                            f"{theirs}.{_SUBLAYERS[attention]}.{name}.{part}"
                        )
            modules = [f"around_{norm}.norm" for norm in (*norms, "feed_forward")]
            for module in (*modules, "feed_forward.w1", "feed_forward.w2"):
                for part in ("weight", "bias"):
                    names[f"{ours}.{module}.{part}"] = f"{theirs}.{_SUBLAYERS[module]}.{part}"
        if config.norm == "pre":
            for part in ("weight", "bias"):
                names[f"{side}_norm.{part}"] = f"model.{side}.layer_norm.{part}"
    return names
