"""Llama of `transformers` (Touvron et al. 2023), and models of its shape: Mistral and Qwen2 without sliding windows.

Rotary positions, whose pairs are halves of a head; RMSNorm before each sub-layer; SwiGLU; groups of heads that share
keys and values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from headwise import bounds
from headwise.config import ModelConfig
from headwise.config.base import Epsilon, Heads, Layers, Length, Probability, Width
from headwise.config.model import LARGEST_TABLE
from headwise.interop.base import Imported
from headwise.interop.huggingface.keys import check_architecture, model_config, read_keys, unexpected
from headwise.interop.huggingface.language_model import LanguageModelKeys, language_model
from headwise.interop.huggingface.tensors import folder_tensors
from headwise.interop.table import Changes, Left, Row

# Our names of a layer's parts, and theirs.
_LAYER = {
    "self_attention.query": "self_attn.q_proj",
    "self_attention.key": "self_attn.k_proj",
    "self_attention.value": "self_attn.v_proj",
    "self_attention.output": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.gate": "mlp.up_proj",
    "feed_forward.w2": "mlp.down_proj",
    "around_attention.norm": "input_layernorm",
    "around_feed_forward.norm": "post_attention_layernorm",
}
_WORDS, _OUTPUT = "model.embed_tokens.weight", "lm_head.weight"
# Their keys and ours, and the keys of ours that have one value there.
_KEYS = {
    "hidden_size": "d_model",
    "intermediate_size": "d_ff",
    "num_hidden_layers": "decoder_layers",
    "num_attention_heads": "heads",
    "hidden_act": "activation",
    "rms_norm_eps": "norm_epsilon",
    "mlp_bias": "feed_forward_bias",
    "attention_dropout": "attention_dropout",
}
_ALWAYS = {
    "norm": "pre",
    "normalization": "rms",
    "gated": True,
    "positions": "rotary",
    "scale_embeddings": False,
    "dropout": 0.0,
}
_ARCHITECTURES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM"}
_Base = Annotated[float, Field(gt=1.0, le=bounds.ROTARY_BASE)]


class Fields(LanguageModelKeys):
    """What config.json must have."""

    model_type: Literal["llama", "mistral", "qwen2"]
    hidden_size: Width
    intermediate_size: Width
    num_hidden_layers: Layers
    num_attention_heads: Heads
    num_key_value_heads: Heads | None = None
    head_dim: Width | None = None
    max_position_embeddings: Length = 2048
    hidden_act: str = "silu"
    rms_norm_eps: Epsilon = 1e-6
    rope_theta: _Base = 10000.0
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    attention_dropout: Probability = 0.0
    tie_word_embeddings: bool = False
    sliding_window: Length | None = None
    use_sliding_window: bool | None = None

    def has_bias(self, part: str) -> bool:
        """Whether a part of a layer, by its name there, has a bias; Qwen2 has one of queries, keys and values."""
        if self.model_type == "qwen2":
            return part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        return self.attention_bias if part.startswith("self_attn") else self.mlp_bias and part.startswith("mlp")


def _table(model: ModelConfig, fields: Fields, words: Changes) -> list[Row]:
    """Return our parameters and theirs; `words` reorders what has a row for each word."""
    tied = (_OUTPUT,) if fields.tie_word_embeddings else ()
    rows = [
        Row("embedding.weight", _WORDS, words(_WORDS), copies=tied),
        Row("norm.weight", "model.norm.weight"),
    ]
    if not fields.tie_word_embeddings:
        rows.append(Row("output_projection.weight", _OUTPUT, words(_OUTPUT)))
    for number in range(model.decoder_layers):
        for own, name in _LAYER.items():
            ours, theirs = f"layers.{number}.{own}", f"model.layers.{number}.{name}"
            rows.append(Row(f"{ours}.weight", f"{theirs}.weight"))
            if fields.has_bias(name):
                rows.append(Row(f"{ours}.bias", f"{theirs}.bias"))
            elif own == "self_attention.output" and model.attention_bias:
                rows.append(Row(f"{ours}.bias", None, zeros=(model.d_model,)))
    return rows


def read(source: Path) -> Imported:
    """Read a Llama directory; raises `CheckpointError` for what Headwise can't express."""
    fields = read_keys(source, Fields)
    check_architecture(source, fields.architectures, (_ARCHITECTURES[fields.model_type],))
    slides = fields.model_type == "mistral" if fields.use_sliding_window is None else fields.use_sliding_window
    if slides and (fields.sliding_window or fields.max_position_embeddings) < fields.max_position_embeddings:
        raise unexpected(source, "sliding_window", "none", fields.sliding_window)
    model = _model(fields, source)
    left = Left(source, folder_tensors(source))
    for number in range(model.decoder_layers):
        left.drop(f"model.layers.{number}.self_attn.rotary_emb.inv_freq")  # stored by old versions
    return language_model(source, fields, model, left, lambda words: _table(model, fields, words))


def _model(fields: Fields, source: Path) -> ModelConfig:
    size = fields.head_dim
    if size is None and fields.hidden_size % fields.num_attention_heads:
        raise unexpected(source, "hidden_size", f"a multiple of {fields.num_attention_heads} heads", fields.hidden_size)
    size = size or fields.hidden_size // fields.num_attention_heads
    return model_config(
        source,
        fields,
        _KEYS,
        **_ALWAYS,
        d_k=size,
        d_v=size,
        key_value_heads=fields.num_key_value_heads or fields.num_attention_heads,
        attention_bias=fields.has_bias("self_attn.q_proj"),
        position_options={"rotary": {"pairs": "halves", "base": _base(fields, source)}},
        share_embeddings="all" if fields.tie_word_embeddings else "none",
        max_length=min(fields.max_position_embeddings, max(1, LARGEST_TABLE // fields.hidden_size)),
    )


def _base(fields: Fields, source: Path) -> float:
    """Return the base of the angles; raises `CheckpointError` for angles that are scaled."""
    options: dict[str, Any] = (fields.rope_scaling or {}) | (fields.rope_parameters or {})
    kind = options.get("rope_type", options.get("type", "default"))
    if kind != "default" or options.get("partial_rotary_factor", 1.0) != 1.0:
        raise unexpected(source, "rope_parameters", "rope_type default", options)
    base = options.get("rope_theta", fields.rope_theta)
    if isinstance(base, bool) or not isinstance(base, int | float) or not 1.0 < base <= bounds.ROTARY_BASE:
        raise unexpected(source, "rope_theta", f"a number above 1, at most {bounds.ROTARY_BASE:g}", base)
    return float(base)
