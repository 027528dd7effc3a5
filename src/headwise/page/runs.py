"""The runs that are served: their models, loaded once there are any, and their descriptions for the page."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from headwise.config import Config
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.page.views import VIEWS, TranslationView, View
from headwise.page.views.view import CAPABILITIES
from headwise.web.errors import NotReady
from headwise.web.reloading import unique_name

SomeView = TypeVar("SomeView", bound=View)


@dataclass
class PageRun:
    """A run directory that is served under a unique name.

    A run in training has no model.safetensors: only its training curves are served until the file exists. `threads`
    are those of the native engine, 0 for one per processor.
    """

    name: str
    path: Path
    config: Config
    device: str = "auto"
    threads: int = 0
    _view: View | None = None
    _load_lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ready(self) -> bool:
        """Whether the run has a model."""
        return self._view is not None or (self.path / "model.safetensors").is_file()

    def view(self) -> View:
        """Return the view, whose model is loaded at the first call. Raises `NotReady` if there is none yet."""
        with self._load_lock:
            if self._view is None:
                if not self.ready:
                    raise NotReady(
                        f"{self.name}: expected a model, found none yet: {self.path} is still in training"
                    )
                self._view = self._load(self.config)
            return self._view

    def view_as(self, kind: type[SomeView]) -> SomeView:
        """Return the view if it is of a kind; raises `NotReady` as `view`, and `ConfigError` for another task."""
        view = self.view()
        if not isinstance(view, kind):
            raise ConfigError(
                f"{self.name}: expected a run of the task {kind.expected}, found {self.config.task}"
            )
        return view

    def _load(self, config: Config) -> View:
        return VIEWS[config.task].load(self.path, config, self.device, self.threads)

    def load(self) -> None:
        """Load the model if there is one, so that its errors are raised now."""
        if self.ready:
            self.view()

    def reload(self) -> None:
        """Load the run's files anew; raises a `HeadwiseError`, and keeps the model, where they aren't a run's."""
        config = Config.of_run(self.path)
        if config.task != self.config.task:
            raise ConfigError(
                f"{self.path}: expected a run of the task {self.config.task}, found {config.task}"
            )
        view = self._load(config)
        with self._load_lock:
            self.config, self._view = config, view

    def translator(self) -> Translator:
        """Return the translator: the model and its subwords; raises as `view_as`."""
        return self.view_as(TranslationView).model.translator

    def share(self) -> None:
        """Load all weights that clients and the page need, which processes forked from this one then share."""
        if self.config.task == "translation" and self.ready:
            pytorch_model(self.translator())

    def describe(self) -> dict[str, Any]:
        """Return the run's description for the page; `can` holds its capabilities as booleans."""
        description: dict[str, Any] = {
            "name": self.name,
            "task": self.config.task,
            "architecture": self.config.model.architecture,
            "can": {**dict.fromkeys(CAPABILITIES, False), "metrics": True},
            "languages": dict(zip(("source", "target"), self.config.data.languages, strict=True)),
        }
        if not self.ready:
            return description
        view = self.view()
        return {**description, "can": {**description["can"], **view.can()}, **view.describe()}


def open_runs(paths: Sequence[Path], device: str = "auto", threads: int = 0) -> dict[str, PageRun]:
    """Open run directories under unique names (`name`, `name-2`, …) and load their models; `threads` as in `PageRun`.

    Raises a `HeadwiseError` for a directory that is not a run, for a damaged run, and for a task without a view.
    """
    runs: dict[str, PageRun] = {}
    for path in paths:
        config = Config.of_run(path)
        if config.task not in VIEWS:
            raise ConfigError(
                f"{path}: expected a run of the task {' or '.join(VIEWS)}, found {config.task}, which has no view"
            )
        name = unique_name(path.resolve().name, runs)
        runs[name] = PageRun(name, path, config, device, threads)
        runs[name].load()
    return runs
