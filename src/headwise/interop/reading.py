"""What importers share: checked fields of a file, and the imported model from its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from headwise import bounds
from headwise.config import Config, DecodingConfig, ModelConfig, SubwordConfig
from headwise.engine.native.shapes import parameter_shapes
from headwise.errors import CheckpointError
from headwise.interop.base import Array, Imported
from headwise.text.tokens.subwords import Subwords

Kind = TypeVar("Kind", bound=BaseModel)


def checked(kind: type[Kind], tree: Any, place: object) -> Kind:
    """Return the fields of a tree; raises `CheckpointError` naming the place and the key that can't be used."""
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"])) or "content"
        message = problem["msg"].lower().replace("input should be", "expected", 1)
        raise CheckpointError(f"{place}: {key}: {message}, found {str(problem['input'])[:60]!r}") from None


def assembled(
    model: ModelConfig,
    decoding: DecodingConfig,
    text: Subwords,
    tensors: dict[str, Callable[[], Array]],
    notes: list[str],
) -> Imported:
    """Return the imported model of these parts."""
    subwords = SubwordConfig(
        kind="bpe" if text.vocabulary is None else "imported",
        size=max(text.source_size, bounds.LEAST_VOCABULARY),
        joint=text.joint,
        lowercase=text.lowercases,
        joiners=text.joiners,
    )
    return Imported(
        Config(model=model, subwords=subwords, decoding=decoding),
        lambda: parameter_shapes(model, text.source_size, text.target_size),
        tensors,
        text,
        notes,
    )
