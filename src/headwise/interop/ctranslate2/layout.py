"""Variables of a CTranslate2 Transformer (specification `TransformerSpec`) beside the parameters of Headwise's.

CTranslate2 joins the projections that read the same input along the output dimension: query, key and value of
self-attention, key and value of cross-attention. A position table is stored for the encoder and for the decoder.
"""

from __future__ import annotations

from headwise.config import ModelConfig
from headwise.config.support import Support

# Headwise's activations, and the names in CTranslate2's `Activation`.
ACTIVATIONS = {"relu": "RELU", "gelu_tanh": "GELUTanh", "silu": "SWISH", "gelu": "GELU"}
TABLES = ("sinusoidal", "learned", "none")  # positions that are a table

SIDES = ("encoder", "decoder")
POSITIONS = "{side}/position_encodings/encodings"
SOURCE_EMBEDDING = "encoder/embeddings_0/weight"
TARGET_EMBEDDING = "decoder/embeddings/weight"
PROJECTION = "decoder/projection"

SUPPORTED = Support(
    *(
        "encoder_layers",
        "decoder_layers",
        "d_model",
        "d_ff",
        "heads",
        "norm",
        "normalization",
        "norm_epsilon",
    ),
    *("activation", "gated", "feed_forward_bias", "attention_bias", "logit_bias", "max_length"),
    *("share_embeddings", "scale_embeddings", "source_end"),
    positions=TABLES,
)


def unsupported(config: ModelConfig) -> str | None:
    """Return why CTranslate2 can't compute a model, naming the keys; None where it can."""
    problems = SUPPORTED.problems(config)
    return f"it has no {', '.join(problems)}" if problems else None


def linear_layers(config: ModelConfig) -> dict[str, tuple[str, ...]]:
    """Return the modules whose outputs each linear layer of CTranslate2 joins, by the layer's scope."""
    layers: dict[str, tuple[str, ...]] = {}

    def attention(scope: str, module: str, *joined: tuple[str, ...]) -> None:
        for number, parts in enumerate((*joined, ("output",))):
            layers[f"{scope}/linear_{number}"] = tuple(f"{module}.{part}" for part in parts)

    for scope, module in _stack(config):
        attention(f"{scope}/self_attention", f"{module}.self_attention", ("query", "key", "value"))
        if module.startswith("decoder"):
            attention(f"{scope}/attention", f"{module}.cross_attention", ("query",), ("key", "value"))
        layers[f"{scope}/ffn/linear_0"] = (f"{module}.feed_forward.w1",)
        if config.gated:
            layers[f"{scope}/ffn/linear_0_noact"] = (f"{module}.feed_forward.gate",)
        layers[f"{scope}/ffn/linear_1"] = (f"{module}.feed_forward.w2",)
    return layers


def norms(config: ModelConfig) -> dict[str, str]:
    """Return the module of each normalization, by its scope in CTranslate2."""
    modules: dict[str, str] = {}
    for scope, module in _stack(config):
        decodes = module.startswith("decoder")
        own = "around_self_attention" if decodes else "around_attention"
        modules[f"{scope}/self_attention/layer_norm"] = f"{module}.{own}.norm"
        if decodes:
            modules[f"{scope}/attention/layer_norm"] = f"{module}.around_cross_attention.norm"
        modules[f"{scope}/ffn/layer_norm"] = f"{module}.around_feed_forward.norm"
    if config.norm == "pre":
        modules |= {f"{side}/layer_norm": f"{side}_norm" for side in SIDES}
    return modules


def _stack(config: ModelConfig) -> list[tuple[str, str]]:
    """Return the scope and the module of each layer."""
    depths = zip(SIDES, (config.encoder_layers, config.decoder_layers), strict=True)
    return [(f"{side}/layer_{i}", f"{side}.{i}") for side, depth in depths for i in range(depth)]


def embeddings(config: ModelConfig) -> tuple[str, str, str]:
    """Return the parameters of the source embedding, the target embedding and the output projection."""
    source = "source_embedding.weight"
    target = source if config.share_embeddings == "all" else "target_embedding.weight"
    output = "output_projection.weight" if config.share_embeddings == "none" else target
    return source, target, output
