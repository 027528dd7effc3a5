"""Run directories that are served, and what is loaded of each once it has a model."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Self, TypeVar

from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.text.reading import dictionary
from headwise.text.tokens import pair_vocabulary, source_words, subwords
from headwise.web.errors import NotReady
from headwise.weights import find_model

MODEL = "model.safetensors"
_FILES = (
    MODEL,
    "config.yaml",
    pair_vocabulary.FILE,
    source_words.FILE,
    dictionary.FILE,
    subwords.JOINT_FILE,
    subwords.SOURCE_FILE,
    subwords.TARGET_FILE,
)

# For each file its time, size and number, which differ after it was replaced; None for one that isn't there.
Stamps = dict[str, tuple[int, int, int] | None]
Loaded = TypeVar("Loaded")


@dataclass
class RunDirectory(ABC, Generic[Loaded]):
    """A run directory that is served under a unique name.

    Nothing is loaded until the run has a model or, while it is in training, a checkpoint. `threads` are those of the
    native engine, 0 for one per processor. `loaded_from` are the `stamps` of what is loaded, empty before that.
    """

    name: str
    path: Path
    config: Config
    device: str = "auto"
    threads: int = 0
    loaded_from: Stamps = field(default_factory=dict)
    _loaded: Loaded | None = None
    _load_lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open_all(cls, paths: Sequence[Path], device: str = "auto", threads: int = 0) -> dict[str, Self]:
        """Open run directories under unique names (`name`, `name-2`, …) and load their models.

        Raises a `HeadwiseError` for a directory that is not a run, for a damaged run, and as `expect`.
        """
        runs: dict[str, Self] = {}
        for path in paths:
            config = Config.of_run(path)
            cls.expect(path, config)
            name = _unique_name(path.resolve().name, runs)
            runs[name] = cls(name, path, config, device, threads)
            runs[name].load()
        return runs

    @staticmethod
    @abstractmethod
    def expect(path: Path, config: Config) -> None:
        """Raise a `HeadwiseError` for a run of a task that can't be served."""

    @abstractmethod
    def _load(self, config: Config) -> Loaded:
        """Load what is served."""

    @abstractmethod
    def translator(self) -> Translator:
        """Return the translator; raises `NotReady` as `loaded`, and `ConfigError` for a run of another task."""

    @abstractmethod
    def share(self) -> None:
        """Load all weights that clients and the page need, which processes forked from this one then share."""

    @property
    def ready(self) -> bool:
        """Whether the run has a model, if only that of a checkpoint."""
        return self._loaded is not None or find_model(self.path)[0] is not None

    @property
    def is_loaded(self) -> bool:
        """Whether its model is loaded: one that is ready may be damaged, which is found when it is loaded."""
        return self._loaded is not None

    def loaded(self) -> Loaded:
        """Return what is served, which is loaded at the first call. Raises `NotReady` if there is no model yet."""
        with self._load_lock:
            if self._loaded is None:
                if not self.ready:
                    raise NotReady(f"{self.name}: expected a model, found none yet: {self.path} is still in training")
                stamps = self.stamps()
                self._loaded, self.loaded_from = self._load(self.config), stamps
            return self._loaded

    def load(self) -> None:
        """Load the model if there is one, so that its errors are raised now."""
        if self.ready:
            self.loaded()

    def reload(self) -> None:
        """Load the run's files anew; raises a `HeadwiseError`, and keeps the model, where they aren't a run's."""
        config = Config.of_run(self.path)
        if config.task != self.config.task:
            raise ConfigError(f"{self.path}: expected a run of the task {self.config.task}, found {config.task}")
        loaded = self._load(config)
        with self._load_lock:
            self.config, self._loaded = config, loaded

    def stamps(self) -> Stamps:
        """Return the stamps of the run's files as they are now."""
        found: Stamps = {}
        files = {name: self.path / name for name in _FILES}
        with suppress(OSError):  # of a file system that doesn't answer, or a directory that this user can't search
            files[MODEL] = find_model(self.path)[0] or files[MODEL]
        for name, file in files.items():
            try:
                status = file.stat()
            except OSError:
                found[name] = None
            else:
                found[name] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return found


def _unique_name(name: str, taken: Collection[str]) -> str:
    """Return the name of a run, with a number appended if it is taken already (`name`, `name-2`, …)."""
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}-{number}"
    return unique
