"""The options of a fairseq model that matter; a literal is the only value that Headwise can express."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from headwise.config.base import Heads, Layers, Length, Probability, Width
from headwise.errors import CheckpointError
from headwise.interop.reading import checked

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "swish": "silu",
}

# Options that are off in a model of the paper's kind, as None, False, 0 or an empty list.
Off = Annotated[Literal[False], BeforeValidator(bool)]


class Options(BaseModel):
    """The model's options, by the names of the command line."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    arch: Annotated[str, Field(pattern=r"transformer", max_length=100)]
    encoder_embed_dim: Width
    encoder_ffn_embed_dim: Width
    encoder_layers: Layers
    encoder_attention_heads: Heads
    encoder_normalize_before: bool = False
    encoder_learned_pos: Off = False
    decoder_embed_dim: Width
    decoder_ffn_embed_dim: Width
    decoder_layers: Layers
    decoder_attention_heads: Heads
    decoder_normalize_before: bool = False
    decoder_learned_pos: Off = False
    decoder_output_dim: Width | None = None
    decoder_input_dim: Width | None = None
    share_decoder_input_output_embed: bool = False
    share_all_embeddings: bool = False
    no_scale_embedding: bool = False
    no_token_positional_embeddings: bool = False
    activation_fn: Literal["relu", "gelu", "gelu_accurate", "gelu_fast", "swish"] = "relu"
    max_source_positions: Length = 1024
    max_target_positions: Length = 1024
    dropout: Probability = 0.1
    layernorm_embedding: Off = False
    adaptive_input: Off = False
    adaptive_softmax_cutoff: Off = False
    no_cross_attention: Off = False
    cross_self_attention: Off = False
    no_decoder_final_norm: Off = False
    char_inputs: Off = False
    base_layers: Off = False
    source_lang: str | None = None
    target_lang: str | None = None


def read_options(checkpoint: Mapping[Any, Any], path: Path) -> Options:
    """Return the options of a checkpoint; raises `CheckpointError` naming the one that can't be used.

    Versions from 0.10 on keep them in sections of `cfg`, older ones together in `args`.
    """
    cfg = checkpoint.get("cfg")
    if isinstance(cfg, Mapping):
        tree = {**_flat(cfg.get("task")), **_flat(cfg.get("model"))}
    else:
        tree = _flat(checkpoint.get("args"))
    if not tree:
        raise CheckpointError(f"{path}: expected cfg or args, the options of the model, found neither")
    tree.setdefault("arch", tree.get("_name"))
    options = checked(Options, {key: value for key, value in tree.items() if value is not None}, path)
    for key in ("embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before"):
        encoder, decoder = getattr(options, f"encoder_{key}"), getattr(options, f"decoder_{key}")
        if encoder != decoder:
            raise CheckpointError(
                f"{path}: expected encoder_{key} and decoder_{key} to be equal, found {encoder} and {decoder}"
            )
    for key in ("decoder_output_dim", "decoder_input_dim"):
        width = getattr(options, key)
        if width not in (None, options.decoder_embed_dim):
            raise CheckpointError(
                f"{path}: expected {key} to be decoder_embed_dim, {options.decoder_embed_dim}, found {width}"
            )
    return options


def _flat(section: Any) -> dict[str, Any]:
    """Return the options of a section by name, those of its parts `encoder` and `decoder` with that prefix."""
    fields = vars(section) if isinstance(section, Namespace) else section
    if not isinstance(fields, Mapping):
        return {}
    found: dict[str, Any] = {}
    for key, value in fields.items():
        if key in ("encoder", "decoder") and isinstance(value, Mapping):
            found |= {f"{key}_{name}": inner for name, inner in value.items()}
        elif isinstance(key, str):
            found[key] = value
    return found
