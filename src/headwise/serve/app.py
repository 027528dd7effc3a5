"""The web application: the page, the chapters and the JSON API, and the translation service with its protocols.

    GET  /learn/                   the chapters (`headwise.learn.rendering`)
    GET  /api/runs                 the runs that are served
    GET  /api/run?run=NAME         one run: its task, model and capabilities
    POST /api/trace                translate a sentence; return the whole trace
    POST /api/force                the same by forced decoding of a given target
    POST /api/products             the computation of one head at one step
    POST /api/boxes                the boxes of the model: shapes, parameters and operations
    POST /api/box                  the computation of one box at one position
    POST /api/steps                a target decoded step by step, and with teacher forcing
    POST /api/recurrence           recurrent networks beside attention on a sentence
    POST /api/times                time of recurrent steps and of attention over length
    POST /api/next                 a language model's next-token distribution
    POST /api/continue             a language model's continuation of a text
    POST /api/patches              a vision model's attention over the patches of an image
    GET  /api/metrics?run=NAME     the training curves
    GET  /api/evidence?run=NAME    statistics of the heads over many sentences

An error is answered with `{"error": "one sentence"}`. The protocols' addresses are in `headwise.serve.protocols`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from headwise import __version__
from headwise.errors import HeadwiseError
from headwise.serve.chapters import add_chapters
from headwise.serve.evaluation_pairs import EvaluationPairs
from headwise.serve.evidence import Evidence
from headwise.serve.hangup import on_hangup
from headwise.serve.production import Production
from headwise.serve.protection.failures import failure
from headwise.serve.protection.hosts import Hosts, KnownHosts
from headwise.serve.protection.middleware import RequestGuard
from headwise.serve.protocols.answers import error_answers
from headwise.serve.protocols.dispatch import FixedAddresses
from headwise.serve.protocols.fields import describe
from headwise.serve.protocols.observation import Observed
from headwise.serve.reloading import Reloader
from headwise.serve.request_queue import ClientGone, QueueFull, RequestQueue
from headwise.serve.routes import routes
from headwise.serve.runs import NotReady, Run
from headwise.serve.translation.limits import ServiceError

_log = logging.getLogger(__name__)
PAGE = Path(__file__).parent / "page"


def create_app(
    runs: Mapping[str, Run],
    corpus: EvaluationPairs | None = None,
    hosts: Hosts | None = None,
    production: Production | None = None,
    *,
    watch: bool = True,
) -> FastAPI:
    """Build the application for `runs`, by name; the page opens the first one.

    The heads are measured on `corpus`, by default on each run's own development set. Requests are accepted for the
    host names in `hosts`, by default for loopback names only. With `production`, the application also translates for
    clients. Runs whose files change are loaded again, if the application is to `watch` them.
    """
    queue = RequestQueue()
    evidence: dict[str, Evidence] = {}

    def measure(run: Run) -> None:
        evidence[run.name] = Evidence(corpus or EvaluationPairs.of(run), run.translator, lambda: queue.idle)

    def renewed(run: Run) -> None:
        measure(run)
        if production is not None:
            production.renew(run)

    for run in runs.values():
        measure(run)
    reloader = Reloader(runs, production.say if production is not None else _log.info, renewed)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(reloader.watch()) if watch else None
        with on_hangup(reloader.look_now) if watch else nullcontext():
            yield
        if watching is not None:
            watching.cancel()
        if production is not None:
            await production.close()

    app = FastAPI(title="Headwise", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.include_router(
        routes(runs, evidence, queue),
        prefix="/api",
        tags=["page"],
        responses=error_answers("error", 404, 409, 422),
    )

    @app.api_route("/api/{path:path}", methods=["GET", "POST"], include_in_schema=False)
    def unknown(path: str) -> Response:
        return failure("/api/", 404, f"expected a known address, found /api/{path}")

    routers = [] if production is None else production.routers(app)
    for router in routers:
        app.include_router(router)
    add_chapters(app)
    app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.add_exception_handler(
        Exception,
        lambda request, error: failure(request.url.path, 500, "the server failed; its log says why"),
    )
    app.add_middleware(FixedAddresses, routers=routers, handlers=_HANDLERS)
    if production is not None and production.origins:
        app.add_middleware(production.cross_origin)
    app.add_middleware(KnownHosts, hosts=hosts or Hosts(), origins=production.origins if production else ())
    most = {"most": production.limits.body_bytes} if production else {}
    app.add_middleware(RequestGuard, **most)  # outside, so that refusals have its headers, too
    if production is not None:
        app.add_middleware(Observed, metrics=production.metrics, log=production.log)
    return app


def _headwise_error(request: Request, error: Exception) -> Response:
    return failure(request.url.path, 409 if isinstance(error, NotReady) else 400, str(error))


def _service_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return failure(request.url.path, error.status, error.sentence, error.retry_after)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 404 and not path.startswith("/api/"):
        return failure(path, 404, f"there is nothing at {path}")
    page = path.startswith(("/api/", "/v1/"))
    status = 400 if error.status_code == 422 and not page else error.status_code
    return failure(path, status, error.detail)


def _validation_error(request: Request, error: Exception) -> Response:
    """Name the first invalid field, and how many more there are."""
    assert isinstance(error, RequestValidationError)
    first, *others = error.errors()
    location = tuple(part for part in first["loc"] if part not in ("body", "query"))
    return failure(request.url.path, 422, describe(location, first["msg"], len(others)))


_HANDLERS: dict[type[Exception], Callable[[Request, Exception], Response]] = {
    RequestValidationError: _validation_error,
    HeadwiseError: _headwise_error,
    HTTPException: _http_error,
    ServiceError: _service_error,
    QueueFull: lambda request, error: failure(
        request.url.path, 503, "the server is busy; try again in a moment"
    ),
    ClientGone: lambda request, error: Response(status_code=499),  # while it was answered
    ClientDisconnect: lambda request, error: Response(status_code=499),  # before its body had arrived
}
