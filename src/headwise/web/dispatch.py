"""Requests for fixed addresses, which reach their endpoint without FastAPI's search for a route.

That search, and the reading of parameters that these endpoints don't have, take as long as all else that Python does
for a short sentence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import iscoroutinefunction, signature

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headwise.web.bodies import CheckedRequest, CheckedRoute

Endpoint = Callable[[Request], Awaitable[Response]]
Handlers = Mapping[type[Exception], Callable[[Request, Exception], Response]]


class FixedAddresses:
    """Middleware that answers POST requests whose endpoint has no parameter besides the request."""

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter], handlers: Handlers) -> None:
        """Use the endpoints of `routers`; `handlers` make answers of errors, by their classes."""
        self._app, self._handlers = app, handlers
        self._routes = {
            route.path: route
            for router in routers
            for route in router.routes
            if isinstance(route, CheckedRoute)
            and route.methods == {"POST"}
            and iscoroutinefunction(route.endpoint)
            and list(signature(route.endpoint).parameters) == ["request"]
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it to the application."""
        route = (
            self._routes.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        )
        if route is None or scope.get("root_path"):
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        request = CheckedRequest(scope, receive)
        try:
            answer = await route.endpoint(request)
        except Exception as error:
            handler = next(
                (self._handlers[kind] for kind in type(error).__mro__ if kind in self._handlers), None
            )
            if handler is None:
                raise
            answer = handler(request, error)
        finally:
            await request.close()  # the files of a form
        await answer(scope, receive, send)
