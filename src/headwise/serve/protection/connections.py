"""What a connection may hold: time for a request's head and body, for an answer to be fetched, and a place at all.

    accepted ──► head (seconds) ──► body (seconds) ──► being answered ──► answer fetched (bytes a second)
                  ▲                                                               │
                  └─────────────────────────── idle (seconds) ◄───────────────────┘

uvicorn alone ends idle connections. A deadline counts from where its phase began, however many bytes have come since,
so a byte now and then doesn't prolong it. Where all places are taken, a new connection gets that of the one that has
waited longest for its request to be complete, or for its answer to be fetched: those who ask and listen are served
while others only hold on.
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
    """Of every connection, in seconds and bytes, and how many there may be.

    Attributes:
        head: seconds for a request's first line and headers.
        body: seconds for its body.
        idle: seconds between an answer and the next request.
        fetch: seconds in which a client has to fetch `slowest` bytes a second of what waits for it.
        slowest: see `fetch`.
        connections: how many at once.
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
    """Return a protocol for uvicorn that keeps to the limits."""
    return type("Bounded", (BoundedProtocol,), {"limits": limits})


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with a deadline for every phase of a connection, and a bound on their number."""

    limits = Limits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._phase: object = None
        self._timer: asyncio.TimerHandle | None = None
        self._fetching: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._since = 0.0  # when it began to wait for its client

    # ------------------------------------------------------------------------- what uvicorn and asyncio call

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, if need be that of the connection that waits longest; without one, say so and end."""
        super().connection_made(transport)
        self._since = self.loop.time()
        if len(self.connections) > self.limits.connections and not self._replace_longest():
            self._refuse(503, "the server has no place for another connection; try again in a moment")
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadlines."""
        for timer in (self._timer, self._fetching):
            if timer is not None:
                timer.cancel()
        self._timer = self._fetching = None
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Read on, and see which phase it has come to."""
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        """An answer is written; what its client doesn't fetch is watched until it has."""
        self._since = self.loop.time()
        super().on_response_complete()
        self._watch_fetching()

    def pause_writing(self) -> None:
        """Watch whether the client fetches what there is."""
        super().pause_writing()
        self._watch_fetching()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP with a sentence, or end the connection where an answer is under way."""
        self._refuse(
            400, f"request: expected HTTP/1.1 with a head of at most {self.limits.head_bytes:,} bytes"
        )

    # ------------------------------------------------------------------------------------------------ deadlines

    def _watch(self) -> None:
        """Begin the deadline of a phase when the phase begins."""
        reading = self.conn.their_state
        idle = reading is h11.IDLE and self.timeout_keep_alive_task is not None  # uvicorn's own timer
        phase = (self.cycle, reading) if reading in (h11.IDLE, h11.SEND_BODY) and not idle else None
        if phase == self._phase or self.transport.is_closing():
            return
        self._phase = phase
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if phase is not None:
            seconds = self.limits.head if reading is h11.IDLE else self.limits.body
            self._since = self.loop.time()
            self._timer = self.loop.call_later(seconds, self._late, reading, seconds)

    def _late(self, reading: object, seconds: float) -> None:
        if reading is h11.IDLE and not self.conn.trailing_data[0]:
            self.transport.close()  # a browser's connection in reserve; there is no request to answer
            return
        part = "head" if reading is h11.IDLE else "body"
        self._refuse(408, f"request: expected its {part} within {seconds:g} seconds, found no end of it")

    def _watch_fetching(self) -> None:
        if self._fetching is None and (unsent := self.transport.get_write_buffer_size()):
            self._unsent = unsent
            self._fetching = self.loop.call_later(self.limits.fetch, self._check_fetching)

    def _check_fetching(self) -> None:
        """End a connection whose client fetches less than the slowest rate; otherwise look again later."""
        self._fetching = None
        unsent = self.transport.get_write_buffer_size()
        if unsent and self._unsent - unsent < self.limits.slowest * self.limits.fetch:
            self.transport.abort()
        else:
            self._watch_fetching()

    # --------------------------------------------------------------------------------------------------- places

    def _replace_longest(self) -> bool:
        """End the connection that has waited longest for its client; False where all are being answered."""
        others = [one for one in self.connections if isinstance(one, BoundedProtocol) and one is not self]
        longest = min((one for one in others if one._waits), key=lambda one: one._since, default=None)
        if longest is None:
            return False
        self.connections.discard(longest)
        longest.transport.abort()
        return True

    @property
    def _waits(self) -> bool:
        """Whether it waits for its client: to ask, or to fetch an answer."""
        asked = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        return not asked or self.flow.write_paused

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer with a sentence where no answer has begun, and end the connection in any case."""
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            if self.cycle is not None and not self.cycle.response_complete:
                self.cycle.disconnected = True  # whoever works on it finds nobody to answer
                self.cycle.message_event.set()
            body = json.dumps({"error": sentence}).encode()
            headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
            answer = h11.Response(status_code=status, headers=[*headers, ("connection", "close")])
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
            self.transport.close()
        else:
            self.transport.abort()
