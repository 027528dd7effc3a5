"""The options of a Marian model, which its .npz file holds, and those of its decoder, in a .yml file beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from headwise import bounds
from headwise.config.base import Heads, Layers, Length, Width
from headwise.errors import CheckpointError
from headwise.interop.marian.npz import Array
from headwise.interop.marian.table import OPTIONS
from headwise.parsing import MOST_YAML_BYTES, Malformed, checked, decode, read_yaml, yaml_value

_NORMALIZES_KEYS = (1, 11)  # version

ACTIVATIONS = {"relu": "relu", "swish": "silu"}


class _Options(BaseModel):
    model_config = ConfigDict(
        extra="ignore",
        allow_inf_nan=False,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
    )


class ModelOptions(_Options):
    """The model's options; a literal is the only value that Headwise can express. Others don't affect the function."""

    type: Literal["transformer"]
    version: str = ""
    dim_emb: Width
    dim_vocabs: Annotated[list[Annotated[int, Field(gt=1, le=bounds.VOCABULARY)]], Field(min_length=2, max_length=2)]
    enc_depth: Layers
    dec_depth: Layers
    transformer_heads: Heads
    transformer_dim_ffn: Width
    transformer_ffn_activation: Literal["relu", "swish"]
    transformer_preprocess: Literal["", "n"]
    transformer_postprocess: Literal["dan", "an", "da", "a"]
    transformer_postprocess_emb: Literal["d", ""] = "d"
    transformer_postprocess_top: Literal["", "n"] = ""
    tied_embeddings: bool = False
    tied_embeddings_src: bool = False
    tied_embeddings_all: bool = False
    max_length: Length = 50
    transformer_decoder_autoreg: Literal["self-attention"] = "self-attention"
    transformer_ffn_depth: Literal[2] = 2
    transformer_decoder_ffn_depth: Literal[0, 2] = 0
    transformer_decoder_dim_ffn: int = 0
    transformer_no_projection: Literal[False] = False
    transformer_no_bias: Literal[False] = False
    transformer_no_affine: Literal[False] = False
    transformer_pool: Literal[False] = False
    transformer_train_positions: Literal[False] = False
    transformer_train_position_embeddings: Literal[False] = False
    transformer_disable_position_embeddings: Literal[False] = False
    transformer_attention_mask: Literal["default"] = "default"
    transformer_tied_layers: Annotated[list[int], Field(max_length=0)] = []
    input_types: list[Literal["sequence"]] = []
    lemma_dim_emb: Literal[0] = 0
    factors_dim_emb: Literal[0] = 0
    right_left: Literal[False] = False
    ulr: Literal[False] = False

    @property
    def norm(self) -> Literal["pre", "post"]:
        """Where the layers normalize."""
        return "pre" if self.transformer_preprocess else "post"


class DecoderOptions(_Options):
    """The options of `decoder.yml` or `NAME.npz.decoder.yml`."""

    models: list[str] = []
    vocabs: list[str] = []
    beam_size: Annotated[int, Field(gt=0, le=bounds.BEAM)] | None = None
    normalize: Annotated[float, Field(ge=0.0, le=bounds.ALPHA)] = 0.0
    word_penalty: float = 0.0


def model_options(arrays: dict[str, Array], path: Path) -> ModelOptions:
    """Read the options of a model; raises `CheckpointError` naming the one that can't be used."""
    place = f"{path}: {OPTIONS}"
    stored = arrays.get(OPTIONS)
    if stored is None or stored.kind != "int8" or len(stored.shape) != 1 or stored.shape[0] > MOST_YAML_BYTES:
        raise CheckpointError(
            f"{place}: expected the model's options, at most {MOST_YAML_BYTES:,} characters, found none"
        )
    content = stored.read().tobytes().split(b"\0")[0]
    try:
        tree = yaml_value(decode(content))
    except Malformed as problem:
        raise CheckpointError(problem.sentence(place, "YAML")) from None
    options = checked(ModelOptions, tree, place)
    _check_norm(options, place)
    if options.transformer_decoder_dim_ffn not in (0, options.transformer_dim_ffn):
        raise CheckpointError(
            f"{place}: expected transformer-decoder-dim-ffn and transformer-dim-ffn to be equal, "
            f"found {options.transformer_decoder_dim_ffn} and {options.transformer_dim_ffn}"
        )
    return options


def _check_norm(options: ModelOptions, place: str) -> None:
    """Raise `CheckpointError` unless the layers normalize as Headwise's do."""
    expected = ("da", "a") if options.norm == "pre" else ("dan", "an")
    top = "n" if options.norm == "pre" else ""
    if options.transformer_postprocess not in expected or options.transformer_postprocess_top != top:
        raise CheckpointError(
            f"{place}: expected transformer-postprocess {expected[0]!r} and transformer-postprocess-top {top!r} with "
            f"transformer-preprocess {options.transformer_preprocess!r}, found "
            f"{options.transformer_postprocess!r} and {options.transformer_postprocess_top!r}"
        )
    version = re.match(r"v(\d+)\.(\d+)", options.version)
    if options.norm == "pre" and (version is None or tuple(map(int, version.groups())) < _NORMALIZES_KEYS):
        raise CheckpointError(
            f"{place}: expected transformer-preprocess 'n' of Marian 1.11 or newer, because older ones don't normalize "
            f"the keys and values of self-attention, found version {options.version[:60]!r}"
        )


def decoder_options(path: Path) -> DecoderOptions:
    """Read the options of a decoder; raises `CheckpointError` naming the one that can't be used."""
    return checked(DecoderOptions, read_yaml(path, error=CheckpointError), path)
