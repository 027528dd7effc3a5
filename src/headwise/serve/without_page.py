"""Runs that translate where PyTorch isn't installed, and what stands in the place of the page: how to get it."""

from __future__ import annotations

import html
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute

from headwise.config import Config
from headwise.engine.translator import Translator
from headwise.extras import not_installed
from headwise.web.app import ApplicationPart
from headwise.web.endpoints import Endpoints
from headwise.web.run_directories import RunDirectory

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Headwise</title>
<body><h1>Headwise</h1>
<p>This server translates: <a href="/docs">its interfaces</a>. {sentence}</p>
"""


class TranslationRun(RunDirectory[Translator]):
    """A run directory that translates."""

    @staticmethod
    def expect(path: Path, config: Config) -> None:
        """Raise `ConfigError` for a run that doesn't translate: it needs PyTorch."""
        if config.task != "translation":
            raise not_installed(f"{path}: a run of the task {config.task}", "torch")

    def translator(self) -> Translator:
        """Return the translator, which is loaded at the first call. Raises `NotReady` if there is no model yet."""
        return self.loaded()

    def share(self) -> None:
        """Load the model, which processes forked from this one then share."""
        self.load()

    def _load(self, config: Config) -> Translator:
        return Translator.load(self.path, device=self.device, workers=self.threads)


class PageMissing(ApplicationPart):
    """What the server answers where the page would be."""

    def routes(self) -> list[BaseRoute]:
        """Return the address of the page."""
        endpoints = Endpoints()

        @endpoints("GET", "/")
        def page(request: Request) -> Response:
            sentence = html.escape(str(not_installed("The view of what a model computes", "torch")))
            return HTMLResponse(_PAGE.format(sentence=sentence))

        return [*endpoints.routes]
