"""The web application: the page's static files and the JSON API.

    GET  /api/runs                 the runs that are served
    GET  /api/run?run=NAME         one run: its task, model and capabilities
    POST /api/trace                translate a sentence; return the whole trace
    POST /api/force                the same by forced decoding of a given target
    POST /api/products             the computation of one head at one step
    POST /api/next                 a language model's next-token distribution
    POST /api/continue             a language model's continuation of a text
    POST /api/patches              a vision model's attention over the patches of an image
    GET  /api/metrics?run=NAME     the training curves
    GET  /api/evidence?run=NAME    statistics of the heads over many sentences

An error is answered with `{"error": "one sentence"}`.
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
_MOST_FIELD_NAME = 60  # characters of a field's name, which the client chooses
_MOST_MESSAGE = 400  # characters of an error message, which may quote a whole request


def create_app(
    runs: Mapping[str, Run], corpus: EvaluationPairs | None = None, hosts: Hosts | None = None
) -> FastAPI:
    """Build the application for `runs`, by name; the page opens the first one.

    The heads are measured on `corpus`, by default on each run's own development set. Requests are accepted for the
    host names in `hosts`, by default for loopback names only.
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
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HeadwiseError, _headwise_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(
        QueueFull, lambda request, error: failure(503, "the server is busy; try again in a moment")
    )
    app.add_exception_handler(ClientGone, lambda request, error: Response(status_code=499))
    app.add_exception_handler(
        Exception, lambda request, error: failure(500, "the server failed; its log says why")
    )
    app.add_middleware(KnownHosts, hosts=hosts or Hosts())
    app.add_middleware(RequestGuard)  # the outermost, so that refusals have its headers, too
    return app


def failure(status: int, sentence: str) -> JSONResponse:
    """Return an error response with a one-sentence message, escaped and shortened to one line."""
    headers = {"Retry-After": "1"} if status == 503 else None
    line = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in sentence[:_MOST_MESSAGE]
    )
    message = line + "…" * (len(sentence) > _MOST_MESSAGE)
    return JSONResponse({"error": message}, status_code=status, headers=headers)


def _headwise_error(request: Request, error: Exception) -> Response:
    return failure(409 if isinstance(error, NotReady) else 400, str(error))


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404 and not request.url.path.startswith("/api/"):
        return failure(404, f"there is nothing at {request.url.path}")
    return failure(error.status_code, error.detail)


def _validation_error(request: Request, error: Exception) -> Response:
    """Name the first invalid field, and how many more there are."""
    assert isinstance(error, RequestValidationError)
    first, *others = error.errors()
    path = [str(part)[:_MOST_FIELD_NAME] for part in first["loc"] if part not in ("body", "query")]
    message = f"{'.'.join(path) or 'request'}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    more = f" (and {len(others)} more)" if others else ""
    return failure(422, message + more)
