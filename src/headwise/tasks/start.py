"""Initialization from another run's weights and vocabulary (`training.initialize_from`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.config import Config
from headwise.errors import CheckpointError, ConfigError
from headwise.files import file_sha256
from headwise.shipped.runs import find_run
from headwise.text.tokens.loading import trained_vocabulary
from headwise.text.tokens.subwords import Subwords
from headwise.text.tokens.vocabulary import Pieces, Vocabulary
from headwise.weights import model_file, read_recipe

# Keys of `model` that may differ, because they change neither the parameters' shapes nor their meaning.
_MAY_DIFFER = ("dropout", "attention_dropout", "activation_dropout", "max_length")
_ENCODERS = ("masked_language_model", "classification", "tagging", "question_answering")


@dataclass(frozen=True)
class Start:
    """A trained run that another one is initialized from; of an unfinished one, its best checkpoint."""

    run: Path
    config: Config
    model: Path  # its file
    checksum: str  # of the file, 12 hexadecimal digits

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of a run on single texts; raises `CheckpointError` if it isn't that of its model."""
        return trained_vocabulary(self.run)

    def subwords(self, config: Config) -> Subwords:
        """Return the run's subwords for a translation; raises `ConfigError` if they can't be used for `config`."""
        if self.config.task == "translation":
            subwords = Subwords.load(self.run, self.config.subwords, read_recipe(self.model).get("subwords"))
        else:
            vocabulary = self.vocabulary
            if not isinstance(vocabulary, Pieces):
                raise ConfigError(f"training.initialize_from: expected {self.run} to have subwords, found characters")
            subwords = Subwords(vocabulary.content()[1], origin=str(self.run))
        check_subwords(config, subwords, str(self.run))
        return subwords


def check_subwords(config: Config, subwords: Subwords, place: str) -> None:
    """Raise `ConfigError` for an option that the subwords of a place, which are used, have with another value."""
    for key, theirs in subwords.options.items():
        if (own := getattr(config.subwords, key)) != theirs:
            raise ConfigError(f"subwords.{key}: expected {_written(theirs)}, as in {place}, found {_written(own)}")


def begun_from(run: str | Path, tasks: Sequence[str] = ("translation",)) -> Config:
    """Return the configuration of a run to begin from; raises `CheckpointError` if there is none of these tasks."""
    try:
        return Config.of_run(find_run(run), *tasks)
    except CheckpointError as error:
        raise CheckpointError(f"training.initialize_from: {error}") from None


def check_same_model(config: Config, theirs: Config, name: str) -> None:
    """Raise `ConfigError` if parameters have another shape or meaning in a run, called `name`, naming each key."""
    own, other = config.model.model_dump(mode="json"), theirs.model.model_dump(mode="json")
    may_differ = _MAY_DIFFER if config.model.positions != "learned" else _MAY_DIFFER[:-1]
    different = [
        f"model.{key}={other[key]} there, found {own[key]} here"
        for key in own
        if own[key] != other[key] and key not in may_differ
    ]
    if different:
        raise ConfigError(f"{name} has {'; '.join(different)}")


def find_start(config: Config, tasks: Sequence[str] = _ENCODERS) -> Start | None:
    """Open the run that `training.initialize_from` names; None if it isn't set.

    Raises `ConfigError` if its model has another configuration, naming each key that differs, and `CheckpointError` if
    there is no such trained run, or its task isn't one of `tasks`.
    """
    if config.training.initialize_from is None:
        return None
    run = find_run(config.training.initialize_from)
    theirs = begun_from(run, tasks)
    check_same_model(config, theirs, f"training.initialize_from: {run}")
    file = model_file(run)
    return Start(run, theirs, file, file_sha256(file)[:12])


def _written(value: bool | str) -> str:
    return value if isinstance(value, str) else str(value).lower()
