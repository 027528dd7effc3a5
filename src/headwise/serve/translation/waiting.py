"""Waiting for work: until a deadline, in another thread, or for several at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from headwise.web.errors import ServiceError

_SHORT = 1_000  # characters, which are split or encoded in less than a millisecond
T = TypeVar("T")


@asynccontextmanager
async def deadline(seconds: float) -> AsyncIterator[None]:
    """Context manager that raises `ServiceError` (504) in its block after some seconds."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            yield
    except TimeoutError:
        raise ServiceError(
            504, "the translation took longer than the server's deadline; send less text at once"
        ) from None


async def away(texts: Sequence[str], work: Callable[[], T]) -> T:
    """Do work on texts: in another thread, so that other requests go on meanwhile, unless it takes less than that."""
    if sum(map(len, texts)) <= _SHORT:
        return work()
    return await asyncio.to_thread(work)


async def alone(lock: asyncio.Lock, work: Callable[[], T]) -> T:
    """Do work in another thread while the lock is held: to the work's end, also where this is cancelled before it."""
    await lock.acquire()
    working = asyncio.ensure_future(asyncio.to_thread(work))
    working.add_done_callback(lambda _: lock.release())
    return await asyncio.shield(working)


async def all_of(parts: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await coroutines at once; if one fails, cancel the others."""
    if len(parts) == 1:  # needs no task
        return [await parts[0]]
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
