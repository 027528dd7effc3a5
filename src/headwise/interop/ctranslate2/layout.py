"""Variables of a CTranslate2 Transformer (specification `TransformerSpec`) beside the parameters of Headwise's.

CTranslate2 joins the projections that read the same input along the output dimension: query, key and value of
self-attention, key and value of cross-attention. A position table is stored for the encoder and for the decoder.
"""

from __future__ import annotations

from collections.abc import Callable

from headwise.config import ModelConfig
from headwise.config.support import Support
from headwise.interop.table import SAME, Change, Row

# Headwise's activations, and the names in CTranslate2's `Activation`, in its order.
ACTIVATIONS = {"relu": "RELU", "gelu_tanh": "GELUTanh", "silu": "SWISH", "gelu": "GELU"}
SIDES = ("encoder", "decoder")
POSITIONS = tuple(f"{side}/position_encodings/encodings" for side in SIDES)
SOURCE_EMBEDDING = "encoder/embeddings_0/weight"
TARGET_EMBEDDING = "decoder/embeddings/weight"
PROJECTION = "decoder/projection/weight"
LOGIT_BIAS = "decoder/projection/bias"

SUPPORTED = Support(
    *("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "norm", "normalization"),
    *("norm_epsilon", "activation", "gated", "feed_forward_bias", "attention_bias", "logit_bias"),
    *("max_length", "share_embeddings", "scale_embeddings", "source_end"),
    positions=("sinusoidal", "learned", "none"),  # a table
)


def unsupported(config: ModelConfig) -> str | None:
    """Return why CTranslate2 can't compute a model, naming the keys; None where it can."""
    problems = SUPPORTED.problems(config)
    return f"it has no {', '.join(problems)}" if problems else None


def table(
    model: ModelConfig,
    source_embedding: str = SOURCE_EMBEDDING,
    words: Callable[[str, str], Change] = lambda ours, theirs: SAME,
) -> list[Row]:
    """Return our parameters and theirs; theirs that are tied follow one another.

    `source_embedding` is their name of it. `words` returns the change of what has a row for each word, by our name and
    theirs.
    """
    rows: list[Row] = []

    def linear(theirs: str, modules: list[str], *, bias: bool) -> None:
        for part in ("weight", "bias") if bias else ("weight",):
            rows.append(Row(tuple(f"{module}.{part}" for module in modules), f"{theirs}/{part}"))

    def norm(theirs: str, module: str) -> None:
        rows.append(Row(f"{module}.weight", f"{theirs}/gamma"))
        if model.normalization == "layer":
            rows.append(Row(f"{module}.bias", f"{theirs}/beta"))

    def attention(theirs: str, module: str, around: str, *joined: str) -> None:
        for number, parts in enumerate((*joined, "output")):
            modules = [f"{module}.{part}" for part in parts.split()]
            linear(f"{theirs}/linear_{number}", modules, bias=model.attention_bias)
        norm(f"{theirs}/layer_norm", f"{around}.norm")

    for side, layers in zip(SIDES, (model.encoder_layers, model.decoder_layers), strict=True):
        for number in range(layers):
            ours, theirs = f"{side}.{number}", f"{side}/layer_{number}"
            around = f"{ours}.around_{'self_attention' if side == 'decoder' else 'attention'}"
            attention(f"{theirs}/self_attention", f"{ours}.self_attention", around, "query key value")
            if side == "decoder":
                around = f"{ours}.around_cross_attention"
                attention(f"{theirs}/attention", f"{ours}.cross_attention", around, "query", "key value")
            layer = {"linear_0": "w1", "linear_1": "w2"} | ({"linear_0_noact": "gate"} if model.gated else {})
            for part, own in layer.items():
                linear(f"{theirs}/ffn/{part}", [f"{ours}.feed_forward.{own}"], bias=model.feed_forward_bias)
            norm(f"{theirs}/ffn/layer_norm", f"{ours}.around_feed_forward.norm")
        if model.norm == "pre":
            norm(f"{side}/layer_norm", f"{side}_norm")

    source = "source_embedding.weight"
    target = source if model.share_embeddings == "all" else "target_embedding.weight"
    output = "output_projection.weight" if model.share_embeddings == "none" else target
    of_words = {source_embedding: source, TARGET_EMBEDDING: target, PROJECTION: output}
    of_words |= {LOGIT_BIAS: "logit_bias"} if model.logit_bias else {}
    rows += [Row(ours, theirs, words(ours, theirs)) for theirs, ours in of_words.items()]
    rows += [Row("positions.table", theirs, zeros=(model.max_length, model.d_model)) for theirs in POSITIONS]
    return rows
