"""The keys of config.json and generation_config.json that matter for a model, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headwise import bounds
from headwise.config import DecodingConfig
from headwise.config.base import Heads, Layers, Length, Natural, Probability, Section, Width
from headwise.errors import CheckpointError
from headwise.interop.huggingface.names import ACTIVATIONS
from headwise.parsing import parse_object, read_bounded

MOST_BYTES = 64 << 20  # of a JSON file

VocabularySize = Annotated[int, Field(gt=4, le=bounds.VOCABULARY)]


class Keys(BaseModel):
    """Base class of the keys of a kind of model; other keys don't affect the function."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


Kind = TypeVar("Kind", bound=Keys)
Made = TypeVar("Made", bound=Section)


class SymbolKeys(Keys):
    """Symbols and search options of an encoder-decoder.

    The options are here in older models, and in generation_config.json in newer ones.
    """

    pad_token_id: Natural
    eos_token_id: Natural
    decoder_start_token_id: Natural | None = None
    num_beams: Annotated[int, Field(gt=0, le=bounds.BEAM)] | None = None
    length_penalty: float | None = None
    max_length: Length | None = None
    bad_words_ids: list[list[Natural]] | None = None
    forced_bos_token_id: Natural | None = None


class Fields(SymbolKeys):
    """What config.json must have for a model of the BART family."""

    model_type: Literal["marian", "pegasus"]
    vocab_size: VocabularySize
    decoder_vocab_size: VocabularySize | None = None
    d_model: Width
    encoder_layers: Layers
    decoder_layers: Layers
    encoder_attention_heads: Heads
    decoder_attention_heads: Heads
    encoder_ffn_dim: Width
    decoder_ffn_dim: Width
    max_position_embeddings: Length = 512
    activation_function: str = "gelu"
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.0
    activation_dropout: Probability = 0.0


def read_fields(source: Path) -> Fields:
    """Read the keys of a model of the BART family; raises `CheckpointError` naming a key that can't be used."""
    return read_keys(source, Fields)


def read_keys(source: Path, kind: type[Kind], main: str = "config.json") -> Kind:
    """Read config.json, or another main file, and generation_config.json.

    Raises `CheckpointError` naming a key that can't be used.
    """
    tree: dict[str, Any] = {}
    for name in (main, "generation_config.json"):
        file = source / name
        if name == main or file.is_file():
            content = read_bounded(file, MOST_BYTES, CheckpointError, "a JSON object")
            tree |= parse_object(content, file, error=CheckpointError, finite=False)
    try:
        return kind.model_validate({key: value for key, value in tree.items() if value is not None})
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        raise CheckpointError(
            f"{source / main}: {key}: {problem['msg'].lower()}, found {str(problem['input'])[:60]!r}"
        ) from None


def unexpected(
    source: Path, key: str, expected: str, found: object, file: str = "config.json"
) -> CheckpointError:
    """Return the error for a value of config.json, or of another file, that Headwise can't express."""
    return CheckpointError(f"{source / file}: {key}: expected {expected}, found {str(found)[:60]!r}")


def find_activation(source: Path, key: str, name: str) -> Any:
    """Return Headwise's name of an activation; raises `CheckpointError` for one that it doesn't have."""
    if name not in ACTIVATIONS:
        raise unexpected(source, key, f"one of {', '.join(ACTIVATIONS)}", name)
    return ACTIVATIONS[name]


def make_config(source: Path, kind: type[Made], **values: Any) -> Made:
    """Return a section of the configuration; raises `CheckpointError` for values that don't fit together."""
    try:
        return kind(**values)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        raise CheckpointError(
            f"{source / 'config.json'}: {key and f'{key}: '}{problem['msg'].removeprefix('Value error, ')}"
        ) from None


def search_options(fields: SymbolKeys, longest: int, notes: list[str]) -> DecodingConfig:
    """Return the search options of the model's own generation, of at most `longest` tokens unless it says so."""
    decoding = DecodingConfig(beam=fields.num_beams or 4)
    decoding.extra_length = fields.max_length or longest
    penalty = 1.0 if fields.length_penalty is None else fields.length_penalty
    decoding.alpha = min(max(penalty, 0.0), bounds.ALPHA)
    notes.append(
        f"decoding.alpha={decoding.alpha:g} for length_penalty {penalty:g}: "
        "Headwise divides by ((5 + |Y|) / 6)^alpha, transformers by |Y|^length_penalty"
    )
    return decoding
