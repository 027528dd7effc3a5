"""The page's interface: each request's computation runs alone, in the request queue, and is answered in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from starlette.requests import Request

from headwise.analysis.boxes.architecture import architecture, box_of
from headwise.analysis.head_arithmetic import head_arithmetic
from headwise.analysis.json_arrays import as_json, listed
from headwise.analysis.recurrence.comparing import compare
from headwise.analysis.recurrence.timing import measure_times
from headwise.analysis.stepwise import step_by_step
from headwise.page.evidence import Evidence
from headwise.page.request_queue import RequestQueue
from headwise.page.requests import (
    BoxesRequest,
    BoxRequest,
    ContinueRequest,
    ForceRequest,
    PatchesRequest,
    ProductsRequest,
    RecurrenceRequest,
    RunFields,
    StepsRequest,
    TextRequest,
    TimesRequest,
    TraceRequest,
)
from headwise.page.runs import PageRun
from headwise.page.views.images import ImagesView, patches_json
from headwise.page.views.language_model import LanguageModelView, continued_json, next_json
from headwise.page.views.translation import TranslationView
from headwise.page.views.view import TextView
from headwise.web.endpoints import JSON, Endpoints
from headwise.web.errors import ServiceError
from headwise.web.openapi import error_answers


def interface(runs: Mapping[str, PageRun], evidence: Mapping[str, Evidence], queue: RequestQueue) -> Endpoints:
    """Return the endpoints for these runs."""
    endpoints = Endpoints("page", error_answers("error", 404, 409), wrong=422)

    def find(name: str) -> PageRun:
        if name not in runs:
            raise ServiceError(404, f"run: expected one of {', '.join(runs)}, found {name!r}")
        return runs[name]

    def add(path: str, function: Callable[[PageRun, Any], dict[str, Any]]) -> None:
        @endpoints("POST", path, function.__name__[1:].capitalize(), kinds=JSON)
        @wraps(function)
        async def queued(request: Request, fields: Any) -> dict[str, Any]:
            return await queue.serve(request, partial(function, find(fields.run), fields))

    @endpoints("GET", "/api/runs", "All runs")
    def all_runs(request: Request) -> dict[str, Any]:
        entries = [{"name": run.name, "task": run.config.task, "ready": run.ready} for run in runs.values()]
        return {"runs": entries}

    @endpoints("GET", "/api/run", "One run")
    def one_run(request: Request, fields: RunFields) -> dict[str, Any]:
        return find(fields.run).describe()

    for path, function in _QUESTIONS.items():
        add(path, function)

    @endpoints("GET", "/api/metrics", "Metrics")
    def metrics(request: Request, fields: RunFields) -> dict[str, Any]:
        return find(fields.run).curves()

    @endpoints("GET", "/api/evidence", "Evidence")
    def measured(request: Request, fields: RunFields) -> dict[str, Any]:
        if find(fields.run).ready:
            evidence[fields.run].start()
        return evidence[fields.run].to_json()

    return endpoints


def _trace(run: PageRun, fields: TraceRequest) -> dict[str, Any]:
    overrides = {"beam": fields.beam, "alpha": fields.alpha}
    options = {name: value for name, value in overrides.items() if value is not None}
    trace = run.view_as(TextView).model.trace(fields.text, fields.changes(), **options)
    return trace.to_json(fields.array())


def _force(run: PageRun, fields: ForceRequest) -> dict[str, Any]:
    forced = run.view_as(TextView).model.force(fields.text, fields.target, fields.changes(), alpha=fields.alpha)
    return as_json(forced, fields.array())


def _products(run: PageRun, fields: ProductsRequest) -> dict[str, Any]:
    cell = (fields.part, fields.layer, fields.head, fields.query)
    forward = run.view_as(TextView).model.record(fields.text, fields.target, fields.changes())
    return as_json(head_arithmetic(forward, *cell), fields.array(listed))


def _boxes(run: PageRun, fields: BoxesRequest) -> dict[str, Any]:
    return as_json(architecture(run.view().record(fields)), fields.array(listed))


def _box(run: PageRun, fields: BoxRequest) -> dict[str, Any]:
    recorded = run.view().record(fields)
    found = box_of(recorded, fields.box, fields.layer, fields.position, temperature=fields.temperature)
    return as_json(found, fields.array(listed))


def _steps(run: PageRun, fields: StepsRequest) -> dict[str, Any]:
    question = (fields.text, fields.target, fields.changes())
    found = step_by_step(run.view_as(TranslationView).model, *question, alternatives=fields.alternatives)
    return found.to_json(fields.array())


def _recurrence(run: PageRun, fields: RecurrenceRequest) -> dict[str, Any]:
    found = compare(run.view_as(TextView).model, fields.text, fields.radius, fields.changes())
    return as_json(found, fields.array(listed))


def _times(run: PageRun, fields: TimesRequest) -> dict[str, Any]:
    return as_json(measure_times(fields.width))


def _next(run: PageRun, fields: TextRequest) -> dict[str, Any]:
    return next_json(run.view_as(LanguageModelView).generator, fields)


def _continue(run: PageRun, fields: ContinueRequest) -> dict[str, Any]:
    return continued_json(run.view_as(LanguageModelView).generator, fields)


def _patches(run: PageRun, fields: PatchesRequest) -> dict[str, Any]:
    return patches_json(run.view_as(ImagesView).model, fields)


_QUESTIONS: dict[str, Callable[[PageRun, Any], dict[str, Any]]] = {
    "/api/trace": _trace,
    "/api/force": _force,
    "/api/products": _products,
    "/api/boxes": _boxes,
    "/api/box": _box,
    "/api/steps": _steps,
    "/api/recurrence": _recurrence,
    "/api/times": _times,
    "/api/next": _next,
    "/api/continue": _continue,
    "/api/patches": _patches,
}
