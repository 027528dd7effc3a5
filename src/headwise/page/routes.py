"""The API's routes: each validates a request, runs the model through the request queue and responds in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headwise.analysis.boxes.architecture import architecture, box_of
from headwise.analysis.head_arithmetic import head_arithmetic
from headwise.analysis.recording import ForwardPass
from headwise.analysis.recurrence.comparing import compare
from headwise.analysis.recurrence.timing import measure_times
from headwise.analysis.stepwise import step_by_step
from headwise.analysis.viewer import TASKS, ClassifierViewer
from headwise.errors import ConfigError
from headwise.page.curves import read_curves
from headwise.page.evidence import Evidence
from headwise.page.image_view import patches_json, pixels_of
from headwise.page.json_arrays import arrays_json, products_json, reading_json, steps_json, trace_json
from headwise.page.language_model import continued_json, next_json
from headwise.page.request_queue import RequestQueue
from headwise.page.requests import (
    After,
    BoxesRequest,
    BoxRequest,
    ContinueRequest,
    ForceRequest,
    PatchesRequest,
    ProductsRequest,
    RecurrenceRequest,
    RunRequest,
    StepsRequest,
    TextRequest,
    TimesRequest,
    TraceRequest,
)
from headwise.page.runs import Run
from headwise.web.bodies import CheckedRoute


def routes(runs: Mapping[str, Run], evidence: Mapping[str, Evidence], queue: RequestQueue) -> APIRouter:
    """Return a router with the API's endpoints for these runs."""
    router = APIRouter(route_class=CheckedRoute)

    def find(name: str) -> Run:
        if name not in runs:
            raise HTTPException(404, f"run: expected one of {', '.join(runs)}, found {name!r}")
        return runs[name]

    async def answer(
        request: Request,
        body: RunRequest | TextRequest | PatchesRequest | BoxesRequest | TimesRequest,
        work: Callable[[], dict[str, Any]],
    ) -> Response:
        find(body.run)
        return _json(await queue.serve(request, work))

    @router.get("/runs")
    def all_runs() -> Response:
        entries = [{"name": run.name, "task": run.config.task, "ready": run.ready} for run in runs.values()]
        return _json({"runs": entries})

    @router.get("/run")
    def one_run(run: str) -> Response:
        return _json(find(run).describe())

    @router.post("/trace")
    async def trace(request: Request, body: TraceRequest) -> Response:
        def work() -> dict[str, Any]:
            tracer = runs[body.run].reader
            overrides = {"beam": body.beam, "alpha": body.alpha}
            options = {name: value for name, value in overrides.items() if value is not None}
            return trace_json(tracer.trace(body.text, body.changes(), **options), body.arrays)

        return await answer(request, body, work)

    @router.post("/force")
    async def force(request: Request, body: ForceRequest) -> Response:
        def work() -> dict[str, Any]:
            tracer = runs[body.run].reader
            forced = tracer.force(body.text, body.target, body.changes(), alpha=body.alpha)
            return reading_json(forced, body.arrays)

        return await answer(request, body, work)

    @router.post("/products")
    async def one_cell(request: Request, body: ProductsRequest) -> Response:
        def work() -> dict[str, Any]:
            cell = (body.part, body.layer, body.head, body.query)
            tracer = runs[body.run].reader
            computed = head_arithmetic(tracer.record(body.text, body.target, body.changes()), *cell)
            return products_json(computed, body.arrays)

        return await answer(request, body, work)

    @router.post("/boxes")
    async def boxes(request: Request, body: BoxesRequest) -> Response:
        def work() -> dict[str, Any]:
            return arrays_json(architecture(_recorded(runs[body.run], body)).to_json(), body.arrays)

        return await answer(request, body, work)

    @router.post("/box")
    async def one_box(request: Request, body: BoxRequest) -> Response:
        def work() -> dict[str, Any]:
            recorded = _recorded(runs[body.run], body)
            found = box_of(recorded, body.box, body.layer, body.position, temperature=body.temperature)
            return arrays_json(found.to_json(), body.arrays)

        return await answer(request, body, work)

    @router.post("/steps")
    async def steps(request: Request, body: StepsRequest) -> Response:
        def work() -> dict[str, Any]:
            tracer, changes = runs[body.run].tracer, body.changes()
            found = step_by_step(tracer, body.text, body.target, changes, alternatives=body.alternatives)
            return steps_json(found, body.arrays)

        return await answer(request, body, work)

    @router.post("/recurrence")
    async def recurrence(request: Request, body: RecurrenceRequest) -> Response:
        def work() -> dict[str, Any]:
            found = compare(runs[body.run].reader, body.text, body.radius, body.changes())
            return arrays_json(found.to_json(), body.arrays)

        return await answer(request, body, work)

    @router.post("/times")
    async def times(request: Request, body: TimesRequest) -> Response:
        return await answer(request, body, lambda: measure_times(body.width).to_json())

    @router.post("/next")
    async def next_tokens(request: Request, body: TextRequest) -> Response:
        return await answer(request, body, lambda: next_json(runs[body.run].generator, body))

    @router.post("/continue")
    async def continuation(request: Request, body: ContinueRequest) -> Response:
        return await answer(request, body, lambda: continued_json(runs[body.run].generator, body))

    @router.post("/patches")
    async def patches(request: Request, body: PatchesRequest) -> Response:
        return await answer(request, body, lambda: patches_json(runs[body.run].viewer, body))

    @router.get("/metrics")
    def metrics(run: str, after: After = 0) -> Response:
        return _json(read_curves(find(run), after))

    @router.get("/evidence")
    def measured(run: str) -> Response:
        if find(run).ready:
            evidence[run].start()
        return _json(evidence[run].to_json())

    return router


def _recorded(run: Run, request: BoxesRequest) -> ForwardPass:
    """Record the forward pass whose boxes are shown: of an image for a classifier, else of a text."""
    if run.config.task in TASKS:
        viewer = run.viewer
        if not isinstance(viewer, ClassifierViewer):
            raise ConfigError(f"{run.name}: expected a run with boxes, found one of task {run.config.task}")
        pixels, _ = pixels_of(viewer, request.image, request.pixels)
        return viewer.record(pixels, request.changes())
    if request.target is None:
        raise ConfigError("target: expected a text, or ids as a trace has them, found none")
    return run.reader.record(request.text, request.target, request.changes())


def _json(content: dict[str, Any]) -> Response:
    """Serialize with `json.dumps` directly; FastAPI's own encoder would first walk through every number."""
    return Response(json.dumps(content, ensure_ascii=False, allow_nan=False), media_type="application/json")
