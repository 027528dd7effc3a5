"""Headwise as a translation server: the service with its protocols, beside the page."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute

from headwise.config import Config
from headwise.config.languages import parse_languages
from headwise.engine.translator import Translator
from headwise.errors import ConfigError
from headwise.serve.protocols import deepl, glossaries, libretranslate, own
from headwise.serve.protocols.access import Access
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
from headwise.web.app import ApplicationPart, Middleware, create_app
from headwise.web.endpoints import Endpoints
from headwise.web.hosts import Hosts
from headwise.web.reloading import WatchedRun

_SEVERAL = "mul"  # ISO 639-2's code for multiple languages
Languages = dict[str, tuple[str, str]]


class ServedRun(WatchedRun, Protocol):
    """A run whose model may translate for clients."""

    config: Config

    @property
    def ready(self) -> bool:
        """Whether the run has a model."""
        ...

    def translator(self) -> Translator:
        """Return the translator."""
        ...

    def share(self) -> None:
        """Make the translators for clients with all their weights, which processes forked from this one then share."""
        ...


@dataclass
class Production:
    """A translation service and what surrounds it.

    Attributes:
        service: the service.
        runs: the runs, by name.
        languages: languages of runs by name, and by "" those of the run that is meant; configurations come first.
        say: gets sentences about the models that are used or not.
        keys: the API keys; None lets everybody in.
        origins: foreign pages (`https://example.org`) that may use the protocols, but not the page's interface.
        log: what writes a line for each request; None writes none.
        glossaries: the kept glossaries; None keeps none.
        shared: what the workers of the server share; by default this process is the only one.
    """

    service: Service
    runs: Mapping[str, ServedRun]
    languages: Languages = field(default_factory=dict)
    say: Callable[[str], None] = lambda sentence: None
    keys: KeyStore | None = None
    origins: Sequence[str] = ()
    log: Log | None = None
    glossaries: GlossaryStore | None = None
    shared: Shared = field(default_factory=Shared)

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.service, self.shared.folder, self.shared.place)
        documents = Documents(self.service, DocumentStore(self.shared.database, self.shared.place))
        self.context = Context(self.service, Access(self.keys), documents, self.glossaries)

    @property
    def limits(self) -> ServiceLimits:
        """The service's limits."""
        return self.service.limits

    def app(self, page: ApplicationPart, hosts: Hosts | None = None, *, watch: bool = True) -> Starlette:
        """Return an application of the service and the page, for the host names; `watch` as for `create_app`."""
        cross_origin: Middleware = (
            CORSMiddleware,
            {
                "allow_origins": self.origins,
                "allow_methods": ["GET", "POST", "PUT", "PATCH", "DELETE"],  # the last three of glossaries
                "allow_headers": ["Authorization", "Content-Type", "X-API-Key"],
                "expose_headers": ["Retry-After", "X-Request-Id"],
            },
        )
        return create_app(
            self.runs,
            [self, page],
            hosts,
            origins=self.origins,
            most_bytes=self.limits.body_bytes,
            most_file_bytes=self.limits.document_bytes,
            inside=[cross_origin] if self.origins else [],
            outside=[(Observed, {"metrics": self.metrics, "log": self.log})],
            say=self.say,
            watch=watch,
        )

    def routes(self) -> list[BaseRoute]:
        """Return the endpoints of all protocols."""
        described = Endpoints()

        @described("GET", "/docs")
        def description(request: Request) -> Response:
            return HTMLResponse(documentation.page(request.app.state.openapi()))

        protocols = (libretranslate, deepl, glossaries, own)
        routes = [route for protocol in protocols for route in protocol.routes(self.context).routes]
        return [*routes, *operation_routes(self.service, self.metrics), *described.routes]

    def renew(self, name: str) -> None:
        """Use the model of a run that was loaded again."""
        model = find_model(self.runs[name], self.languages, self.say)
        if model is not None:
            self.service.models.renew(model)

    def publish(self) -> None:
        """Tell the other workers how busy this one is."""
        self.metrics.update()
        self.service.tell_wait()

    async def close(self) -> None:
        """Finish what was accepted."""
        await self.context.documents.close()
        await self.service.close()
        if self.keys is not None:
            self.keys.close()
        if self.glossaries is not None:
            self.glossaries.close()


def given_languages(options: Sequence[str], runs: Mapping[str, ServedRun]) -> Languages:
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


def served_languages(run: ServedRun, given: Languages, say: Callable[[str], None]) -> tuple[str, str] | None:
    """Return the languages of a run that clients can use, None for another run; `say` says why."""
    if run.config.task != "translation":
        return None
    source, target = given.get(run.name, run.config.data.languages)
    if run.ready and target in (None, _SEVERAL):
        target = target_of(run.translator()) or target
    if source is None or target is None:
        source, target = given.get("", (None, None))
    if source is None or target is None:
        say(
            f"{run.path}: the page shows it, but clients can't use it, because its configuration lacks "
            f"data.source_language and data.target_language; --languages {run.name}=en-de sets them"
        )
        return None
    if not run.ready:
        say(f"{run.path}: still in training; clients can use it as soon as it has a checkpoint")
        return None
    return source, target


def find_model(run: ServedRun, given: Languages, say: Callable[[str], None]) -> Model | None:
    """Return the model of a run that clients can use, None for another run; `say` says why."""
    languages = served_languages(run, given, say)
    return None if languages is None else Model(run.name, *languages, run.translator())


def open_production(
    runs: Mapping[str, ServedRun],
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
) -> Production:
    """Return the service for the runs; raises `ConfigError` as `given_languages`.

    `search` are the search options that differ from the runs', where a request has no others.
    """
    shared = shared or Shared()
    given = given_languages(languages, runs)
    models = [model for run in runs.values() if (model := find_model(run, given, say)) is not None]
    if models:
        threading.Thread(target=preload, name="language detection", daemon=True).start()
    service = Service(ServedModels(models), limits, search=search, load=shared.load)
    return Production(service, runs, given, say, keys, origins, log, glossaries, shared)
