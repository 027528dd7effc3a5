"""Timeouts for every phase of a connection, and a limit on the number of connections.

    accepted ──► head (seconds) ──► body (seconds) ──► in progress ──► response read (bytes a second)
                  ▲                                                            │
                  └────────────────────────── idle (seconds) ◄─────────────────┘

uvicorn itself ends idle connections only. A deadline counts from the start of its phase, however many bytes have
arrived since, so a client that sends a byte now and then (slowloris) doesn't extend it. At the limit, a new connection
replaces the one that has waited longest for its client: for the rest of a request, or for its response to be read.
Active clients are served while others only hold connections open.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


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


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with a deadline for every phase and a limit on the number of connections."""

    limits = Limits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
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

    def handle_events(self) -> None:
        """Process the received events, then start the deadline of a new phase."""
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        """Start the fetch deadline if the client hasn't read the whole response yet."""
        self._waiting_since = self.loop.time()
        super().on_response_complete()
        self._watch_fetching()

    def pause_writing(self) -> None:
        """Start the fetch deadline, because the write buffer is full."""
        super().pause_writing()
        self._watch_fetching()

    def send_400_response(self, msg: str) -> None:
        """Refuse malformed HTTP with 400, or end the connection if a response has begun."""
        self._refuse(
            400, f"request: expected HTTP/1.1 with a head of at most {self.limits.head_bytes:,} bytes"
        )

    # ------------------------------------------------------------------------------------------------ deadlines

    def _watch(self) -> None:
        """Start the deadline of the head or body phase when the phase begins."""
        reading = self.conn.their_state
        idle = reading is h11.IDLE and self.timeout_keep_alive_task is not None  # uvicorn's own timer
        phase = (self.cycle, reading) if reading in (h11.IDLE, h11.SEND_BODY) and not idle else None
        if phase == self._phase or self.transport.is_closing():
            return
        self._phase = phase
        if self._phase_timer is not None:
            self._phase_timer.cancel()
            self._phase_timer = None
        if phase is not None:
            seconds = self.limits.head if reading is h11.IDLE else self.limits.body
            self._waiting_since = self.loop.time()
            self._phase_timer = self.loop.call_later(seconds, self._time_out, reading, seconds)

    def _time_out(self, reading: object, seconds: float) -> None:
        if reading is h11.IDLE and not self.conn.trailing_data[0]:
            self.transport.close()  # a connection that a browser opened in advance; there is no request to answer
            return
        part = "head" if reading is h11.IDLE else "body"
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
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.disconnected = True  # so that the application sees that its client is gone
                self.cycle.message_event.set()
            body = json.dumps({"error": sentence}).encode()
            headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
            response = h11.Response(status_code=status, headers=[*headers, ("connection", "close")])
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
            self.transport.close()
        else:
            self.transport.abort()
