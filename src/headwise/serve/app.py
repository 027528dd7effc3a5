"""The web application: the page's files, and the interface that they and others ask.

    GET  /api/runs                 the runs that are served
    GET  /api/run?run=NAME         what one is and can do
    POST /api/trace                translate and show everything
    POST /api/force                the same for a given target
    POST /api/products             one head's arithmetic at one step
    POST /api/next                 a language model's next token
    POST /api/continue             a language model writes on
    POST /api/patches              what a model of images looked at in one
    GET  /api/metrics?run=NAME     the curves of its training
    GET  /api/evidence?run=NAME    what was measured of its heads over many sentences

A mistake is answered with `{"error": "one sentence"}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from headwise import __version__
from headwise.errors import HeadwiseError
from headwise.serve.evaluation_pairs import EvaluationPairs
from headwise.serve.evidence import Evidence
from headwise.serve.protection.hosts import Hosts, KnownHosts
from headwise.serve.protection.middleware import RequestGuard
from headwise.serve.request_queue import ClientGone, QueueFull, RequestQueue
from headwise.serve.routes import routes
from headwise.serve.runs import NotReady, Run

PAGE = Path(__file__).parent / "page"
_MOST_NAMED = 60  # characters of a field's name, which may be anybody's
_MOST_SAID = 400  # characters of a sentence; what it quotes may be as long as a request


def create_app(
    runs: Mapping[str, Run], corpus: EvaluationPairs | None = None, hosts: Hosts | None = None
) -> FastAPI:
    """Put the application together; `runs` by name, the first is shown first.

    Heads are measured on `corpus`, or on each run's own development data. It answers to the names that `hosts` knows,
    or to the loopback's alone.
    """
    queue = RequestQueue()
    evidence = {
        name: Evidence(corpus or EvaluationPairs.of(run), run.translator, lambda: queue.idle)
        for name, run in runs.items()
    }
    app = FastAPI(title="Headwise", version=__version__, docs_url=None, redoc_url=None)
    app.include_router(routes(runs, evidence, queue), prefix="/api")

    @app.api_route("/api/{path:path}", methods=["GET", "POST"], include_in_schema=False)
    def unknown(path: str) -> Response:
        return failure(404, f"expected a known address, found /api/{path}")

    app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HeadwiseError, _mistake)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(
        QueueFull, lambda request, error: failure(503, "the server is busy; try again in a moment")
    )
    app.add_exception_handler(ClientGone, lambda request, error: Response(status_code=499))
    app.add_exception_handler(
        Exception, lambda request, error: failure(500, "the server failed; its log says why")
    )
    app.add_middleware(KnownHosts, hosts=hosts or Hosts())
    app.add_middleware(RequestGuard)  # the outermost: refusals have its headers, too
    return app


def failure(status: int, sentence: str) -> JSONResponse:
    """Answer with one sentence about what went wrong; it stays one line whatever it quotes."""
    headers = {"Retry-After": "1"} if status == 503 else None
    line = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in sentence[:_MOST_SAID]
    )
    shown = line + "…" * (len(sentence) > _MOST_SAID)
    return JSONResponse({"error": shown}, status_code=status, headers=headers)


def _mistake(request: Request, error: Exception) -> Response:
    return failure(409 if isinstance(error, NotReady) else 400, str(error))


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404 and not request.url.path.startswith("/api/"):
        return failure(404, f"there is nothing at {request.url.path}")
    return failure(error.status_code, error.detail)


def _invalid(request: Request, error: Exception) -> Response:
    """Name the first field that can't be, and how many more there are."""
    assert isinstance(error, RequestValidationError)
    first, *others = error.errors()
    places = [str(place)[:_MOST_NAMED] for place in first["loc"] if place not in ("body", "query")]
    message = f"{'.'.join(places) or 'request'}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    more = f" (and {len(others)} more)" if others else ""
    return failure(422, message + more)
