"""Request bodies: JSON, parsed with the same checks as untrusted files."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headwise.parsing import Malformed, json_value


class CheckedRequest(Request):
    """Request whose body is parsed by `headwise.parsing`."""

    async def json(self) -> Any:
        """Parse the body; for invalid JSON the response is 422 with a sentence that says why."""
        try:
            return json_value(await self.body())
        except Malformed as problem:
            raise HTTPException(422, problem.sentence("request", "JSON")) from None


class CheckedRoute(APIRoute):
    """Route whose request bodies are parsed by `headwise.parsing`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler, wrapped so that its request checks the body."""
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            checked_request = CheckedRequest(request.scope, request.receive)
            try:
                return await handle(checked_request)
            finally:
                await checked_request.close()  # the files of a form

        return checked
