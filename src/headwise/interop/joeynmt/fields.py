"""The keys of JoeyNMT's config.yaml that matter; a literal is the only value that Headwise can express."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from headwise import bounds
from headwise.config.base import Heads, Layers, Natural, Probability, Width
from headwise.errors import CheckpointError
from headwise.interop.reading import checked
from headwise.parsing.yaml_text import read_yaml

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu"}


class _Fields(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class Embeddings(_Fields):
    """`model.encoder.embeddings` and `model.decoder.embeddings`."""

    embedding_dim: Width
    scale: bool = False


class Stack(_Fields):
    """`model.encoder` and `model.decoder`."""

    type: Literal["transformer"]
    embeddings: Embeddings
    hidden_size: Width
    ff_size: Width
    num_layers: Layers
    num_heads: Heads
    layer_norm: Literal["pre", "post"]
    activation: Literal["relu", "gelu", "swish"] = "relu"
    alpha: Annotated[float, Field(ge=1.0, le=1.0)] = 1.0
    dropout: Probability = 0.1


class Model(_Fields):
    """`model`."""

    encoder: Stack
    decoder: Stack
    tied_embeddings: bool = False
    tied_softmax: bool = False


class TokenizerFiles(_Fields):
    """`data.src.tokenizer_cfg` and `data.trg.tokenizer_cfg`."""

    model_file: str = ""
    codes: str = ""
    pretokenizer: Literal["none"] = "none"
    separator: Literal["@@"] = "@@"


class Side(_Fields):
    """`data.src` and `data.trg`."""

    lang: str | None = None
    level: Literal["word", "bpe", "char"]
    tokenizer_type: Literal["sentencepiece", "subword-nmt"] = "sentencepiece"
    lowercase: bool = False
    normalize: Literal[False] = False
    tokenizer_cfg: TokenizerFiles = TokenizerFiles()


class Symbols(_Fields):
    """`data.special_symbols`."""

    unk_id: Natural = 0
    pad_id: Natural = 1
    bos_id: Natural = 2
    eos_id: Natural = 3
    sep_token: None = None
    lang_tags: Annotated[list[str], Field(max_length=0)] = []


class Data(_Fields):
    """`data`."""

    src: Side
    trg: Side
    special_symbols: Symbols = Symbols()


class Testing(_Fields):
    """`testing`."""

    beam_size: Annotated[int, Field(gt=0, le=bounds.BEAM)] = 1
    beam_alpha: Annotated[float, Field(le=bounds.ALPHA)] = -1.0
    max_output_length: Annotated[int, Field(le=bounds.LENGTH)] = -1


class Settings(_Fields):
    """All of config.yaml."""

    model: Model
    data: Data
    testing: Testing = Testing()


def read_settings(path: Path) -> Settings:
    """Read config.yaml; raises `CheckpointError` naming a key that can't be used."""
    settings = checked(Settings, read_yaml(path, error=CheckpointError), path)
    encoder, decoder = settings.model.encoder, settings.model.decoder
    pairs = [(f"model.*.{key}", getattr(encoder, key), getattr(decoder, key)) for key in _EQUAL]
    pairs += [
        ("model.*.embeddings.scale", encoder.embeddings.scale, decoder.embeddings.scale),
        ("data.*.lowercase", settings.data.src.lowercase, settings.data.trg.lowercase),
        ("data.*.level", settings.data.src.level, settings.data.trg.level),
    ]
    pairs += [
        (
            f"model.{name}.embeddings.embedding_dim and hidden_size",
            stack.embeddings.embedding_dim,
            stack.hidden_size,
        )
        for name, stack in (("encoder", encoder), ("decoder", decoder))
    ]
    if settings.data.src.level == "bpe":
        pairs.append(
            ("data.*.tokenizer_type", settings.data.src.tokenizer_type, settings.data.trg.tokenizer_type)
        )
    for key, first, second in pairs:
        if first != second:
            raise CheckpointError(f"{path}: {key}: expected both to be equal, found {first} and {second}")
    return settings


_EQUAL = ("hidden_size", "ff_size", "num_heads", "layer_norm", "activation")
