"""The runs that are served: their models, loaded once there are any, their descriptions and their training curves."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, TypeVar

from headwise.config import Config
from headwise.decoding.translator_model import pytorch_model
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.metrics import read_metrics
from headwise.page.views import VIEWS, TranslationView, View
from headwise.page.views.view import CAPABILITIES
from headwise.web.run_directories import RunDirectory

SomeView = TypeVar("SomeView", bound=View)
_STILL_RUNNING = 120.0  # seconds since the last record, within which an unfinished training counts as running


class PageRun(RunDirectory[View]):
    """A run directory that is served; of a run in training, its training curves alone."""

    @staticmethod
    def expect(path: Path, config: Config) -> None:
        """Raise `ConfigError` for a task without a view."""
        if config.task not in VIEWS:
            raise ConfigError(
                f"{path}: expected a run of the task {' or '.join(VIEWS)}, found {config.task}, which has no view"
            )

    def view(self) -> View:
        """Return the view, whose model is loaded at the first call. Raises `NotReady` if there is none yet."""
        return self.loaded()

    def view_as(self, kind: type[SomeView]) -> SomeView:
        """Return the view if it is of a kind; raises `NotReady` as `view`, and `ConfigError` for another task."""
        view = self.view()
        if not isinstance(view, kind):
            raise ConfigError(f"{self.name}: expected a run of the task {kind.expected}, found {self.config.task}")
        return view

    def _load(self, config: Config) -> View:
        return VIEWS[config.task].load(self.path, config, self.device, self.threads)

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

    def curves(self) -> dict[str, Any]:
        """Return the training curves: the records, the steps that are planned, and whether it still runs.

        Numbers that aren't finite become None, because JSON has no such numbers.
        """
        file = self.path / "metrics.jsonl"
        records = [{key: _finite(value) for key, value in record.items()} for record in read_metrics(file)]
        ended = any(record.get("kind") == "averaged" for record in records)
        recent = file.exists() and time.time() - file.stat().st_mtime < _STILL_RUNNING
        return {
            "records": records,
            "max_steps": self.config.training.max_steps,
            "going_on": recent and not ended,
        }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
