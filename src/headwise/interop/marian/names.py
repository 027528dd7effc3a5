"""Parameter names of Marian's Transformer, beside Headwise's; its matrices are (input, output), ours the reverse."""

from __future__ import annotations

from headwise.config import ModelConfig

OPTIONS = "special:model.yml"  # array of the characters of a YAML text
POSITIONS = "Wpos"
OUTPUT = "decoder_ff_logit_out"
NORM_EPSILON = 1e-6
_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}


def embedding_names(model: ModelConfig) -> dict[str, str]:
    """Return the name in Marian of each matrix of embeddings, which is in both (vocabulary, d_model)."""
    if model.share_embeddings == "all":
        return {"source_embedding.weight": "Wemb"}
    names = {"source_embedding.weight": "encoder_Wemb", "target_embedding.weight": "decoder_Wemb"}
    if model.share_embeddings == "none":
        names["output_projection.weight"] = f"{OUTPUT}_Wt"
    return names


def layer_names(model: ModelConfig) -> dict[str, str]:
    """Return the name in Marian of each parameter of the layers, by its name in Headwise."""
    names: dict[str, str] = {}
    norm = "_pre" if model.norm == "pre" else ""
    for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        parts = {"self": "attention" if side == "encoder" else "self_attention"}
        parts |= {} if side == "encoder" else {"context": "cross_attention"}
        for number in range(layers):
            ours, theirs = f"{side}.{number}", f"{side}_l{number + 1}"
            for part, around in parts.items():
                attention = "cross_attention" if part == "context" else "self_attention"
                for projection, letter in _PROJECTIONS.items():
                    names[f"{ours}.{attention}.{projection}.weight"] = f"{theirs}_{part}_W{letter}"
                    if model.attention_bias:
                        names[f"{ours}.{attention}.{projection}.bias"] = f"{theirs}_{part}_b{letter}"
                names |= _norm(f"{ours}.around_{around}.norm", f"{theirs}_{part}_Wo_ln", norm)
            for index in (1, 2):
                names[f"{ours}.feed_forward.w{index}.weight"] = f"{theirs}_ffn_W{index}"
                names[f"{ours}.feed_forward.w{index}.bias"] = f"{theirs}_ffn_b{index}"
            names |= _norm(f"{ours}.around_feed_forward.norm", f"{theirs}_ffn_ffn_ln", norm)
        if model.norm == "pre":
            names |= _norm(f"{side}_norm", f"{side}_top_ln", "")
    return names


def _norm(ours: str, theirs: str, suffix: str) -> dict[str, str]:
    return {f"{ours}.weight": f"{theirs}_scale{suffix}", f"{ours}.bias": f"{theirs}_bias{suffix}"}
