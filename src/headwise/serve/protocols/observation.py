"""What an operator sees: metrics, one log line a request, and whether the server is alive and ready.

Neither metrics nor logs have anything of a text, an address or a key: of a request they have its route's template, not
its address, and of an error its type and its place in the code, not its message.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwise.serve.protection.failures import failure
from headwise.serve.protection.middleware import SECURITY_HEADERS
from headwise.serve.translation.service import Service

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)  # buckets of the latency
_HEADER = "X-Request-Id"
_MOST_FRAMES = 20  # of a traceback in the log

Log = Callable[[dict[str, Any]], None]


class Metrics:
    """The metrics of a server."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        labels = ["protocol", "route"]
        self._requests = Counter(
            "headwise_requests", "Requests.", [*labels, "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "headwise_request_seconds",
            "Latency of requests, until the last byte was sent.",
            labels,
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._characters = Counter(
            "headwise_characters",
            "Characters of texts that were accepted.",
            ["protocol"],
            registry=self.registry,
        )
        self.registry.register(_Schedulers(service))

    def count(self, route: str, status: int, seconds: float, characters: int) -> None:
        """Count a request that has ended."""
        name = protocol(route)
        self._requests.labels(name, route, str(status)).inc()
        self._seconds.labels(name, route).observe(seconds)
        if characters:
            self._characters.labels(name).inc(characters)


class _Schedulers(Collector):
    """The load of every model's scheduler, when it is asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        """Return the gauges, and the counters of the service."""
        again = CounterMetricFamily(
            "headwise_sentences_searched_again",
            "Sentences whose output repeated itself or ran on: mended by the second search, or kept.",
            labels=["model", "outcome"],
        )
        for model in self._service.models.all:
            for outcome in ("mended", "kept"):
                again.add_metric([model.name, outcome], model.searched_again[outcome])
        yield again
        accepted = GaugeMetricFamily("headwise_sentences_accepted", "Sentences accepted and not finished.")
        accepted.add_metric([], self._service.accepted)
        yield accepted
        pieces = CounterMetricFamily(
            "headwise_protected_pieces", "Protected pieces by what became of them.", labels=["outcome"]
        )
        pieces.add_metric(["kept"], self._service.pieces_kept)
        pieces.add_metric(["repaired"], self._service.pieces_repaired)
        yield pieces
        loads = [(model.name, model.scheduler.load) for model in self._service.models.all]
        for name, text, read in (
            ("waiting_sentences", "Sentences that wait.", lambda load: load.waiting),
            ("waiting_tokens", "Source tokens that wait.", lambda load: load.waiting_tokens),
            ("running_sentences", "Sentences that are searched.", lambda load: load.running),
            ("batch_rows", "Rows of the running batch.", lambda load: load.rows),
            (
                "tokens_per_second",
                "Source tokens finished in a second, of late.",
                lambda load: load.tokens_per_second,
            ),
        ):
            family = GaugeMetricFamily(f"headwise_{name}", text, labels=["model"])
            for model, load in loads:
                family.add_metric([model], read(load))
            yield family


def protocol(route: str) -> str:
    """Return the name of the protocol that a route belongs to."""
    first = route.split("/")[1] if "/" in route else ""
    named = {"v1": "headwise", "v2": "deepl", "v3": "deepl", "api": "page"}
    libre = (
        "translate",
        "translate_file",
        "download_file",
        "detect",
        "suggest",
        "languages",
        "frontend",
        "health",
    )
    return named.get(first) or ("libretranslate" if first in libre else "other")


class Observed:
    """Middleware that gives every request an id, counts it and logs it; the outermost but one for its errors."""

    def __init__(self, app: ASGIApp, metrics: Metrics | None = None, log: Log | None = None) -> None:
        self.app, self._metrics, self._log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the application, and answer 500 where it fails."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, identifier = time.perf_counter(), 0, uuid.uuid4().hex

        async def with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[_HEADER] = identifier
            await send(message)

        places: list[str] = []
        try:
            await self.app(scope, receive, with_id)
        except Exception as error:
            places = _places(error)
            if status == 0:
                answer = failure(scope["path"], 500, "the server failed; its log says where")
                answer.headers.update(SECURITY_HEADERS)
                await answer(scope, receive, with_id)
        finally:
            seconds = time.perf_counter() - began
            self._record(scope, identifier, status or 499, seconds, places)

    def _record(self, scope: Scope, identifier: str, status: int, seconds: float, places: list[str]) -> None:
        state = scope.get("state", {})
        route = getattr(scope.get("route"), "path", None) or "other"
        if self._metrics is not None:
            self._metrics.count(route, status, seconds, state.get("characters", 0))
        if self._log is not None or places:
            entry = {
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "request": identifier,
                "method": scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other",
                "route": route,
                "status": status,
                "seconds": round(seconds, 4),
                "characters": state.get("characters", 0),
                "key": state.get("key_name"),
            }
            (self._log or log_line)(entry | ({"failure": places} if places else {}))


def log_line(entry: dict[str, Any]) -> None:
    """Write an entry to standard error, as one line of JSON."""
    print(json.dumps(entry), file=sys.stderr, flush=True)


def routes(service: Service, metrics: Metrics) -> APIRouter:
    """Return a router with the metrics, and whether the server is alive and ready."""
    router = APIRouter(tags=["operation"])

    @router.get("/metrics", response_class=Response, summary="Metrics, in Prometheus's text format")
    def read_metrics() -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @router.get("/livez", summary="Whether the server is alive")
    async def alive() -> dict[str, str]:
        return {"status": "ok"}

    @router.get(
        "/readyz",
        summary="Whether the server takes requests",
        responses={503: {"description": "It doesn't."}},
    )
    async def ready() -> JSONResponse:
        takes = bool(service.models.all) and not service.closing
        return JSONResponse({"status": "ready" if takes else "not ready"}, status_code=200 if takes else 503)

    return router


def _places(error: BaseException) -> list[str]:
    """Return an error's type and the places in the code that it passed, without its message."""
    frames = traceback.extract_tb(error.__traceback__)[-_MOST_FRAMES:]
    return [type(error).__name__, *(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)]
