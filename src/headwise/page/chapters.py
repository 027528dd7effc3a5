"""The addresses of the chapters, `/learn/…`, beside the page that their links lead to."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headwise.learn.rendering import PICTURES, names, page


def add_chapters(app: FastAPI) -> None:
    """Add the chapters and their pictures to an application."""
    known = frozenset(names())
    app.mount("/learn/pictures", StaticFiles(directory=PICTURES), name="pictures")

    @app.get("/learn", include_in_schema=False)
    def to_list() -> Response:
        return RedirectResponse("learn/")

    @app.get("/learn/{name}", include_in_schema=False)
    @app.get("/learn/", include_in_schema=False)
    def chapter(name: str = "") -> Response:
        if name not in known:
            raise HTTPException(404)
        return HTMLResponse(page(name))
