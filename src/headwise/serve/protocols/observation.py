"""What an operator sees: metrics, one log line a request, and whether the server is alive and ready.

Neither metrics nor logs have anything of a text, an address or a key: of a request they have its route's template, not
its address, and of an error its type and its place in the code, not its message.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwise.serve.translation.service import Service
from headwise.web.endpoints import Endpoint, Endpoints, JSONAnswer
from headwise.web.failures import failure
from headwise.web.guard import SECURITY_HEADERS

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)  # buckets of the latency
_HEADER = b"x-request-id"
_GAUGES: tuple[tuple[str, str, Sequence[str]], ...] = (
    ("workers", "Processes that serve.", ()),
    ("sentences_accepted", "Sentences accepted and not finished.", ()),
    ("waiting_sentences", "Sentences that wait.", ("model",)),
    ("waiting_tokens", "Source tokens that wait.", ("model",)),
    ("running_sentences", "Sentences that are searched.", ("model",)),
    ("batch_rows", "Rows of the running batch.", ("model",)),
    ("tokens_per_second", "Source tokens finished in a second, of late.", ("model",)),
)
_PROTOCOLS = ("libretranslate", "deepl", "headwise", "page")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_MOST_FRAMES = 20  # of a traceback in the log

Log = Callable[[dict[str, Any]], None]


class Metrics:
    """The metrics of a server: those of this process or, with a folder, the sums over all workers that write there."""

    def __init__(self, service: Service, folder: Path | None = None, place: int = 0) -> None:
        """Count for a service; `place` is this worker's number, which keeps the counts of the one before it."""
        self._service = service
        self._registry = CollectorRegistry()
        if folder is not None:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
            values.ValueClass = values.MultiProcessValue(lambda: place)
        registry = None if folder is not None else self._registry
        labels = ["protocol", "route"]
        self._requests = Counter("headwise_requests", "Requests.", [*labels, "status"], registry=registry)
        self._seconds = Histogram(
            "headwise_request_seconds",
            "Latency of requests, until the last byte was sent.",
            labels,
            buckets=_SECONDS,
            registry=registry,
        )
        self._characters = Counter(
            "headwise_characters", "Characters of texts that were accepted.", ["protocol"], registry=registry
        )
        self._again = Counter(
            "headwise_sentences_searched_again",
            "Sentences whose output repeated itself, ran on, or lacked a number or a looked-up word: mended, or kept.",
            ["model", "outcome"],
            registry=registry,
        )
        self._pieces = Counter(
            "headwise_protected_pieces",
            "Protected pieces by what became of them.",
            ["outcome"],
            registry=registry,
        )
        self._by_route: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._known: dict[tuple[str, ...], int] = {}  # what the counters have of the service's counts
        self._updating = threading.Lock()  # by one thread at a time, as both are read and set
        self._gauges = {
            name: Gauge(f"headwise_{name}", text, names, registry=registry, multiprocess_mode="livesum")
            for name, text, names in _GAUGES
        }
        if folder is not None:
            MultiProcessCollector(self._registry, str(folder))

    def count(self, protocol: str, route: str, status: int, seconds: float, characters: int) -> None:
        """Count a request that has ended."""
        requests, latency = self._labelled(protocol, route, status)
        requests.inc()
        latency.observe(seconds)
        if characters:
            self._characters.labels(protocol).inc(characters)

    def _labelled(self, protocol: str, route: str, status: int) -> tuple[Counter, Histogram]:
        """Return the metrics of a route's requests with a status, kept because finding them takes long."""
        found = self._by_route.get((route, status))
        if found is None:
            requests = self._requests.labels(protocol, route, str(status))
            found = requests, self._seconds.labels(protocol, route)
            self._by_route[route, status] = found
        return found

    def text(self) -> bytes:
        """Return the metrics in Prometheus's format."""
        self.update()
        return generate_latest(self._registry)

    def update(self) -> None:
        """Set the gauges and counters that the service keeps itself."""
        service, gauges = self._service, self._gauges
        with self._updating:
            for outcome, pieces in (("kept", service.pieces_kept), ("repaired", service.pieces_repaired)):
                self._increase(self._pieces.labels(outcome), (outcome,), pieces)
            gauges["workers"].set(1)
            gauges["sentences_accepted"].set(service.accepted)
            for model in service.models.all:
                for outcome in ("mended", "kept"):
                    counter = self._again.labels(model.name, outcome)
                    self._increase(counter, (model.name, outcome), model.searched_again[outcome])
                load = model.load
                gauges["waiting_sentences"].labels(model.name).set(load.waiting)
                gauges["waiting_tokens"].labels(model.name).set(load.waiting_tokens)
                gauges["running_sentences"].labels(model.name).set(load.running)
                gauges["batch_rows"].labels(model.name).set(load.rows)
                gauges["tokens_per_second"].labels(model.name).set(load.tokens_per_second)

    def _increase(self, counter: Counter, name: tuple[str, ...], count: int) -> None:
        counter.inc(count - self._known.get(name, 0))
        self._known[name] = count


def _protocol(route: object) -> str:
    """Return the name of the protocol that a route belongs to."""
    name = route.group.tag.lower() if isinstance(route, Endpoint) else ""
    return name if name in _PROTOCOLS else "other"


class Observed:
    """Middleware that gives every request an id, counts it and logs it; the outermost but one for its errors."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log: Log | None) -> None:
        self.app, self._metrics, self._log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request to the application, and answer 500 where it fails."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, identifier = time.perf_counter(), 0, secrets.token_hex(16)

        async def with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (_HEADER, identifier.encode())]
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
        found = scope.get("route")
        route = getattr(found, "path", None) or "other"
        self._metrics.count(_protocol(found), route, status, seconds, state.get("characters", 0))
        if self._log is not None or places:
            entry = {
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "request": identifier,
                "method": scope["method"] if scope["method"] in _METHODS else "other",
                "route": route,
                "status": status,
                "seconds": round(seconds, 4),
                "characters": state.get("characters", 0),
                "key": state.get("key_name"),
                "process": os.getpid(),
            }
            (self._log or log_line)(entry | ({"failure": places} if places else {}))


def log_line(entry: dict[str, Any]) -> None:
    """Write an entry to standard error, as one line of JSON."""
    print(json.dumps(entry), file=sys.stderr, flush=True)


def routes(service: Service, metrics: Metrics) -> list[Endpoint]:
    """Return the endpoints of the metrics, and of whether the server is alive and ready."""
    endpoints = Endpoints("operation")
    readiness = Endpoints("operation", {503: {"description": "It doesn't."}})

    @endpoints("GET", "/metrics", "Metrics, in Prometheus's text format", content=[CONTENT_TYPE_LATEST])
    def read_metrics(request: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @endpoints("GET", "/livez", "Whether the server is alive", dict[str, str])
    async def alive(request: Request) -> dict[str, str]:
        return {"status": "ok"}

    @readiness("GET", "/readyz", "Whether the server takes requests", dict[str, str])
    async def ready(request: Request) -> JSONAnswer:
        takes = bool(service.models.all) and not service.closing
        return JSONAnswer({"status": "ready" if takes else "not ready"}, 200 if takes else 503)

    return [*endpoints.routes, *readiness.routes]


def _places(error: BaseException) -> list[str]:
    """Return an error's type and the places in the code that it passed, without its message."""
    frames = traceback.extract_tb(error.__traceback__)[-_MOST_FRAMES:]
    return [type(error).__name__, *(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)]
