"""The answers of the interface: each reads a question, uses the model in its turn, and tells in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headwise.analysis.products import products
from headwise.serve.arrays import products_json, reading_json, trace_json
from headwise.serve.bodies import CheckedRoute
from headwise.serve.curves import read_curves
from headwise.serve.desk import Desk
from headwise.serve.evidence import Evidence
from headwise.serve.questions import (
    After,
    ContinueQuestion,
    ForceQuestion,
    PatchesQuestion,
    ProductsQuestion,
    Question,
    TextQuestion,
    TraceQuestion,
)
from headwise.serve.runs import Run
from headwise.serve.sight import patches_json
from headwise.serve.writing import continued_json, next_json


def routes(runs: Mapping[str, Run], evidence: Mapping[str, Evidence], desk: Desk) -> APIRouter:
    """Return the interface over these runs."""
    router = APIRouter(route_class=CheckedRoute)

    def find(name: str) -> Run:
        if name not in runs:
            raise HTTPException(404, f"run: expected one of {', '.join(runs)}, found {name!r}")
        return runs[name]

    async def answer(
        request: Request,
        question: Question | TextQuestion | PatchesQuestion,
        work: Callable[[], dict[str, Any]],
    ) -> Response:
        find(question.run)
        return _json(await desk.serve(request, work))

    @router.get("/runs")
    def all_runs() -> Response:
        told = [{"name": run.name, "task": run.config.task, "ready": run.ready} for run in runs.values()]
        return _json({"runs": told})

    @router.get("/run")
    def one_run(run: str) -> Response:
        return _json(find(run).describe())

    @router.post("/trace")
    async def trace(request: Request, question: TraceQuestion) -> Response:
        def work() -> dict[str, Any]:
            tracer = runs[question.run].tracer
            given = {"beam": question.beam, "alpha": question.alpha}
            options = {name: value for name, value in given.items() if value is not None}
            return trace_json(tracer.trace(question.text, question.changes(), **options), question.arrays)

        return await answer(request, question, work)

    @router.post("/force")
    async def force(request: Request, question: ForceQuestion) -> Response:
        def work() -> dict[str, Any]:
            tracer = runs[question.run].tracer
            forced = tracer.force(question.text, question.target, question.changes(), alpha=question.alpha)
            return reading_json(forced, question.arrays)

        return await answer(request, question, work)

    @router.post("/products")
    async def one_cell(request: Request, question: ProductsQuestion) -> Response:
        def work() -> dict[str, Any]:
            place = (question.part, question.layer, question.head, question.query)
            tracer = runs[question.run].tracer
            found = products(tracer, question.text, question.target, *place, question.changes())
            return products_json(found, question.arrays)

        return await answer(request, question, work)

    @router.post("/next")
    async def next_tokens(request: Request, question: TextQuestion) -> Response:
        return await answer(request, question, lambda: next_json(runs[question.run].generator, question))

    @router.post("/continue")
    async def continuation(request: Request, question: ContinueQuestion) -> Response:
        return await answer(request, question, lambda: continued_json(runs[question.run].generator, question))

    @router.post("/patches")
    async def patches(request: Request, question: PatchesQuestion) -> Response:
        return await answer(request, question, lambda: patches_json(runs[question.run].viewer, question))

    @router.get("/metrics")
    def metrics(run: str, after: After = 0) -> Response:
        return _json(read_curves(find(run), after))

    @router.get("/evidence")
    def measured(run: str) -> Response:
        if find(run).ready:
            evidence[run].start()
        return _json(evidence[run].told())

    return router


def _json(told: dict[str, Any]) -> Response:
    """Write JSON at once; FastAPI's own way would walk through every number first."""
    return Response(json.dumps(told, ensure_ascii=False, allow_nan=False), media_type="application/json")
