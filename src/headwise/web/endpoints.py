"""Endpoints: one way to route a request, to read its fields, to answer in JSON, and to say what both are.

    endpoints = Endpoints("DeepL", error_answers("message", 404))

    @endpoints("POST", "/v2/document/{identifier}", "Ask for a document's status", StatusAnswer, kinds=FORMS)
    async def status(request: Request, identifier: str, fields: KeyFields) -> dict[str, Any]: ...

The function gets the parts of the path by their names and, if it has a parameter `fields`, the request's fields as its
type, a pydantic model. A function that isn't a coroutine is called in a thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any, TypeVar, get_type_hints

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headwise.web.fields import read_fields
from headwise.web.guard import MOST_BYTES

JSON = ("application/json",)
FORMS = (*JSON, "application/x-www-form-urlencoded")
FILE = ("multipart/form-data",)
# `json.dumps` makes an encoder for each call, which takes longer than a short answer.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
Function = TypeVar("Function", bound=Callable[..., Any])


class JSONAnswer(JSONResponse):
    """Starlette's response, with the same bytes."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of a value."""
        return _ENCODER.encode(content).encode("utf-8")


class Endpoint(Route):
    """The route to a function; its attributes are the parameters of `Endpoints.__call__`, and `fields` its model."""

    def __init__(
        self, group: Endpoints, function: Callable[..., Any], method: str, path: str, **described: Any
    ) -> None:
        super().__init__(path, self.respond, name=function.__name__, methods=[method])
        self.group, self.function, self.method = group, function, method
        self.fields = get_type_hints(function).get("fields")
        self.summary: str = described["summary"]
        self.answer: Any = described["answer"]
        self.status: int = described["status"]
        self.kinds: tuple[str, ...] = described["kinds"]
        self.content: Sequence[str] = described["content"]
        self._waits = iscoroutinefunction(function)

    async def respond(self, request: Request) -> Response:
        """Answer a request; raises what the function raises, and `ServiceError` for missing or wrong fields."""
        request.scope["route"] = self
        arguments = dict(request.path_params)
        try:
            if self.fields is not None:
                group, only_json = self.group, self.kinds == JSON
                arguments["fields"] = await read_fields(
                    request, self.fields, most=group.most_bytes, wrong=group.wrong, only_json=only_json
                )
            if self._waits:
                answer = await self.function(request, **arguments)
            else:
                answer = await run_in_threadpool(self.function, request, **arguments)
        finally:
            await request.close()  # the files of a form
        if self.status == 204:
            return Response(status_code=204)
        return answer if isinstance(answer, Response) else JSONAnswer(answer, self.status)


@dataclass
class Endpoints:
    """The endpoints of a protocol.

    Attributes:
        tag: the protocol's name; those without one aren't described.
        errors: descriptions of the errors, as `error_answers` returns them.
        wrong: status of the answer to fields that are missing or wrong.
        most_bytes: most bytes of a field of a form.
        routes: the endpoints.
    """

    tag: str = ""
    errors: dict[int, Any] = field(default_factory=dict)
    wrong: int = 400
    most_bytes: int = MOST_BYTES
    routes: list[Endpoint] = field(default_factory=list)

    def __call__(
        self,
        method: str,
        path: str,
        summary: str = "",
        answer: Any = Any,
        *,
        status: int = 200,
        kinds: tuple[str, ...] = (),
        content: Sequence[str] = (),
    ) -> Callable[[Function], Function]:
        """Return a decorator that adds an endpoint.

        Args:
            method: HTTP's method.
            path: the address; `{name}` is a part that the function gets.
            summary: what it does.
            answer: the type of what the function returns, unless that is a response.
            status: of the answer.
            kinds: media types of the body; fields are in JSON alone, or in JSON, in a form and in the address.
            content: media types of an answer that isn't JSON.
        """

        def add(function: Function) -> Function:
            described = {
                "summary": summary,
                "answer": answer,
                "status": status,
                "kinds": kinds,
                "content": content,
            }
            self.routes.append(Endpoint(self, function, method, path, **described))
            return function

        return add
