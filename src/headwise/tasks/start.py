"""Initialization from another run's weights and vocabulary (`training.initialize_from`)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.config import Config
from headwise.errors import CheckpointError, ConfigError
from headwise.files import read_errors
from headwise.text.tokens.vocabulary import Vocabulary, load_vocabulary

# Keys of `model` that may differ, because they change neither the parameters' shapes nor their meaning.
_MAY_DIFFER = ("dropout", "attention_dropout", "activation_dropout", "max_length")
_ENCODERS = ("masked_language_model", "classification", "tagging", "question_answering")


@dataclass(frozen=True)
class Start:
    """A trained run that another one is initialized from."""

    run: Path
    vocabulary: Vocabulary
    checksum: str  # checksum of the model file, 12 hexadecimal digits

    @property
    def model(self) -> Path:
        """The model file."""
        return self.run / "model.safetensors"


def find_start(config: Config, tasks: Sequence[str] = _ENCODERS) -> Start | None:
    """Open the run that `training.initialize_from` names; None if it isn't set.

    Raises `ConfigError` if its model has another configuration, naming each key that differs, and `CheckpointError` if
    there is no such trained run, or its task isn't one of `tasks`.
    """
    if config.training.initialize_from is None:
        return None
    run = Path(config.training.initialize_from)
    try:
        theirs = Config.of_run(run, *tasks)
    except CheckpointError as error:
        raise CheckpointError(f"training.initialize_from: {error}") from None
    own, other = config.model.model_dump(mode="json"), theirs.model.model_dump(mode="json")
    may_differ = _MAY_DIFFER if config.model.positions != "learned" else _MAY_DIFFER[:-1]
    different = [
        f"model.{key}={other[key]} there, found {own[key]} here"
        for key in own
        if own[key] != other[key] and key not in may_differ
    ]
    if different:
        raise ConfigError(f"training.initialize_from: {run} has {'; '.join(different)}")
    file = run / "model.safetensors"
    if not file.exists():
        raise CheckpointError(f"{file}: there is no such file; was the run to begin from trained to its end?")
    with read_errors(file), open(file, "rb") as content:
        checksum = hashlib.file_digest(content, "sha256").hexdigest()[:12]
    return Start(run, load_vocabulary(run), checksum)
