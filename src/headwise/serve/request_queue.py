"""The request queue: one request at a time uses the models, in order, and none whose client has hung up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

MOST_WAITING = 32
T = TypeVar("T")


class QueueFull(Exception):
    """Too many requests wait already."""


class ClientGone(Exception):
    """The client has hung up; there is nobody to answer."""


class RequestQueue:
    """Runs requests that need a model one by one.

    The page sends a new request with every change and hangs up on the one before; what is still waiting then is never
    computed.
    """

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._turn = asyncio.Lock()
        self._most = most
        self._waiting = 0

    @property
    def idle(self) -> bool:
        """Whether nobody is served or waits, so that work in the background is in nobody's way."""
        return self._waiting == 0

    async def serve(self, request: Request, work: Callable[[], T]) -> T:
        """Run `work` when its turn comes; raises `QueueFull`, and `ClientGone` where the client has hung up."""
        if self._waiting >= self._most:
            raise QueueFull
        self._waiting += 1
        try:
            async with self._turn:
                if await request.is_disconnected():
                    raise ClientGone
                return await run_in_threadpool(work)
        finally:
            self._waiting -= 1
