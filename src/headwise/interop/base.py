"""What a format's module has: an importer, an exporter, or both.

An importer reads somebody's model and returns its configuration, parameters and subwords in Headwise's terms; an
exporter writes those of a run. `headwise.interop.runs` does the rest, which is the same for all formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from torch import Tensor, nn

from headwise.config import Config
from headwise.errors import ConfigError
from headwise.models.weights import Weights
from headwise.text.tokens.subwords import Subwords

# Tensors by name: each is read, converted to float32 and released again when it is called.
Tensors = Mapping[str, Callable[[], Tensor]]


class SavableText(Protocol):
    """A tokenizer that a run directory can hold, such as `Subwords`."""

    def save(self, directory: Path) -> None:
        """Write its files into a directory."""

    def digest(self) -> str:
        """Return hexadecimal digits that identify it."""
        ...


@dataclass(frozen=True)
class Imported:
    """A model that was read, in Headwise's terms.

    Attributes:
        config: the configuration of the new run.
        build: builds an untrained model of this configuration, whose parameters the tensors must fit.
        tensors: the parameters by the names that they have in that model.
        text: the tokenizer.
        notes: sentences on what was found, and on what differs from the original.
    """

    config: Config
    build: Callable[[], nn.Module]
    tensors: Tensors
    text: SavableText
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Trained:
    """A trained translation run, to be exported."""

    run: Path
    config: Config
    weights: Weights
    subwords: Subwords

    def tensor(self, name: str) -> Tensor:
        """Return a parameter in float32; raises `CheckpointError` if it isn't finite."""
        tensor = self.weights.get(name)
        assert tensor is not None, name
        return tensor

    def sentencepiece(self) -> tuple[bytes, bytes]:
        """Return the SentencePiece models of source and target; raises `ConfigError` if texts are split otherwise."""
        numbering = self.subwords.numbering
        if numbering is not None and numbering.split != "sentencepiece":
            raise ConfigError(
                f"{self.run}: expected a tokenizer with SentencePiece for this format, found {numbering.split}"
            )
        return self.subwords.models


class Importer(ABC):
    """Reader of one format."""

    @abstractmethod
    def recognizes(self, source: Path) -> bool:
        """Whether a file or directory looks like this format, judged by file names and short headers."""

    @abstractmethod
    def read(self, source: Path) -> Imported:
        """Read a model; its tensors are read when they are called.

        Raises `CheckpointError` for a damaged or hostile file, and for a model that Headwise can't express; the message
        names the file and the key or tensor.
        """


class Exporter(ABC):
    """Writer of one format; `library` loads the result."""

    library: ClassVar[str]

    @abstractmethod
    def refuses(self, config: Config) -> str | None:
        """Return why the format can't express a model, naming the keys; None where it can."""

    @abstractmethod
    def write(self, trained: Trained, folder: Path) -> list[str]:
        """Write into an empty directory; return notes for the user."""
