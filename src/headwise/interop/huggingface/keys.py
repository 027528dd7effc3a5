"""The keys of config.json and generation_config.json that matter for a model, in and out.

A kind of model has a table of its keys beside those of `ModelConfig`, and the keys of `ModelConfig` that have one value
in all models of the kind; an importer and an exporter read both.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from headwise import bounds
from headwise.config import Config, DecodingConfig, ModelConfig
from headwise.config.base import Length, Natural
from headwise.config.support import Support
from headwise.errors import CheckpointError
from headwise.interop.base import make_config
from headwise.parsing import checked, read_object

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
TABLES = ("learned", "sinusoidal")  # positions that are a table
MOST_BYTES = 64 << 20  # of a JSON file
ONE_LABEL = "single_label_classification"  # problem_type

# Search options that a run doesn't keep, and Headwise's of a search, if there is one.
_NOT_KEPT = {
    "no_repeat_ngram_size": "no_repeat_ngram",
    "min_length": "min_length",
    "encoder_no_repeat_ngram_size": None,
    "repetition_penalty": None,
    "do_sample": "sample",
}
_MOST_LABELS = 100_000
_DEFAULT_LABELS = {"0": "LABEL_0", "1": "LABEL_1"}  # of `transformers`, which doesn't write it

VocabularySize = Annotated[int, Field(gt=4, le=bounds.VOCABULARY)]


class Keys(BaseModel):
    """Base class of the keys of a kind of model; other keys don't affect the function."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


Kind = TypeVar("Kind", bound=Keys)


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
    bad_words_ids: list[list[Natural]] = Field(default_factory=list)
    suppress_tokens: list[Natural] = Field(default_factory=list)
    begin_suppress_tokens: list[Natural] = Field(default_factory=list)
    forced_bos_token_id: Natural | None = None
    no_repeat_ngram_size: int = 0
    min_length: int = 0
    encoder_no_repeat_ngram_size: int = 0
    repetition_penalty: float = 1.0
    do_sample: bool = False


def read_tree(file: Path) -> dict[str, Any]:
    """Read a JSON file; raises `CheckpointError` if it is damaged."""
    return read_object(file, error=CheckpointError, finite=False, most=MOST_BYTES)


def read_keys(source: Path, kind: type[Kind], main: str = "config.json") -> Kind:
    """Read config.json, or another main file, and generation_config.json.

    Raises `CheckpointError` naming a key that can't be used.
    """
    tree: dict[str, Any] = {}
    for name in (main, "generation_config.json"):
        file = source / name
        tree |= read_tree(file) if name == main or file.is_file() else {}
    known = {key: value for key, value in tree.items() if value is not None}
    return checked(kind, known, source / main)


def unexpected(source: Path, key: str, expected: str, found: object, file: str = "config.json") -> CheckpointError:
    """Return the error for a value of config.json, or of another file, that Headwise can't express."""
    return CheckpointError(f"{source / file}: {key}: expected {expected}, found {str(found)[:60]!r}")


def check_architecture(source: Path, found: list[str], known: Collection[str]) -> str:
    """Return the first of the architectures in config.json; raises `CheckpointError` if it isn't one of the known."""
    name = found[0] if found else ""
    if name not in known:
        raise unexpected(source, "architectures", f"one of {', '.join(known)}", name)
    return name


def find_activation(source: Path, key: str, name: str) -> Any:
    """Return Headwise's name of an activation; raises `CheckpointError` for one that it doesn't have."""
    if name not in ACTIVATIONS:
        raise unexpected(source, key, f"one of {', '.join(ACTIVATIONS)}", name)
    return ACTIVATIONS[name]


def model_config(source: Path, fields: Keys, keys: Mapping[str, str], **values: Any) -> ModelConfig:
    """Return the model's configuration: the values of their keys, by a table of theirs and ours, and further ones.

    Raises `CheckpointError` for what Headwise can't express.
    """
    found = {ours: getattr(fields, theirs) for theirs, ours in keys.items() if ours not in values}
    for theirs, ours in keys.items():
        if ours == "activation" and ours in found:
            found[ours] = find_activation(source, theirs, found[ours])
    return make_config(source / "config.json", ModelConfig, **found, **values)


def their_keys(model: ModelConfig, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return their keys with the values of ours."""
    found = {theirs: getattr(model, ours) for theirs, ours in keys.items()}
    return {
        theirs: THEIR_ACTIVATIONS[value] if keys[theirs] == "activation" else value for theirs, value in found.items()
    }


def supported(
    keys: Mapping[str, str], *more: str, always: Mapping[str, Any] | None = None, **values: Collection[Any]
) -> Support:
    """Return what a kind of model can express.

    `keys` are theirs and ours, `always` those of ours with the one value that they have there, `values` with several,
    and `more` further keys of ours that can have any.
    """
    alone = {key: (value,) for key, value in (always or {}).items()}
    return Support(*keys.values(), *more, **alone, **values)


def as_json(content: Any) -> str:
    """Return the text of a JSON file."""
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


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
    for key, option in _NOT_KEPT.items():
        if (value := getattr(fields, key)) != SymbolKeys.model_fields[key].default:
            shown = json.dumps(value)
            own = f"-s {option}={shown} sets it for a search" if option else "Headwise has none"
            notes.append(f"{key} {shown} isn't used: {own}")
    return decoding


def search_keys(config: Config) -> dict[str, Any]:
    """Return the search options of generation_config.json."""
    return {
        "num_beams": config.decoding.beam,
        "length_penalty": config.decoding.alpha,
        "max_length": config.model.max_length,
        "min_new_tokens": 1,  # no empty translation
    }


def check_one_label(source: Path, problem_type: str) -> None:
    """Raise `CheckpointError` for a classifier that doesn't give each input one label."""
    if problem_type != ONE_LABEL:
        raise unexpected(source, "problem_type", ONE_LABEL, problem_type)


def read_labels(source: Path, found: Mapping[str, str]) -> list[str]:
    """Return the labels in the order of their ids; raises `CheckpointError` if one is missing or there twice."""
    found = found or _DEFAULT_LABELS
    if len(found) > _MOST_LABELS or any(str(number) not in found for number in range(len(found))):
        raise unexpected(source, "id2label", f"a label for each id from 0 to {len(found) - 1}", list(found))
    labels = [found[str(number)] for number in range(len(found))]
    if len(set(labels)) < max(len(labels), 2) or not all(labels):
        raise unexpected(source, "id2label", "two or more different labels", labels)
    return labels


def label_keys(labels: list[str]) -> dict[str, Any]:
    """Return id2label and label2id."""
    if not labels:
        return {}
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
