"""Llama of `transformers` (Touvron et al. 2023), and models of its shape: Mistral and Qwen2 without sliding windows.

Rotary positions, whose pairs are halves of a head; RMSNorm before each sub-layer; SwiGLU; groups of heads that share
keys and values.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from headwise import bounds
from headwise.config import ModelConfig
from headwise.config.base import Epsilon, Heads, Layers, Length, Probability, Width
from headwise.config.model import LARGEST_TABLE
from headwise.interop.base import Imported
from headwise.interop.huggingface.fields import find_activation, make_config, read_keys, unexpected
from headwise.interop.huggingface.imports.language_model import Keys, language_model
from headwise.interop.huggingface.parameters import Parameters

LAYER = {
    "self_attn.q_proj": "self_attention.query",
    "self_attn.k_proj": "self_attention.key",
    "self_attn.v_proj": "self_attention.value",
    "self_attn.o_proj": "self_attention.output",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.up_proj": "feed_forward.gate",
    "mlp.down_proj": "feed_forward.w2",
    "input_layernorm": "around_attention.norm",
    "post_attention_layernorm": "around_feed_forward.norm",
}
_ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
}
_Base = Annotated[float, Field(gt=1.0, le=bounds.ROTARY_BASE)]


class Fields(Keys):
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
        return (
            self.attention_bias if part.startswith("self_attn") else self.mlp_bias and part.startswith("mlp")
        )


def read(source: Path) -> Imported:
    """Read a Llama directory; raises `CheckpointError` for what Headwise can't express."""
    fields = read_keys(source, Fields)
    fields.check(source, (_ARCHITECTURES[fields.model_type],))
    slides = (
        fields.model_type == "mistral" if fields.use_sliding_window is None else fields.use_sliding_window
    )
    if slides and (fields.sliding_window or fields.max_position_embeddings) < fields.max_position_embeddings:
        raise unexpected(source, "sliding_window", "none", fields.sliding_window)
    model = _model(fields, source)
    left = Parameters(source)
    words, output = "model.embed_tokens.weight", "lm_head.weight"
    if fields.tie_word_embeddings:
        left.drop_copy(output, words)
    names = {"norm.weight": "model.norm.weight"}
    for number in range(model.decoder_layers):
        left.drop((f"model.layers.{number}.self_attn.rotary_emb.inv_freq",))  # stored by old versions
        for theirs, ours in LAYER.items():
            names[f"layers.{number}.{ours}.weight"] = f"model.layers.{number}.{theirs}.weight"
            if fields.has_bias(theirs):
                names[f"layers.{number}.{ours}.bias"] = f"model.layers.{number}.{theirs}.bias"
    found = left.take_all(names)
    if model.attention_bias:
        for number in range(model.decoder_layers):
            name = f"layers.{number}.self_attention.output.bias"
            found.setdefault(name, partial(torch.zeros, model.d_model))
    embeddings = {"embedding.weight": left.take(words)}
    if not fields.tie_word_embeddings:
        embeddings["output_projection.weight"] = left.take(output)
    return language_model(source, fields, model, found, embeddings, left)


def _model(fields: Fields, source: Path) -> ModelConfig:
    size = fields.head_dim
    if size is None and fields.hidden_size % fields.num_attention_heads:
        raise unexpected(
            source, "hidden_size", f"a multiple of {fields.num_attention_heads} heads", fields.hidden_size
        )
    size = size or fields.hidden_size // fields.num_attention_heads
    return make_config(
        source,
        ModelConfig,
        decoder_layers=fields.num_hidden_layers,
        d_model=fields.hidden_size,
        d_ff=fields.intermediate_size,
        heads=fields.num_attention_heads,
        d_k=size,
        d_v=size,
        key_value_heads=fields.num_key_value_heads or fields.num_attention_heads,
        norm="pre",
        normalization="rms",
        norm_epsilon=fields.rms_norm_eps,
        activation=find_activation(source, "hidden_act", fields.hidden_act),
        gated=True,
        feed_forward_bias=fields.mlp_bias,
        attention_bias=fields.has_bias("self_attn.q_proj"),
        positions="rotary",
        position_options={"rotary": {"pairs": "halves", "base": _base(fields, source)}},
        share_embeddings="all" if fields.tie_word_embeddings else "none",
        scale_embeddings=False,
        max_length=min(fields.max_position_embeddings, max(1, LARGEST_TABLE // fields.hidden_size)),
        dropout=0.0,
        attention_dropout=fields.attention_dropout,
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
