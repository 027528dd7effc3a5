"""The request queue: requests use the models one at a time, in order; those of disconnected clients are dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from headwise.web.errors import ClientGone, QueueFull

MOST_WAITING = 32
T = TypeVar("T")


class RequestQueue:
    """Queue that runs requests that need a model one by one.

    The page sends a new request after every change and aborts the previous one; a request aborted while it waits is
    never computed.
    """

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._lock = asyncio.Lock()
        self._most = most
        self._waiting = 0

    @property
    def idle(self) -> bool:
        """Whether no request runs or waits, so that background work delays nobody."""
        return self._waiting == 0

    async def serve(self, request: Request, work: Callable[[], T]) -> T:
        """Run `work` after the requests before it; raises `QueueFull`, or `ClientGone` if the client disconnected."""
        if self._waiting >= self._most:
            raise QueueFull
        self._waiting += 1
        try:
            async with self._lock:
                if await request.is_disconnected():
                    raise ClientGone
                return await run_in_threadpool(work)
        finally:
            self._waiting -= 1
