"""Timeouts for every phase of a connection, and a limit on the number of connections.

    accepted ──► head (seconds) ──► body (seconds) ──► in progress ──► response read (bytes a second)
                  ▲                                                            │
                  └────────────────────────── idle (seconds) ◄─────────────────┘

uvicorn itself ends idle connections only. A deadline counts from the start of its phase, however many bytes have
arrived since, so a client that sends a byte now and then (slowloris) doesn't extend it. At the limit, a new connection
replaces the one that has waited longest for its client: for the rest of a request, or for its response to be read.
Active clients are served while others only hold connections open.

The parser, llhttp, has no bounds of its own: a head, what stands between the bytes of a body (sizes of chunks,
trailers), and requests that are sent before the answer to another one are bounded here.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

_MOST_PIPELINED = 16  # requests of a connection that wait for the answer to another one
_VERSIONS = ("1.0", "1.1")


@dataclass(frozen=True)
class Limits:
    """Limits of every connection, and of their number.

    Attributes:
        head: seconds for a request's first line and headers.
        body: seconds for its body.
        idle: seconds between a response and the next request.
        fetch: seconds over which a client must read a waiting response at `slowest` bytes a second.
        slowest: lowest rate at which a client may read a response, in bytes a second.
        connections: most connections at once.
        head_bytes: most bytes of a request's first line and headers.
    """

    head: float = 10.0
    body: float = 30.0
    idle: int = 5
    fetch: float = 30.0
    slowest: float = 1024.0
    connections: int = 128
    head_bytes: int = 16 * 1024


def protocol(limits: Limits) -> type[asyncio.Protocol]:
    """Return a protocol class for uvicorn with these limits."""
    return type("Bounded", (BoundedProtocol,), {"limits": limits})


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with a deadline for every phase and a limit on the number of connections."""

    limits = Limits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._in_body = False  # whether a request's head was read, and its body wasn't
        self._bytes = 0  # that came since the head began, or since the last part of the body
        self._broken = False  # whether what follows can't be read
        self._offered = False  # whether the request offers another protocol
        self._phase: object = None
        self._phase_timer: asyncio.TimerHandle | None = None
        self._fetch_timer: asyncio.TimerHandle | None = None
        self._unsent = 0  # bytes of the response when the fetch timer began
        self._waiting_since = 0.0  # loop time when it began to wait for its client

    # --------------------------------------------------------------------- callbacks of uvicorn and asyncio

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection; at the limit, replace the one that has waited longest, or refuse with 503."""
        super().connection_made(transport)
        self._waiting_since = self.loop.time()
        if len(self.connections) > self.limits.connections and not self._replace_longest():
            self._refuse(503, "the server has no place for another connection; try again in a moment")
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        for timer in (self._phase_timer, self._fetch_timer):
            if timer is not None:
                timer.cancel()
        self._phase_timer = self._fetch_timer = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, then start the deadline of a new phase; refuse what isn't HTTP/1.1."""
        if self._broken:
            return
        self._unset_keepalive_if_required()
        self._bytes += len(data)
        try:
            while data:
                data = self._parse(data)
            if self._bytes > self.limits.head_bytes:
                raise httptools.HttpParserError("a head, or what stands between parts of a body, is too long")
        except httptools.HttpParserError:
            self._break()
        else:
            self._watch()

    def on_response_complete(self) -> None:
        """Start the fetch deadline if the client hasn't read the whole response yet, and that of the next request."""
        self._waiting_since = self.loop.time()
        super().on_response_complete()
        self._watch_fetching()
        if not self.pipeline:
            self._watch()

    def pause_writing(self) -> None:
        """Start the fetch deadline, because the write buffer is full."""
        super().pause_writing()
        self._watch_fetching()

    # ---------------------------------------------------------------------------------- callbacks of the parser

    def on_message_begin(self) -> None:
        """Note that a head has begun."""
        self._bytes = max(1, self._bytes)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header, or a trailer, which nobody reads."""
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer; raises `HttpParserError` for a head that isn't one of HTTP/1.1."""
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        hosts = sum(name == b"host" for name, _ in self.headers)
        version = self.parser.get_http_version()
        wrong = version not in _VERSIONS or hosts > 1 or (version == "1.1" and not hosts)
        if wrong or size > self.limits.head_bytes or len(self.pipeline) >= _MOST_PIPELINED:
            raise httptools.HttpParserError
        self._offered = self.parser.should_upgrade()
        if self._offered:
            if self.parser.get_method() == b"CONNECT":
                raise httptools.HttpParserError
            return
        super().on_headers_complete()
        if not self.url.startswith(b"/"):  # no route may match a URL whose host isn't checked
            self.scope["path"] = self.url.decode("ascii")
        self._in_body, self._bytes = True, 0

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the next byte begins another head."""
        if self._offered:  # the parser doesn't read the body
            return
        self._in_body, self._bytes = False, 0
        super().on_message_complete()

    def _parse(self, data: bytes) -> bytes:
        """Parse what has arrived; return what is to be parsed after that.

        A request that offers another protocol, as Java's client does with HTTP/2, is parsed again without the offer.
        """
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
            lines += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
            self.parser = httptools.HttpRequestParser(self)
            return b"\r\n".join([*lines, b"", data[upgrade.args[0] :]])
        return b""

    def _break(self) -> None:
        """Refuse malformed HTTP with 400; requests before it are answered, then the connection is ended."""
        self._broken = True
        if self._answering and not self._in_body:
            self.cycle.keep_alive = False
            return
        self._refuse(400, f"request: expected HTTP/1.1 with a head of at most {self.limits.head_bytes:,} bytes")

    # ------------------------------------------------------------------------------------------------ deadlines

    @property
    def _answering(self) -> bool:
        """Whether a request is read or answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        """Start the deadline of the head or body phase when the phase begins."""
        idle = self.timeout_keep_alive_task is not None  # uvicorn's own timer
        in_head = not (self._in_body or self._answering or idle)
        phase = (self.cycle, self._in_body) if self._in_body or in_head else None
        if phase == self._phase or self.transport.is_closing():
            return
        self._phase = phase
        if self._phase_timer is not None:
            self._phase_timer.cancel()
            self._phase_timer = None
        if phase is not None:
            seconds = self.limits.head if in_head else self.limits.body
            self._waiting_since = self.loop.time()
            self._phase_timer = self.loop.call_later(seconds, self._time_out, seconds)

    def _time_out(self, seconds: float) -> None:
        if not self._in_body and not self._bytes:
            self.transport.close()  # a connection that a browser opened in advance; there is no request to answer
            return
        part = "body" if self._in_body else "head"
        self._refuse(408, f"request: expected its {part} within {seconds:g} seconds, found no end of it")

    def _watch_fetching(self) -> None:
        if self._fetch_timer is None and (unsent := self.transport.get_write_buffer_size()):
            self._unsent = unsent
            self._fetch_timer = self.loop.call_later(self.limits.fetch, self._check_fetching)

    def _check_fetching(self) -> None:
        """End a connection whose client reads below the slowest rate; otherwise check again later."""
        self._fetch_timer = None
        unsent = self.transport.get_write_buffer_size()
        if unsent and self._unsent - unsent < self.limits.slowest * self.limits.fetch:
            self.transport.abort()
        else:
            self._watch_fetching()

    # ------------------------------------------------------------------------------------ number of connections

    def _replace_longest(self) -> bool:
        """End the connection that has waited longest for its client; False if all have requests in progress."""
        others = [one for one in self.connections if isinstance(one, BoundedProtocol) and one is not self]
        longest = min(
            (one for one in others if one._waits_for_client), key=lambda one: one._waiting_since, default=None
        )
        if longest is None:
            return False
        self.connections.discard(longest)
        longest.transport.abort()
        return True

    @property
    def _waits_for_client(self) -> bool:
        """Whether it waits for its client: to complete a request, or to read a response."""
        in_progress = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        return not in_progress or self.flow.write_paused

    def _refuse(self, status: int, sentence: str) -> None:
        """Send an error response if none has begun, and end the connection in any case."""
        if self.transport.is_closing():
            return
        self._broken = True
        if self._answering:
            begun = self.cycle.response_started or bool(self.pipeline)
            self.cycle.disconnected = True  # so that the application sees that its client is gone
            self.cycle.message_event.set()
        else:
            begun = self._in_body
        if begun:
            self.transport.abort()
            return
        body = json.dumps({"error": sentence}).encode()
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
