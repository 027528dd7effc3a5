"""The addresses of the chapters, `/learn/…`, beside the page that their links lead to."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from headwise.learn.rendering import PICTURES, names, page
from headwise.web.endpoints import Endpoints


def chapters() -> list[BaseRoute]:
    """Return the routes of the chapters and their pictures."""
    known = frozenset(names())
    endpoints = Endpoints()

    @endpoints("GET", "/learn")
    def to_list(request: Request) -> Response:
        return RedirectResponse("learn/")

    @endpoints("GET", "/learn/{name}")
    @endpoints("GET", "/learn/")
    def chapter(request: Request, name: str = "") -> Response:
        if name not in known:
            raise HTTPException(404)
        return HTMLResponse(page(name))

    return [Mount("/learn/pictures", StaticFiles(directory=PICTURES), name="pictures"), *endpoints.routes]
