"""The page as a part of a web application: its interface, the chapters, and its files.

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
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from headwise.errors import DataError
from headwise.learn.rendering import PICTURES, names, page
from headwise.page.evaluation_pairs import EvaluationPairs
from headwise.page.evidence import Evidence
from headwise.page.request_queue import RequestQueue
from headwise.page.routes import interface
from headwise.page.runs import PageRun
from headwise.web.app import create_app
from headwise.web.endpoints import Endpoints
from headwise.web.hosts import Hosts

FILES = Path(__file__).parent / "static"


class Page:
    """The page of some runs, by name; it opens the first one.

    The heads are measured on `corpus`, by default on each run's own development set.
    """

    def __init__(self, runs: Mapping[str, PageRun], corpus: EvaluationPairs | None = None) -> None:
        self._runs, self._corpus, self._queue = runs, corpus, RequestQueue()
        self._evidence: dict[str, Evidence] = {}
        for name in runs:
            self.renew(name)

    def renew(self, name: str) -> None:
        """Measure the model of a run that was loaded again; the panel says where the text to measure on is damaged."""
        run = self._runs[name]
        found = self._evidence[name] = Evidence(self._corpus, run.translator, lambda: self._queue.idle)
        try:
            found.corpus = self._corpus or EvaluationPairs.of(run)
        except DataError as error:
            found.status, found.about = "failed", f"{error}."

    def routes(self) -> list[BaseRoute]:
        """Return the interface, the chapters, and the page's files at all other addresses."""
        files = Mount("/", StaticFiles(directory=FILES, html=True), name="page")
        endpoints = interface(self._runs, self._evidence, self._queue)
        return [*endpoints.routes, *_chapters(), files]

    async def close(self) -> None:
        """Do nothing: what is computed for the page isn't waited for."""


def _chapters() -> list[BaseRoute]:
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


def page_app(
    runs: Mapping[str, PageRun], corpus: EvaluationPairs | None = None, hosts: Hosts | None = None
) -> Starlette:
    """Return an application that consists of the page alone."""
    return create_app(runs, [Page(runs, corpus)], hosts)
