"""The bodies of requests: JSON, read as carefully as any file that a stranger wrote."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headwise.parsing.bounds import Malformed
from headwise.parsing.json_text import json_value


class _CheckedRequest(Request):
    async def json(self) -> Any:
        """Read the body; one that isn't sound JSON is answered with 422 and the sentence that says why."""
        try:
            return json_value(await self.body())
        except Malformed as problem:
            raise HTTPException(422, problem.sentence("request", "JSON")) from None


class CheckedRoute(APIRoute):
    """A route whose requests' bodies are read by `headwise.parsing`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap what answers a request."""
        answer = super().get_route_handler()

        async def checked(request: Request) -> Response:
            return await answer(_CheckedRequest(request.scope, request.receive))

        return checked
