"""Runs that translate where PyTorch isn't installed, and what stands in the place of the page: how to get it."""

from __future__ import annotations

import html
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute

from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.extras import not_installed
from headwise.web.endpoints import Endpoints
from headwise.web.errors import NotReady
from headwise.web.reloading import unique_name

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Headwise</title>
<body><h1>Headwise</h1>
<p>This server translates: <a href="/docs">its interfaces</a>. {sentence}</p>
"""


@dataclass
class TranslationRun:
    """A run directory that translates under a unique name, once it has a model; `threads` are the native engine's."""

    name: str
    path: Path
    config: Config
    device: str = "auto"
    threads: int = 0
    _translator: Translator | None = None
    _load_lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ready(self) -> bool:
        """Whether the run has a model."""
        return self._translator is not None or (self.path / "model.safetensors").is_file()

    def translator(self) -> Translator:
        """Return the translator, which is loaded at the first call. Raises `NotReady` if there is no model yet."""
        with self._load_lock:
            if self._translator is None:
                if not self.ready:
                    raise NotReady(
                        f"{self.name}: expected a model, found none yet: {self.path} is still in training"
                    )
                self._translator = self._load()
            return self._translator

    def _load(self) -> Translator:
        return Translator.load(self.path, device=self.device, workers=self.threads)

    def share(self) -> None:
        """Load the model, which processes forked from this one then share."""
        if self.ready:
            self.translator()

    def reload(self) -> None:
        """Load the run's files anew; raises a `HeadwiseError`, and keeps the model, where they aren't a run's."""
        config, translator = Config.of_run(self.path, "translation"), self._load()
        with self._load_lock:
            self.config, self._translator = config, translator


def open_runs(paths: Sequence[Path], device: str = "auto", threads: int = 0) -> dict[str, TranslationRun]:
    """Open run directories under unique names and load their models.

    Raises a `HeadwiseError` for a directory that is not a run, a damaged run, and another task than translation.
    """
    runs: dict[str, TranslationRun] = {}
    for path in paths:
        config = Config.of_run(path)
        if config.task != "translation":
            raise not_installed(f"{path}: a run of the task {config.task}", "torch")
        name = unique_name(path.resolve().name, runs)
        runs[name] = TranslationRun(name, path, config, device, threads)
        runs[name].share()
    return runs


class PageMissing:
    """What the server answers where the page would be."""

    def routes(self) -> list[BaseRoute]:
        """Return the address of the page."""
        endpoints = Endpoints()

        @endpoints("GET", "/")
        def page(request: Request) -> Response:
            sentence = html.escape(str(not_installed("The view of what a model computes", "torch")))
            return HTMLResponse(_PAGE.format(sentence=sentence))

        return [*endpoints.routes]

    def renew(self, name: str) -> None:
        """Do nothing: nothing is kept of a run."""

    async def close(self) -> None:
        """Do nothing: nothing is computed."""
