"""One of several serving processes: forked from the parent after that has loaded the models, whose memory it shares.

It ends when it is told to (SIGTERM), after it has answered what it accepted. Where the parent closes its end of their
connection, because other workers have a newer model or because it has died, the worker takes no new connections, and
ends when its clients have left and its documents are translated.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import uvicorn

from headwise.extras import installed, optional_module
from headwise.serve.production import Production
from headwise.serve.shared import Shared
from headwise.web.app import ApplicationPart
from headwise.web.hosts import Hosts
from headwise.web.run_directories import RunDirectory
from headwise.web.server import BACKLOG, server

READY = b"r"  # what a worker sends when it takes requests
_PUBLISHED = 1.0  # seconds between two times that a worker tells the others how busy it is
_CLOSE = (b"connection", b"close")


@dataclass(frozen=True)
class Served:
    """What every worker serves.

    Attributes:
        runs: the runs, loaded.
        listener: the socket that all workers accept connections from.
        hosts: the host names to accept.
        page: makes the page in a worker.
        production: opens the translation service in a worker.
        threads: threads of a worker's computation.
    """

    runs: Mapping[str, RunDirectory]
    listener: socket.socket
    hosts: Hosts
    page: Callable[[], ApplicationPart]
    production: Callable[[Shared], Production]
    threads: int


def use_threads(count: int) -> None:
    """Set the number of PyTorch's threads, where PyTorch is installed."""
    if installed("torch"):
        optional_module("torch", "--workers").set_num_threads(count)


def work(served: Served, shared: Shared, parent: socket.socket) -> None:
    """Serve in this process until it is told to end."""
    use_threads(served.threads)
    production = served.production(shared)
    app = production.app(served.page(), served.hosts, watch=False)
    gc.collect()
    gc.freeze()
    # One connection at a time, so that those that come together are shared among the workers.
    serving = server(app, finish=production.limits.seconds_to_finish, accepted_at_once=1)
    # uvicorn sends the signals that ended it again at its end, for which the default would end this process at once.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: setattr(serving, "should_exit", True))
    asyncio.run(serve(serving, served.listener, production, parent))


async def serve(
    serving: uvicorn.Server, listener: socket.socket, production: Production, parent: socket.socket
) -> None:
    """Serve until the server is told to end, or the parent closes its end of the connection."""
    parent.setblocking(False)
    running = asyncio.ensure_future(serving.serve(sockets=[listener]))
    while not (serving.started or running.done()):
        await asyncio.sleep(0.01)
    beside: list[asyncio.Task[None]] = []
    if not (running.done() or serving.should_exit):
        listener.listen(BACKLOG)  # asyncio has set it to what it accepts at once
        beside = [
            asyncio.ensure_future(_publish(production)),
            asyncio.ensure_future(_drain(serving, listener, production, parent)),
        ]
        with suppress(BrokenPipeError):  # where the parent has closed it, which `_drain` sees
            parent.send(READY)
    await running
    for task in beside:
        task.cancel()


async def _publish(production: Production) -> None:
    while True:
        production.publish()
        await asyncio.sleep(_PUBLISHED)


async def _drain(
    serving: uvicorn.Server, listener: socket.socket, production: Production, parent: socket.socket
) -> None:
    """Wait until the parent closes the connection, then until nothing is in progress, and end the server."""
    loop = asyncio.get_running_loop()
    with suppress(ConnectionResetError):  # as it is closed where the parent hasn't read `READY` yet
        await loop.sock_recv(parent, 1)
    # asyncio drops a connection that it has just accepted if the server is closed before that has a transport.
    loop.remove_reader(listener)
    # Clients open a new connection for their next request, which another worker accepts.
    serving.config.encoded_headers.append(_CLOSE)
    serving.server_state.default_headers.append(_CLOSE)
    end = time.monotonic() + production.limits.document_seconds + production.limits.seconds
    in_progress = True  # perhaps: what was accepted just now isn't among the connections yet
    while in_progress and time.monotonic() < end:
        await asyncio.sleep(0.1)
        in_progress = bool(serving.server_state.connections or production.documents.translating)
    serving.should_exit = True
