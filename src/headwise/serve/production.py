"""Headwise as a translation server: the service with its protocols, beside the page."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute

from headwise.config.languages import parse_languages
from headwise.errors import ConfigError
from headwise.serve.protocols import deepl, glossaries, libretranslate, own
from headwise.serve.protocols.context import Context
from headwise.serve.protocols.keys import KeyStore
from headwise.serve.protocols.observation import Log, Metrics, Observed
from headwise.serve.protocols.observation import routes as operation_routes
from headwise.serve.shared import Shared
from headwise.serve.translation.document_store import DocumentStore
from headwise.serve.translation.documents import Documents
from headwise.serve.translation.glossaries import GlossaryStore
from headwise.serve.translation.limits import ServiceLimits
from headwise.serve.translation.models import Model, ServedModels, target_of
from headwise.serve.translation.service import Service
from headwise.text.reading.detection import preload
from headwise.web import documentation
from headwise.web.app import ApplicationPart, create_app
from headwise.web.endpoints import Endpoints
from headwise.web.hosts import Hosts
from headwise.web.run_directories import RunDirectory

_SEVERAL = "mul"  # ISO 639-2's code for multiple languages
Languages = dict[str, tuple[str, str]]


class Production:
    """A translation service and what surrounds it."""

    def __init__(
        self,
        runs: Mapping[str, RunDirectory],
        languages: Sequence[str] = (),
        limits: ServiceLimits | None = None,
        *,
        say: Callable[[str], None],
        keys: KeyStore | None = None,
        origins: Sequence[str] = (),
        log: Log | None = None,
        glossaries: GlossaryStore | None = None,
        search: Mapping[str, Any] | None = None,
        shared: Shared | None = None,
    ) -> None:
        """Translate with the runs, by name; raises `ConfigError` as `given_languages`.

        Args:
            runs: the runs.
            languages: options `--languages`.
            limits: of every request, and of all together.
            say: gets sentences about the models that are used or not.
            keys: the API keys; None lets everybody in.
            origins: foreign pages (`https://example.org`) that may use the protocols, but not the page's interface.
            log: what writes a line for each request; None writes none.
            glossaries: the kept glossaries; None keeps none.
            search: the search options that differ from the runs', where a request has no others.
            shared: what the workers of the server share; by default this process is the only one.
        """
        shared = shared or Shared()
        self._runs, self._say, self._origins, self._log = runs, say, origins, log
        self._keys, self._glossaries = keys, glossaries
        self._languages = given_languages(languages, runs)
        models = [model for run in runs.values() if (model := find_model(run, self._languages, say)) is not None]
        if models:
            threading.Thread(target=preload, name="language detection", daemon=True).start()
        self.service = Service(ServedModels(models), limits, search=search, load=shared.load)
        self.limits = self.service.limits
        self.documents = Documents(self.service, DocumentStore(shared.database, shared.place))
        self._metrics = Metrics(self.service, shared.folder, shared.place)

    def app(self, page: ApplicationPart, hosts: Hosts | None = None, *, watch: bool = True) -> Starlette:
        """Return an application of the service and the page, for the host names; `watch` as for `create_app`."""
        app = create_app(
            self._runs,
            [self, page],
            hosts,
            origins=self._origins,
            most_bytes=self.limits.body_bytes,
            most_file_bytes=self.limits.document_bytes,
            say=self._say,
            watch=watch,
        )
        app.add_middleware(Observed, metrics=self._metrics, log=self._log)
        return app

    def routes(self) -> list[BaseRoute]:
        """Return the endpoints of all protocols."""
        described = Endpoints()

        @described("GET", "/docs")
        def description(request: Request) -> Response:
            return HTMLResponse(documentation.page(request.app.state.openapi()))

        context = Context(self.service, self.documents, self._keys, self._glossaries)
        protocols = (libretranslate, deepl, glossaries, own)
        routes = [route for protocol in protocols for route in protocol.routes(context).routes]
        return [*routes, *operation_routes(self.service, self._metrics), *described.routes]

    def renew(self, name: str) -> None:
        """Use the model of a run that was loaded again."""
        model = find_model(self._runs[name], self._languages, self._say)
        if model is not None:
            self.service.models.renew(model)

    def publish(self) -> None:
        """Tell the other workers how busy this one is."""
        self._metrics.update()
        self.service.tell_wait()

    async def close(self) -> None:
        """Finish what was accepted."""
        await self.documents.close()
        await self.service.close()
        for store in (self._keys, self._glossaries):
            if store is not None:
                store.close()


def given_languages(options: Sequence[str], runs: Mapping[str, RunDirectory]) -> Languages:
    """Return what the options `--languages` give: `en-de` for the run that lacks them, or `NAME=en-de` for that run.

    Raises `ConfigError` for an option that can't be used, or that would have no effect, as no run lacks its languages.
    """
    given: Languages = {}
    for option in options:
        name, _, pair = option.rpartition("=")
        if name and name not in runs:
            raise ConfigError(f"--languages: expected the name of a run ({', '.join(runs)}), found {name!r}")
        if name in given:
            raise ConfigError(f"--languages: expected one for each run, found {option} as a second one")
        given[name] = parse_languages(pair)
    known = [run.config.data.languages for run in runs.values() if run.config.task == "translation"]
    if "" in given and given[""] not in known and all(None not in each for each in known):
        pair = next(option for option in options if "=" not in option)
        raise ConfigError(
            f"--languages: expected NAME={pair}, as no run ({', '.join(runs)}) lacks its languages, found {pair}"
        )
    return given


def served_languages(run: RunDirectory, given: Languages, say: Callable[[str], None]) -> tuple[str, str] | None:
    """Return the languages of a run that clients can use, None for another run; `say` says why."""
    if run.config.task != "translation":
        return None
    source, target = given.get(run.name, run.config.data.languages)
    if run.is_loaded and target in (None, _SEVERAL):
        target = target_of(run.translator()) or target
    if source is None or target is None:
        source, target = given.get("", (None, None))
    if source is None or target is None:
        say(
            f"{run.path}: the page shows it, but clients can't use it, because its configuration lacks "
            f"data.source_language and data.target_language; --languages {run.name}=en-de sets them"
        )
        return None
    if not run.is_loaded:
        say(f"{run.path}: still in training; clients can use it as soon as it has a checkpoint")
        return None
    return source, target


def find_model(run: RunDirectory, given: Languages, say: Callable[[str], None]) -> Model | None:
    """Return the model of a run that clients can use, None for another run; `say` says why."""
    languages = served_languages(run, given, say)
    return None if languages is None else Model(run.name, *languages, run.translator())
