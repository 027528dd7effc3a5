"""The routes of the interface: each reads a request, uses the model when its turn comes, and answers in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headwise.analysis.products import products
from headwise.serve.evidence import Evidence
from headwise.serve.image_view import patches_json
from headwise.serve.json_arrays import products_json, reading_json, trace_json
from headwise.serve.language_model import continued_json, next_json
from headwise.serve.metrics import read_curves
from headwise.serve.protection.bodies import CheckedRoute
from headwise.serve.request_queue import RequestQueue
from headwise.serve.requests import (
    After,
    ContinueRequest,
    ForceRequest,
    PatchesRequest,
    ProductsRequest,
    RunRequest,
    TextRequest,
    TraceRequest,
)
from headwise.serve.runs import Run


def routes(runs: Mapping[str, Run], evidence: Mapping[str, Evidence], queue: RequestQueue) -> APIRouter:
    """Return the interface over these runs."""
    router = APIRouter(route_class=CheckedRoute)

    def find(name: str) -> Run:
        if name not in runs:
            raise HTTPException(404, f"run: expected one of {', '.join(runs)}, found {name!r}")
        return runs[name]

    async def answer(
        request: Request,
        asked: RunRequest | TextRequest | PatchesRequest,
        work: Callable[[], dict[str, Any]],
    ) -> Response:
        find(asked.run)
        return _json(await queue.serve(request, work))

    @router.get("/runs")
    def all_runs() -> Response:
        listed = [{"name": run.name, "task": run.config.task, "ready": run.ready} for run in runs.values()]
        return _json({"runs": listed})

    @router.get("/run")
    def one_run(run: str) -> Response:
        return _json(find(run).describe())

    @router.post("/trace")
    async def trace(request: Request, asked: TraceRequest) -> Response:
        def work() -> dict[str, Any]:
            tracer = runs[asked.run].tracer
            given = {"beam": asked.beam, "alpha": asked.alpha}
            options = {name: value for name, value in given.items() if value is not None}
            return trace_json(tracer.trace(asked.text, asked.changes(), **options), asked.arrays)

        return await answer(request, asked, work)

    @router.post("/force")
    async def force(request: Request, asked: ForceRequest) -> Response:
        def work() -> dict[str, Any]:
            tracer = runs[asked.run].tracer
            forced = tracer.force(asked.text, asked.target, asked.changes(), alpha=asked.alpha)
            return reading_json(forced, asked.arrays)

        return await answer(request, asked, work)

    @router.post("/products")
    async def one_cell(request: Request, asked: ProductsRequest) -> Response:
        def work() -> dict[str, Any]:
            place = (asked.part, asked.layer, asked.head, asked.query)
            tracer = runs[asked.run].tracer
            found = products(tracer, asked.text, asked.target, *place, asked.changes())
            return products_json(found, asked.arrays)

        return await answer(request, asked, work)

    @router.post("/next")
    async def next_tokens(request: Request, asked: TextRequest) -> Response:
        return await answer(request, asked, lambda: next_json(runs[asked.run].generator, asked))

    @router.post("/continue")
    async def continuation(request: Request, asked: ContinueRequest) -> Response:
        return await answer(request, asked, lambda: continued_json(runs[asked.run].generator, asked))

    @router.post("/patches")
    async def patches(request: Request, asked: PatchesRequest) -> Response:
        return await answer(request, asked, lambda: patches_json(runs[asked.run].viewer, asked))

    @router.get("/metrics")
    def metrics(run: str, after: After = 0) -> Response:
        return _json(read_curves(find(run), after))

    @router.get("/evidence")
    def measured(run: str) -> Response:
        if find(run).ready:
            evidence[run].start()
        return _json(evidence[run].told())

    return router


def _json(content: dict[str, Any]) -> Response:
    """Write JSON at once; FastAPI's own way would walk through every number first."""
    return Response(json.dumps(content, ensure_ascii=False, allow_nan=False), media_type="application/json")
