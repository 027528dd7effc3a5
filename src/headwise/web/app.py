"""The web application: parts, such as the page and the translation service, behind one protection.

An error is answered with `{"error": "one sentence"}`, or under the name that a protocol has for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import cache
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match

from headwise.errors import HeadwiseError
from headwise.web.endpoints import FILE, Endpoint, Endpoints
from headwise.web.errors import ClientGone, NotReady, QueueFull, ServiceError
from headwise.web.failures import failure
from headwise.web.guard import MOST_BYTES, RequestGuard
from headwise.web.hangup import on_hangup
from headwise.web.hosts import Hosts, KnownHosts
from headwise.web.openapi import openapi
from headwise.web.reloading import Reloader
from headwise.web.run_directories import RunDirectory

_log = logging.getLogger(__name__)
_CROSS_ORIGIN: dict[str, Any] = {
    "allow_methods": ["GET", "POST", "PUT", "PATCH", "DELETE"],  # the last three of glossaries
    "allow_headers": ["Authorization", "Content-Type", "X-API-Key"],
    "expose_headers": ["Retry-After", "X-Request-Id"],
}


class ApplicationPart(Protocol):
    """What an application consists of; a part that keeps nothing of a run needs neither `renew` nor `close`."""

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        ...

    def renew(self, name: str) -> None:
        """Use the model of a run that was loaded again."""

    async def close(self) -> None:
        """Finish what was accepted."""


def create_app(
    runs: Mapping[str, RunDirectory],
    parts: Sequence[ApplicationPart],
    hosts: Hosts | None = None,
    *,
    origins: Sequence[str] = (),
    most_bytes: int = MOST_BYTES,
    most_file_bytes: int = MOST_BYTES,
    say: Callable[[str], None] = _log.info,
    watch: bool = True,
) -> Starlette:
    """Build the application from its parts; an address belongs to the first part that has it.

    Requests are accepted for the host names in `hosts`, by default for loopback names only, with at most `most_bytes`,
    or `most_file_bytes` where an endpoint takes a file. The foreign pages of `origins` may use all but the page's own
    interface. Runs whose files change are loaded again, which `say` tells, if the application is to `watch` them.
    """

    def renewed(run: RunDirectory) -> None:
        for part in parts:
            part.renew(run.name)

    reloader = Reloader(runs, say, renewed)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(reloader.watch()) if watch else None
        with on_hangup(reloader.look_now) if watch else nullcontext():
            yield
        if watching is not None:
            watching.cancel()
        for part in parts:
            await part.close()

    routes = [route for part in parts for route in part.routes()]
    described = Endpoints()

    @described("GET", "/openapi.json")
    def description(request: Request) -> dict[str, Any]:
        return request.app.state.openapi()

    app = Starlette(routes=[*described.routes, *routes], exception_handlers=_HANDLERS, lifespan=lifespan)
    app.state.openapi = cache(lambda: openapi([route for route in routes if isinstance(route, Endpoint)]))
    if origins:
        app.add_middleware(CORSMiddleware, allow_origins=origins, **_CROSS_ORIGIN)
    app.add_middleware(KnownHosts, hosts=hosts or Hosts(), origins=origins)
    with_files = [route.path for route in routes if isinstance(route, Endpoint) and route.kinds == FILE]
    by_path = dict.fromkeys(with_files, most_file_bytes)
    # Outside of the others, so that refusals have its headers, too.
    app.add_middleware(RequestGuard, most=most_bytes, by_path=by_path)
    return app


def _headwise_error(request: Request, error: Exception) -> Response:
    return failure(request.url.path, 409 if isinstance(error, NotReady) else 400, str(error))


def _service_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return failure(request.url.path, error.status, error.sentence, error.retry_after)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code not in (404, 405):  # 405 is what the page's files answer to POST, wherever it goes
        return failure(path, error.status_code, error.detail)
    endpoints = (route for route in request.app.routes if isinstance(route, Endpoint))
    methods = sorted(one.method for one in endpoints if one.matches(request.scope)[0] is Match.PARTIAL)
    if not methods:
        return failure(path, 404, f"there is nothing at {path}")
    answer = failure(path, 405, f"{path}: expected {' or '.join(methods)}, found {request.method}")
    answer.headers["Allow"] = ", ".join(methods)
    return answer


_HANDLERS: dict[Any, Callable[[Request, Exception], Response]] = {
    Exception: lambda request, error: failure(request.url.path, 500, "the server failed; its log says why"),
    HeadwiseError: _headwise_error,
    HTTPException: _http_error,
    ServiceError: _service_error,
    QueueFull: lambda request, error: failure(request.url.path, 503, "the server is busy; try again in a moment"),
    ClientGone: lambda request, error: Response(status_code=499),  # while it was answered
    ClientDisconnect: lambda request, error: Response(status_code=499),  # before its body had arrived
}
