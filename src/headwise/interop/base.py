"""Between a format's module and `headwise.interop.runs`, which does what is the same for all formats.

An importer returns somebody's model as an `Imported`: configuration, parameters and subwords in Headwise's terms. An
`Exporter` writes a `Trained` run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from headwise import bounds
from headwise.config import Config, DecodingConfig, ModelConfig, SubwordConfig
from headwise.config.base import Section
from headwise.config.languages import is_code
from headwise.engine.native.positions import sinusoids
from headwise.engine.native.shapes import parameter_shapes
from headwise.errors import CheckpointError, ConfigError
from headwise.images.prepared import ImageFormat
from headwise.text.tokens.subwords import Subwords
from headwise.text.tokens.vocabulary import Vocabulary
from headwise.weights import Weights

Array: TypeAlias = NDArray[np.float32]
# Tensors by name: each is read, converted to float32 and released again when it is called.
Tensors: TypeAlias = Mapping[str, Callable[[], Array]]

Made = TypeVar("Made", bound=Section)


def make_config(place: object, kind: type[Made], **values: Any) -> Made:
    """Return a section of the configuration, or all of it, of values found at a place.

    Raises `CheckpointError` naming the place for a value that can't be used, and for those that don't fit together.
    """
    try:
        return kind(**values)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        raise CheckpointError(f"{place}: {key and f'{key}: '}{message}") from None


@dataclass(frozen=True)
class Imported:
    """A model that was read, in Headwise's terms.

    Attributes:
        config: the configuration of the new run.
        shapes: returns the shapes of the parameters of this configuration, by name; the tensors must fit them.
        tensors: the parameters by the names that they have in that model.
        text: the tokenizer; None for a model without text.
        notes: sentences on what was found, and on what differs from the original.
        files: further files of the run directory, such as labels.
        quantized: names of the matrices that were stored in int8 with a scale for each row, and stay so.
    """

    config: Config
    shapes: Callable[[], Mapping[str, tuple[int, ...]]]
    tensors: Tensors
    text: Subwords | Vocabulary | None
    notes: list[str] = field(default_factory=list)
    files: Mapping[str, bytes] = field(default_factory=dict)
    quantized: frozenset[str] = frozenset()

    def in_languages(self, source: str | None, target: str | None) -> Imported:
        """Return it with the languages that the original names, in the configuration; other words aren't codes."""
        names = {"source_language": source, "target_language": target}
        codes = {key: code for key, code in names.items() if code is not None and is_code(code)}
        data = self.config.data.model_copy(update=codes)
        return replace(self, config=self.config.model_copy(update={"data": data}))


def assembled(
    model: ModelConfig, decoding: DecodingConfig, text: Subwords, tensors: Tensors, notes: list[str]
) -> Imported:
    """Return the imported model of these parts."""
    subwords = SubwordConfig(size=max(text.source_size, bounds.LEAST_VOCABULARY), **text.options)
    return Imported(
        Config(model=model, subwords=subwords, decoding=decoding),
        lambda: parameter_shapes(model, text.source_size, text.target_size),
        tensors,
        text,
        notes,
    )


@dataclass(frozen=True)
class TrainedRun:
    """A trained run, to be exported."""

    run: Path
    config: Config
    weights: Weights

    def tensor(self, name: str) -> Array:
        """Return a parameter in float32; raises `CheckpointError` if it isn't finite."""
        tensor = self.weights.get(name)
        assert tensor is not None, name
        return tensor

    def parameter(self, name: str) -> Array | None:
        """Return a parameter as `tensor`, sinusoids for a table of positions; None if the model lacks it."""
        model, tensor = self.config.model, self.weights.get(name)
        if tensor is None and model.positions == "sinusoidal" and name.endswith("positions.table"):
            return sinusoids(model.max_length, model.d_model)
        return tensor


@dataclass(frozen=True)
class Trained(TrainedRun):
    """A trained translation run; `languages` are the codes of source and target, None if unknown."""

    subwords: Subwords
    languages: tuple[str | None, str | None] = (None, None)

    def sentencepiece(self) -> tuple[bytes, bytes]:
        """Return the SentencePiece models of source and target; raises `ConfigError` if texts are split otherwise."""
        vocabulary = self.subwords.vocabulary
        if vocabulary is not None and vocabulary.split != "sentencepiece":
            raise ConfigError(
                f"{self.run}: expected a tokenizer with SentencePiece for this format, found {vocabulary.split}"
            )
        return self.subwords.models

    def check_untagged(self) -> None:
        """Raise `ConfigError` if translations begin with a language code, which a format can't express."""
        if given := self.subwords.given:
            raise ConfigError(
                f"{self.run}: expected translations without a language code for this format, "
                f"found {self.subwords.target_pieces(given[:1])[0]} at their beginning"
            )

    def check_joiners(self) -> None:
        """Raise `ConfigError` if the text of subwords is more than that of each, which a format can't express."""
        if self.subwords.joiners:
            raise ConfigError(
                f"{self.run}: expected subwords without joiners for this format, found subwords.joiners=true"
            )


@dataclass(frozen=True)
class TrainedSingle(TrainedRun):
    """A trained run of a task on single texts or images; it has a vocabulary or the format of its images."""

    vocabulary: Vocabulary | None
    labels: list[str]
    form: ImageFormat | None


class Exporter(ABC):
    """Writer of one format.

    `library` loads the result; `tasks` are those whose runs it can express, and `precisions` those in which it writes
    matrices, the default first. With a `suffix`, the directory that it writes is packed as a zip file whose name ends
    so. With `names_languages`, a translator's files have the codes of its languages.
    """

    library: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]] = ("translation",)
    precisions: ClassVar[tuple[str, ...]] = ("float32",)
    suffix: ClassVar[str | None] = None
    names_languages: ClassVar[bool] = False

    @abstractmethod
    def refuses(self, config: Config) -> str | None:
        """Return why the format can't express a model, naming the keys; None where it can."""

    @abstractmethod
    def write(self, trained: Any, folder: Path, precision: str) -> list[str]:
        """Write a run into an empty directory, in one of `precisions`; return notes for the user.

        `trained` is a `Trained`, or a `TrainedSingle` for another task than translation. Raises `ConfigError` for
        weights that the format can't express.
        """
